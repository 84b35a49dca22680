/**
 * Optimisers with complete state: what they keep can be read, saved, put back, and training goes on
 * with the same bits (MM9: the state of every stateful object). One fixed order of float32 operations
 * a step; factors that all numbers share are computed in float64 from + − × ÷ and square roots. Knows
 * no model: variables come with their leaf paths.
 */
import { StemmaError } from "../errors.js";
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
  adamax: "its state cannot be read in TensorFlow.js 4.22, so a training with it could not be continued or proved",
};

/** @throws OPTIMIZER_REFUSED for a name that is unknown or refused for a reason */
export function checkOptimizerName(name: string): OptimizerName {
  const known = optimizerNames.find((each) => each === name.toLowerCase());
  if (known !== undefined) return known;
  const reason = refusals[name.toLowerCase()];
  throw new StemmaError("OPTIMIZER_REFUSED", `The optimizer ${name.slice(0, 40)} ${reason === undefined ? "is unknown" : `is refused: ${reason}`}. Use one of ${optimizerNames.join(", ")}.`, { optimizer: name });
}

/** Settings with every default filled in, for the provenance record. */
export function resolveOptimizer(settings: OptimizerSettings): Required<OptimizerSettings> {
  const defaults = { momentum: settings.name === "momentum" ? 0.9 : 0, nesterov: false, decay: 0.9, centered: false, beta1: 0.9, beta2: 0.999, epsilon: settings.name === "adam" ? 1e-8 : 1e-7, initialAccumulator: 0.1 };
  return { ...defaults, ...settings };
}

/** A number of the state that all variables share (Adam's products of betas), as float64. */
export type SharedState = Readonly<Record<string, number>>;
/** One array of a variable's state, named "slot/layer/weight". */
export interface SlotState { readonly name: string; readonly shape: readonly number[]; readonly values: Float32Array }
export interface OptimizerState { readonly name: OptimizerName; readonly iterations: number; readonly shared: SharedState; readonly slots: readonly SlotState[] }

export interface NamedVariable { readonly path: string; readonly variable: TfVariable }

type Slots = Record<string, TfVariable>;
interface Rule {
  readonly slots: readonly string[];
  initial(slot: string, settings: Required<OptimizerSettings>): number;
  /** Advances the shared numbers once a step, before the variables. */
  advance?(shared: Record<string, number>, settings: Required<OptimizerSettings>): void;
  /** Sets the slots and returns what is subtracted from the variable. Called in a tidy. */
  update(tf: TensorFlow, gradient: TfTensor, slots: Slots, rate: number, shared: SharedState, settings: Required<OptimizerSettings>): TfTensor;
}

function slot(slots: Slots, name: string): TfVariable {
  const found = slots[name];
  if (found === undefined) throw new StemmaError("INTERNAL", `The optimizer's state ${name} was not prepared.`);
  return found;
}

const sgd: Rule = { slots: [], initial: () => 0, update: (tf, gradient, _slots, rate) => tf.mul(gradient, rate) };

const momentum: Rule = {
  slots: ["accumulated"], initial: () => 0,
  update(tf, gradient, slots, rate, _shared, settings) {
    const accumulated = slot(slots, "accumulated");
    accumulated.assign(tf.add(tf.mul(accumulated, settings.momentum), gradient));
    return tf.mul(settings.nesterov ? tf.add(gradient, tf.mul(accumulated, settings.momentum)) : accumulated, rate);
  },
};

const rmsprop: Rule = {
  slots: ["meanSquare", "mean", "accumulated"], initial: () => 0,
  update(tf, gradient, slots, rate, _shared, settings) {
    const meanSquare = slot(slots, "meanSquare"), accumulated = slot(slots, "accumulated");
    meanSquare.assign(tf.add(tf.mul(meanSquare, settings.decay), tf.mul(tf.square(gradient), 1 - settings.decay)));
    let spread: TfTensor = meanSquare;
    if (settings.centered) {
      const mean = slot(slots, "mean");
      mean.assign(tf.add(tf.mul(mean, settings.decay), tf.mul(gradient, 1 - settings.decay)));
      spread = tf.sub(meanSquare, tf.square(mean));
    }
    const step = tf.div(tf.mul(gradient, rate), tf.sqrt(tf.add(spread, settings.epsilon)));
    accumulated.assign(tf.add(tf.mul(accumulated, settings.momentum), step));
    return accumulated;
  },
};

const adagrad: Rule = {
  slots: ["sum"], initial: (_slot, settings) => settings.initialAccumulator,
  update(tf, gradient, slots, rate, _shared, settings) {
    const sum = slot(slots, "sum");
    sum.assign(tf.add(sum, tf.square(gradient)));
    return tf.div(tf.mul(gradient, rate), tf.sqrt(tf.add(sum, settings.epsilon)));
  },
};

/** Adam (Kingma and Ba, 2015) with the products of its betas kept in float64. */
const adam: Rule = {
  slots: ["first", "second"], initial: () => 0,
  advance(shared, settings) {
    shared["beta1Product"] = (shared["beta1Product"] ?? 1) * settings.beta1;
    shared["beta2Product"] = (shared["beta2Product"] ?? 1) * settings.beta2;
  },
  update(tf, gradient, slots, rate, shared, settings) {
    const first = slot(slots, "first"), second = slot(slots, "second");
    first.assign(tf.add(tf.mul(first, settings.beta1), tf.mul(gradient, 1 - settings.beta1)));
    second.assign(tf.add(tf.mul(second, settings.beta2), tf.mul(tf.square(gradient), 1 - settings.beta2)));
    const rootOfCorrection = Math.sqrt(1 - (shared["beta2Product"] ?? 0));
    const denominator = tf.add(tf.div(tf.sqrt(second), rootOfCorrection), settings.epsilon);
    return tf.mul(tf.div(first, denominator), rate / (1 - (shared["beta1Product"] ?? 0)));
  },
};

const rules: Readonly<Record<OptimizerName, Rule>> = { sgd, momentum, rmsprop, adagrad, adam };

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
      this.#slots.set(path, Object.fromEntries(this.#rule.slots.map((name) => [name, tf.tidy(() => tf.variable(tf.fill(variable.shape, this.#rule.initial(name, this.settings)), false))])));
    }
  }

  get iterations(): number { return this.#iterations; }

  /** One step; `gradients` by leaf path, a variable without one stays. */
  step(gradients: ReadonlyMap<string, TfTensor>, rate: number): void {
    this.#rule.advance?.(this.#shared, this.settings);
    for (const { path, variable } of this.#variables) {
      const gradient = gradients.get(path);
      if (gradient === undefined) continue;
      this.#tf.tidy(() => {
        const change = this.#rule.update(this.#tf, gradient, this.#slots.get(path) ?? {}, rate, this.#shared, this.settings);
        variable.assign(this.#tf.sub(variable, change));
      });
    }
    this.#iterations++;
  }

  /** All of the state, in the order of the variables. */
  state(): OptimizerState {
    const slots = this.#variables.flatMap(({ path, variable }) => Object.entries(this.#slots.get(path) ?? {}).map(([name, held]) => ({ name: `${name}/${path}`, shape: variable.shape, values: held.dataSync<"float32">().slice() })));
    return { name: this.settings.name, iterations: this.#iterations, shared: { ...this.#shared }, slots };
  }

  /** Puts a saved state back. @throws RECIPE_PARAMETERS_INVALID when it is another optimiser's or other variables' */
  restore(state: OptimizerState): void {
    const saved = new Map(state.slots.map((each) => [each.name, each]));
    const refuse = (what: string): never => { throw new StemmaError("RECIPE_PARAMETERS_INVALID", `The saved optimizer state does not fit: ${what}. Train without it, or with the settings it was saved under.`); };
    if (state.name !== this.settings.name) refuse(`it is of ${state.name}, this training uses ${this.settings.name}`);
    for (const { path, variable } of this.#variables) {
      for (const [name, held] of Object.entries(this.#slots.get(path) ?? {})) {
        const from = saved.get(`${name}/${path}`) ?? refuse(`${name} of the weight ${path} is missing`);
        if (from.values.length !== variable.size) refuse(`${name} of the weight ${path} has ${from.values.length} numbers, not ${variable.size}`);
        this.#tf.tidy(() => { held.assign(this.#tf.tensor(from.values, variable.shape)); });
        saved.delete(`${name}/${path}`);
      }
    }
    if (saved.size > 0) refuse(`it holds ${saved.size} arrays more than this training has`);
    Object.assign(this.#shared, state.shared);
    this.#iterations = state.iterations;
  }

  dispose(): void { for (const slots of this.#slots.values()) for (const held of Object.values(slots)) held.dispose(); }
}
