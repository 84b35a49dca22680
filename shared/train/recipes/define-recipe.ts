/**
 * Makes a recipe from its parameter table, its model and the layers it freezes; everything else is common.
 */
import type { Architecture, LeafLayer } from "../../model/model.js";
import type { SampleSet } from "../datasets/dataset.js";
import type { FitPlan, LossName } from "../fit-plan.js";
import type { Streams } from "../../random/streams.js";
import {
  infoOf,
  namedLayersOf,
  numberOf,
  optimizerOf,
  resolveParameters,
  scheduleOf,
  type ParameterTable,
} from "./recipe-parameters.js";
import type { Metric, StoredModel, Parameters, Recipe } from "./recipe.js";

interface RecipeDefinition {
  readonly name: string;
  readonly version: number;
  readonly title: string;
  readonly task: Recipe["task"];
  /** The loss of the only output, or a function that gives that of each output. */
  readonly loss: LossName | ((parameters: Parameters, data: SampleSet) => FitPlan["loss"]);
  readonly metric: Metric;
  readonly parameters: ParameterTable;
  initialModel(parameters: Parameters, data: SampleSet, streams: Streams): StoredModel;
  /** True if training does not change layers of this class and configuration. */
  freezes(parameters: Parameters, className: string, config: LeafLayer["config"]): boolean;
  /** The factors of the loss of a sample of each class in a step; 1 when absent. */
  readonly classWeights?: (parameters: Parameters, data: SampleSet) => FitPlan["classWeights"];
}

/** Makes a recipe. Its plan reads the parameters of `trainingParameters` from the table. */
export function defineRecipe(definition: RecipeDefinition): Recipe {
  const { name, version, title, task, metric, loss, parameters: table } = definition;
  return {
    name,
    version,
    title,
    task,
    metric,
    parameterInfo: (fineTuning) => infoOf(table, fineTuning),
    resolve: (passed, fineTuning) => resolveParameters(name, table, passed, fineTuning),
    initialModel: (parameters, data, streams) => definition.initialModel(parameters, data, streams),
    plan(parameters, architecture: Architecture, data: SampleSet): FitPlan {
      const named = namedLayersOf(name, parameters, architecture);
      return {
        loss: typeof loss === "string" ? loss : loss(parameters, data),
        epochs: numberOf(parameters, "epochs"),
        batchSize: numberOf(parameters, "batchSize"),
        patience: numberOf(parameters, "patience"),
        optimizer: optimizerOf(parameters),
        schedule: scheduleOf(parameters),
        clipNorm: numberOf(parameters, "clipNorm"),
        shiftPixels: numberOf({ shiftPixels: 0, ...parameters }, "shiftPixels"),
        checkpointEveryEpochs: numberOf(parameters, "checkpointEveryEpochs"),
        classWeights: definition.classWeights?.(parameters, data),
        frozenLayers: architecture.layers.flatMap(({ className, config }, index) =>
          definition.freezes(parameters, className, config) || named.has(index) ? [index] : [],
        ),
      };
    },
  };
}
