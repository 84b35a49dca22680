/** A recipe is a registered, versioned training procedure with checked parameters. Types only. */
import type { Architecture } from "../../model/model.js";
import type { Tensor } from "../../tensor/tensor.js";
import type { SampleSet } from "../datasets/dataset.js";
import type { Streams } from "../../random/streams.js";
import type { FitPlan } from "../fit-plan.js";

export type ParameterValue = string | number | boolean;
export type Parameters = Readonly<Record<string, ParameterValue>>;

/** A parameter as `stemma recipe show` and help texts present it. */
export interface ParameterInfo {
  readonly name: string;
  readonly default: ParameterValue;
  readonly help: string;
}

/** A model as it is stored: its architecture, and its tensors in canonical leaf order. */
export interface StoredModel {
  readonly architecture: Architecture;
  readonly tensors: readonly Tensor[];
}

export interface Metric {
  readonly name: string;
  readonly unit: string;
  readonly lowerIsBetter: boolean;
}

export interface Recipe {
  readonly name: string;
  readonly version: number;
  readonly title: string;
  /** `any`: every kind of data. */
  readonly task: SampleSet["task"] | "any";
  readonly metric: Metric;
  /** The metric of a training with these parameters, where it is another one. */
  readonly metricOf?: ((parameters: Parameters) => Metric) | undefined;
  /**
   * Returns the parameters in the order of the help text. Base training and fine-tuning can have different defaults.
   */
  parameterInfo(fineTuning: boolean): readonly ParameterInfo[];
  /**
   * Checks the passed parameters and adds the defaults.
   * @throws RECIPE_PARAMETERS_INVALID naming the parameter
   */
  resolve(passed: Parameters, fineTuning: boolean): Parameters;
  /** Initialises a model for base training; draws all random numbers from `streams`. */
  initialModel(parameters: Parameters, data: SampleSet, streams: Streams): Promise<StoredModel> | StoredModel;
  /** The plan of the training loop. Pure; the layers to freeze are found in `architecture`. */
  plan(parameters: Parameters, architecture: Architecture, data: SampleSet): FitPlan;
}

/** A recipe as a training runs it: the plan of a fleet's own is made in another process. */
export interface RunnableRecipe extends Omit<Recipe, "plan"> {
  plan(parameters: Parameters, architecture: Architecture, data: SampleSet): Promise<FitPlan> | FitPlan;
}
