/**
 * Optimisers whose complete state can be read, saved and restored, so that training continues with the same
 * bits (MM9: the state of every stateful object). Does not know models: variables come with their leaf paths.
 */
import { StemmaError } from "../errors.js";
import { adagradStep, adamStep, momentumStep, rmsPropStep, sgdStep } from "./kernels/optimizer-step.js";
import type { TensorFlow, TfTensor, TfVariable } from "./tensorflow.js";

export const optimizerNames = ["sgd", "momentum", "rmsprop", "adagrad", "adam"] as const;
type OptimizerName = (typeof optimizerNames)[number];

export interface OptimizerSettings {
  readonly name: OptimizerName;
  /** momentum, rmsprop: fraction of the last step that is kept. */
  readonly momentum?: number;
  /** momentum: look ahead (Nesterov). */
  readonly nesterov?: boolean;
  /** rmsprop: fraction of the mean of squared gradients that is kept. */
  readonly decay?: number;
  /** rmsprop: subtract the square of the gradients' mean. */
  readonly centered?: boolean;
  readonly beta1?: number;
  readonly beta2?: number;
  readonly epsilon?: number;
  /** adagrad: initial value of the sums. */
  readonly initialAccumulator?: number;
}

/** Optimisers that are rejected, with the reason for the error message. */
const refusals: Readonly<Record<string, string>> = {
  adadelta: "in TensorFlow.js 4.22 it computes plain SGD, so a record of it would be wrong",
  adamax:
    "its state cannot be read in TensorFlow.js 4.22, so a training with it could not be continued or verified",
};

/**
 * Checks the name of an optimiser; upper and lower case are the same.
 * @throws OPTIMIZER_REFUSED for a name that is unknown or rejected
 */
export function checkOptimizerName(name: string): OptimizerName {
  const known = optimizerNames.find((each) => each === name.toLowerCase());
  if (known !== undefined) return known;
  const reason = refusals[name.toLowerCase()];
  throw new StemmaError(
    "OPTIMIZER_REFUSED",
    `The optimizer ${name.slice(0, 40)} ${reason === undefined ? "is unknown" : `is not offered: ${reason}`}. Use one of ${optimizerNames.join(", ")}.`,
    { optimizer: name },
  );
}

/** The settings with all defaults filled in, as the provenance record keeps them. */
export function resolveOptimizer(settings: OptimizerSettings): Required<OptimizerSettings> {
  const defaults = {
    momentum: settings.name === "momentum" ? 0.9 : 0,
    nesterov: false,
    decay: 0.9,
    centered: false,
    beta1: 0.9,
    beta2: 0.999,
    epsilon: settings.name === "adam" ? 1e-8 : 1e-7,
    initialAccumulator: 0.1,
  };
  return { ...defaults, ...settings };
}

/** State that all variables share, by name (Adam: the products of its betas, float64). */
type SharedState = Readonly<Record<string, number>>;
/** One array of a variable's state; the name is "slot/layer/weight". */
export interface SlotState {
  readonly name: string;
  readonly shape: readonly number[];
  readonly values: Float32Array;
}
export interface OptimizerState {
  readonly name: OptimizerName;
  readonly iterations: number;
  readonly shared: SharedState;
  readonly slots: readonly SlotState[];
}

/** A variable and its leaf path "layer/weight". */
interface NamedVariable {
  readonly path: string;
  readonly variable: TfVariable;
}

type Slots = Readonly<Record<string, TfVariable>>;
type Settings = Required<OptimizerSettings>;
/** The new weight, and the new slots by name; the caller assigns them. */
type Stepped = Readonly<Record<string, TfTensor | undefined>> & { readonly weight: TfTensor };

/** The values that a step of one variable is computed from. */
interface StepContext {
  readonly weight: TfTensor;
  readonly gradient: TfTensor;
  readonly slots: Slots;
  readonly learningRate: number;
  readonly shared: SharedState;
  readonly settings: Settings;
}

interface Rule {
  /** Names of the arrays that the optimiser keeps for each variable. */
  slots(settings: Settings): readonly string[];
  /** Initial value of all numbers in the slots. */
  initial(settings: Settings): number;
  /** Updates the shared state once per step, before the variables. */
  advance?(shared: Record<string, number>, settings: Settings): void;
  step(tf: TensorFlow, context: StepContext): Stepped;
}

function slot(slots: Slots, name: string): TfVariable {
  const found = slots[name];
  if (found === undefined)
    throw new StemmaError(
      "INTERNAL",
      `The training step cannot be computed: the optimizer has no state array ${name}. This is a fault of Stemma; report it.`,
    );
  return found;
}

/** The state that each optimiser keeps. The arithmetic is in kernels/optimizer-step.ts. */
const rules: Readonly<Record<OptimizerName, Rule>> = {
  sgd: {
    slots: () => [],
    initial: () => 0,
    step: (tf, { weight, gradient, learningRate }) => ({
      ...sgdStep(tf, { weight, gradient }, { learningRate }),
    }),
  },
  momentum: {
    slots: () => ["accumulator"],
    initial: () => 0,
    step: (tf, { weight, gradient, slots, learningRate, settings: { momentum, nesterov } }) => ({
      ...momentumStep(
        tf,
        { weight, gradient, accumulator: slot(slots, "accumulator") },
        { learningRate, momentum, nesterov },
      ),
    }),
  },
  rmsprop: {
    slots: ({ centered }) => ["meanSquare", "moment", ...(centered ? ["meanGradient"] : [])],
    initial: () => 0,
    step(tf, { weight, gradient, slots, learningRate, settings }) {
      const { decay, momentum, epsilon, centered } = settings;
      const inputs = {
        weight,
        gradient,
        meanSquare: slot(slots, "meanSquare"),
        moment: slot(slots, "moment"),
        ...(centered ? { meanGradient: slot(slots, "meanGradient") } : {}),
      };
      return { ...rmsPropStep(tf, inputs, { learningRate, decay, momentum, epsilon }) };
    },
  },
  adagrad: {
    slots: () => ["accumulator"],
    initial: ({ initialAccumulator }) => initialAccumulator,
    step: (tf, { weight, gradient, slots, learningRate, settings: { epsilon } }) => ({
      ...adagradStep(
        tf,
        { weight, gradient, accumulator: slot(slots, "accumulator") },
        { learningRate, epsilon },
      ),
    }),
  },
  adam: {
    slots: () => ["first", "second"],
    initial: () => 0,
    advance(shared, { beta1, beta2 }) {
      shared["beta1Product"] = (shared["beta1Product"] ?? 1) * beta1;
      shared["beta2Product"] = (shared["beta2Product"] ?? 1) * beta2;
    },
    step(tf, { weight, gradient, slots, learningRate, shared, settings: { beta1, beta2, epsilon } }) {
      const inputs = { weight, gradient, first: slot(slots, "first"), second: slot(slots, "second") };
      return {
        ...adamStep(tf, inputs, {
          learningRate,
          beta1,
          beta2,
          epsilon,
          beta1Product: shared["beta1Product"] ?? 0,
          beta2Product: shared["beta2Product"] ?? 0,
        }),
      };
    },
  },
};

/** An optimiser for a fixed set of variables. `dispose` frees its state. */
export class Optimizer {
  readonly settings: Required<OptimizerSettings>;
  readonly #tf: TensorFlow;
  readonly #rule: Rule;
  readonly #variables: readonly NamedVariable[];
  readonly #slots = new Map<string, Slots>();
  readonly #shared: Record<string, number> = {};
  #iterations = 0;

  /** @throws OPTIMIZER_REFUSED */
  constructor(tf: TensorFlow, settings: OptimizerSettings, variables: readonly NamedVariable[]) {
    this.#tf = tf;
    this.settings = resolveOptimizer({ ...settings, name: checkOptimizerName(settings.name) });
    this.#rule = rules[this.settings.name];
    this.#variables = variables;
    for (const { path, variable } of variables) {
      const initial = this.#rule.initial(this.settings);
      this.#slots.set(
        path,
        Object.fromEntries(
          this.#rule
            .slots(this.settings)
            .map((name) => [name, tf.tidy(() => tf.variable(tf.fill(variable.shape, initial), false))]),
        ),
      );
    }
  }

  /**
   * Changes all variables by one step. `gradients` is by leaf path; a variable without a gradient does not
   * change.
   */
  step(gradients: ReadonlyMap<string, TfTensor>, learningRate: number): void {
    this.#rule.advance?.(this.#shared, this.settings);
    for (const { path, variable } of this.#variables) {
      const gradient = gradients.get(path);
      if (gradient === undefined) continue;
      const slots = this.#slots.get(path) ?? {};
      this.#tf.tidy(() => {
        const stepped = this.#rule.step(this.#tf, {
          weight: variable,
          gradient,
          slots,
          learningRate,
          shared: this.#shared,
          settings: this.settings,
        });
        variable.assign(stepped.weight);
        for (const [name, held] of Object.entries(slots)) held.assign(stepped[name] as TfTensor);
      });
    }
    this.#iterations++;
  }

  /** A copy of the complete state, in the order of the variables. */
  state(): OptimizerState {
    return {
      ...this.numbers(),
      slots: this.slots().map(({ name, shape, read }) => ({ name, shape, values: read().slice() })),
    };
  }

  /** The state without its arrays. */
  numbers(): Omit<OptimizerState, "slots"> {
    return { name: this.settings.name, iterations: this.#iterations, shared: { ...this.#shared } };
  }

  /** The arrays of the state, in the order of the variables; each is read when it is asked for. */
  slots(): readonly (Pick<SlotState, "name" | "shape"> & { readonly read: () => Float32Array })[] {
    return this.#variables.flatMap(({ path, variable }) =>
      Object.entries(this.#slots.get(path) ?? {}).map(([name, held]) => ({
        name: `${name}/${path}`,
        shape: variable.shape,
        read: () => held.dataSync<"float32">(),
      })),
    );
  }

  /**
   * Restores a saved state.
   * @throws RECIPE_PARAMETERS_INVALID when the state is of another optimiser or of other variables
   */
  restore(state: OptimizerState): void {
    const saved = new Map(state.slots.map((each) => [each.name, each]));
    const refuse = (problem: string): never => {
      throw new StemmaError(
        "RECIPE_PARAMETERS_INVALID",
        `The saved optimizer state does not fit: ${problem}. Train without it, or with the settings it was saved with.`,
      );
    };
    if (state.name !== this.settings.name)
      refuse(`it belongs to ${state.name}, this training uses ${this.settings.name}`);
    for (const { path, variable } of this.#variables) {
      for (const [name, held] of Object.entries(this.#slots.get(path) ?? {})) {
        const from = saved.get(`${name}/${path}`) ?? refuse(`${name} of the weight ${path} is missing`);
        if (from.values.length !== variable.size)
          refuse(`${name} of the weight ${path} has ${from.values.length} numbers, not ${variable.size}`);
        this.#tf.tidy(() => {
          held.assign(this.#tf.tensor(from.values, variable.shape));
        });
        saved.delete(`${name}/${path}`);
      }
    }
    if (saved.size > 0) refuse(`it has ${saved.size} arrays more than this training`);
    Object.assign(this.#shared, state.shared);
    this.#iterations = state.iterations;
  }

  dispose(): void {
    for (const slots of this.#slots.values()) for (const held of Object.values(slots)) held.dispose();
  }
}
