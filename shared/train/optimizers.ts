/**
 * Optimisers with complete state: what they keep can be read, saved, put back, and training goes on
 * with the same bits (MM9: the state of every stateful object). Knows no model: variables come with their
 * leaf paths.
 */
import { StemmaError } from "../errors.js";
import { adagradStep, adamStep, momentumStep, rmsPropStep, sgdStep } from "./kernels/optimizer-step.js";
import type { TensorFlow, TfTensor, TfVariable } from "./tensorflow.js";

export const optimizerNames = ["sgd", "momentum", "rmsprop", "adagrad", "adam"] as const;
export type OptimizerName = (typeof optimizerNames)[number];

export interface OptimizerSettings {
  readonly name: OptimizerName;
  /** momentum, rmsprop: part of the last step that is kept. */
  readonly momentum?: number;
  /** momentum: look ahead (Nesterov). */
  readonly nesterov?: boolean;
  /** rmsprop: part of the squared gradients' mean that is kept. */
  readonly decay?: number;
  /** rmsprop: subtract the squared mean of the gradients. */
  readonly centered?: boolean;
  readonly beta1?: number;
  readonly beta2?: number;
  readonly epsilon?: number;
  /** adagrad: first value of the sums. */
  readonly initialAccumulator?: number;
}

/** Why some optimisers are refused; the text goes into the error. */
const refusals: Readonly<Record<string, string>> = {
  adadelta: "in TensorFlow.js 4.22 it computes plain SGD, so a record of it would lie",
  adamax:
    "its state cannot be read in TensorFlow.js 4.22, so a training with it could not be continued or proved",
};

/** @throws OPTIMIZER_REFUSED for a name that is unknown or refused for a reason */
export function checkOptimizerName(name: string): OptimizerName {
  const known = optimizerNames.find((each) => each === name.toLowerCase());
  if (known !== undefined) return known;
  const reason = refusals[name.toLowerCase()];
  throw new StemmaError(
    "OPTIMIZER_REFUSED",
    `The optimizer ${name.slice(0, 40)} ${reason === undefined ? "is unknown" : `is refused: ${reason}`}. Use one of ${optimizerNames.join(", ")}.`,
    { optimizer: name },
  );
}

/** Settings with every default filled in, for the provenance record. */
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

/** A number of the state that all variables share (Adam's products of its betas, float64). */
export type SharedState = Readonly<Record<string, number>>;
/** One array of a variable's state, named "slot/layer/weight". */
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

export interface NamedVariable {
  readonly path: string;
  readonly variable: TfVariable;
}

type Slots = Readonly<Record<string, TfVariable>>;
type Settings = Required<OptimizerSettings>;
/** New weight and new slots; the caller assigns them. */
type Stepped = Readonly<Record<string, TfTensor | undefined>> & { readonly weight: TfTensor };

interface Rule {
  slots(settings: Settings): readonly string[];
  initial(settings: Settings): number;
  /** Advances the numbers that all variables share, once a step, ahead of them. */
  advance?(shared: Record<string, number>, settings: Settings): void;
  step(
    tf: TensorFlow,
    weight: TfTensor,
    gradient: TfTensor,
    slots: Slots,
    learningRate: number,
    shared: SharedState,
    settings: Settings,
  ): Stepped;
}

function slot(slots: Slots, name: string): TfVariable {
  const found = slots[name];
  if (found === undefined)
    throw new StemmaError("INTERNAL", `The optimizer's state ${name} was not prepared.`);
  return found;
}

/** What each optimiser keeps; the arithmetic, one kernel a variable, is in kernels/optimizer-step.ts. */
const rules: Readonly<Record<OptimizerName, Rule>> = {
  sgd: {
    slots: () => [],
    initial: () => 0,
    step: (tf, weight, gradient, _slots, learningRate) => ({
      ...sgdStep(tf, weight, gradient, { learningRate }),
    }),
  },
  momentum: {
    slots: () => ["accumulator"],
    initial: () => 0,
    step: (tf, weight, gradient, slots, learningRate, _shared, { momentum, nesterov }) => ({
      ...momentumStep(tf, weight, gradient, slot(slots, "accumulator"), { learningRate, momentum, nesterov }),
    }),
  },
  rmsprop: {
    slots: ({ centered }) => ["meanSquare", "moment", ...(centered ? ["meanGradient"] : [])],
    initial: () => 0,
    step(tf, weight, gradient, slots, learningRate, _shared, { decay, momentum, epsilon, centered }) {
      const state = {
        meanSquare: slot(slots, "meanSquare"),
        moment: slot(slots, "moment"),
        ...(centered ? { meanGradient: slot(slots, "meanGradient") } : {}),
      };
      return { ...rmsPropStep(tf, weight, gradient, state, { learningRate, decay, momentum, epsilon }) };
    },
  },
  adagrad: {
    slots: () => ["accumulator"],
    initial: ({ initialAccumulator }) => initialAccumulator,
    step: (tf, weight, gradient, slots, learningRate, _shared, { epsilon }) => ({
      ...adagradStep(tf, weight, gradient, slot(slots, "accumulator"), { learningRate, epsilon }),
    }),
  },
  adam: {
    slots: () => ["first", "second"],
    initial: () => 0,
    advance(shared, { beta1, beta2 }) {
      shared["beta1Product"] = (shared["beta1Product"] ?? 1) * beta1;
      shared["beta2Product"] = (shared["beta2Product"] ?? 1) * beta2;
    },
    step(tf, weight, gradient, slots, learningRate, shared, { beta1, beta2, epsilon }) {
      return {
        ...adamStep(tf, weight, gradient, slot(slots, "first"), slot(slots, "second"), {
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

/** One optimiser over a fixed set of variables. `dispose` frees its state. */
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

  get iterations(): number {
    return this.#iterations;
  }

  /** One step; `gradients` by leaf path, a variable without one stays. */
  step(gradients: ReadonlyMap<string, TfTensor>, rate: number): void {
    this.#rule.advance?.(this.#shared, this.settings);
    for (const { path, variable } of this.#variables) {
      const gradient = gradients.get(path);
      if (gradient === undefined) continue;
      const slots = this.#slots.get(path) ?? {};
      this.#tf.tidy(() => {
        const stepped = this.#rule.step(
          this.#tf,
          variable,
          gradient,
          slots,
          rate,
          this.#shared,
          this.settings,
        );
        variable.assign(stepped.weight);
        for (const [name, held] of Object.entries(slots)) held.assign(stepped[name] as TfTensor);
      });
    }
    this.#iterations++;
  }

  /** All of the state, in the order of the variables. */
  state(): OptimizerState {
    const slots = this.#variables.flatMap(({ path, variable }) =>
      Object.entries(this.#slots.get(path) ?? {}).map(([name, held]) => ({
        name: `${name}/${path}`,
        shape: variable.shape,
        values: held.dataSync<"float32">().slice(),
      })),
    );
    return { name: this.settings.name, iterations: this.#iterations, shared: { ...this.#shared }, slots };
  }

  /**
   * Puts a saved state back. @throws RECIPE_PARAMETERS_INVALID when it is another optimiser's or other
   * variables'
   */
  restore(state: OptimizerState): void {
    const saved = new Map(state.slots.map((each) => [each.name, each]));
    const refuse = (what: string): never => {
      throw new StemmaError(
        "RECIPE_PARAMETERS_INVALID",
        `The saved optimizer state does not fit: ${what}. Train without it, or with the settings it was saved under.`,
      );
    };
    if (state.name !== this.settings.name)
      refuse(`it is of ${state.name}, this training uses ${this.settings.name}`);
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
    if (saved.size > 0) refuse(`it holds ${saved.size} arrays more than this training has`);
    Object.assign(this.#shared, state.shared);
    this.#iterations = state.iterations;
  }

  dispose(): void {
    for (const slots of this.#slots.values()) for (const held of Object.values(slots)) held.dispose();
  }
}
