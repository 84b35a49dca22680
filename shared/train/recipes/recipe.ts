/** What a recipe is: a registered, versioned training procedure with checked parameters. Types only. */
import type { Architecture } from "../../model/model.js";
import type { Tensor } from "../../tensor/tensor.js";
import type { SampleSet } from "../datasets/dataset.js";
import type { Streams } from "../../random/streams.js";
import type { FitPlan } from "../fit-plan.js";

export type ParameterValue = string | number | boolean;
export type Parameters = Readonly<Record<string, ParameterValue>>;

/** A parameter as people see it (`stemma recipe show`, help texts). */
export interface ParameterInfo {
  readonly name: string;
  readonly default: ParameterValue;
  readonly help: string;
}

/** A model at rest: architecture and tensors in canonical leaf order. */
export interface ModelAtRest {
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
  readonly task: SampleSet["task"];
  readonly metric: Metric;
  /** In the order help shows them. Base training and fine-tuning may have other defaults. */
  parameterInfo(fineTuning: boolean): readonly ParameterInfo[];
  /** Fills defaults in. @throws RECIPE_PARAMETERS_INVALID naming the parameter */
  resolve(passed: Parameters, fineTuning: boolean): Parameters;
  /** A fresh model for base training; every random number from `streams`. */
  initialModel(parameters: Parameters, data: SampleSet, streams: Streams): Promise<ModelAtRest> | ModelAtRest;
  /** What the training loop does; pure. `architecture` says which layers may be frozen. */
  plan(parameters: Parameters, architecture: Architecture, data: SampleSet): FitPlan;
}
