/**
 * Ensembles over another recipe. Bagging (Breiman, Bagging Predictors, 1996): each member is trained on samples drawn
 * with replacement. Random subspaces (Ho, The Random Subspace Method, 1998): each member sees some of the columns. Both
 * have the same parameters and the same shape of record, so that two of them can be compared.
 */
import { StemmaError } from "../../errors.js";
import type { Streams } from "../../random/streams.js";
import { outputsOf, sampleLength, type SampleSet } from "../datasets/dataset.js";
import { outputShape } from "../datasets/target-form.js";
import { joinMembers, membersOf, type MemberOutput } from "../ensembles/ensemble-model.js";
import { drawColumns, withColumns } from "../ensembles/member-samples.js";
import { memberSamples } from "../ensembles/train-member.js";
import type { FitPlan } from "../fit-plan.js";
import { factorizationClassification, factorizationRegression } from "./factorization-machine.js";
import {
  choice,
  infoOf,
  numberOf,
  parameter,
  resolveParameters,
  textOf,
  whole,
  type ParameterTable,
} from "./recipe-parameters.js";
import type { Parameters, Recipe, StoredModel } from "./recipe.js";
import { sequenceClassification, sequenceRegression } from "./sequence.js";
import { linearRegression, logisticRegression } from "./table-linear.js";
import { classifierChains, multiLabel } from "./table-networks.js";

type Kind = "bagging" | "random-subspaces";

const tableRecipes = [
  logisticRegression,
  linearRegression,
  factorizationClassification,
  factorizationRegression,
  multiLabel,
  classifierChains,
];
const innerRecipes: Readonly<Record<Kind, readonly Recipe[]>> = {
  bagging: [...tableRecipes, sequenceClassification, sequenceRegression],
  "random-subspaces": tableRecipes,
};

/** The parameters that the members of an ensemble do not have, because they belong to a single training loop. */
const notOfMembers = ["checkpointEveryEpochs", "keepOptimizer", "resumeOptimizer"] as const;

function tableOf(kind: Kind): ParameterTable {
  const [first = "", ...others] = innerRecipes[kind].map(({ name }) => name);
  return {
    inner: parameter(
      choice(first, ...others),
      first,
      first,
      "recipe that trains each member; its own parameters are set by their names, as for that recipe alone",
    ),
    members: parameter(whole(2, 100), 10, 10, "number of members (base training)"),
    shareThousandths:
      kind === "bagging"
        ? parameter(
            whole(1, 10_000),
            1000,
            1000,
            "samples that are drawn for each member, in thousandths of the training samples",
          )
        : parameter(
            whole(1, 1000),
            500,
            500,
            "columns that each member sees, in thousandths of all columns (base training)",
          ),
    vote: parameter(
      choice("probabilities", "majority"),
      "probabilities",
      "probabilities",
      "classification: the mean of the members' probabilities, or one vote for each member (base training)",
    ),
  };
}

/** Parameters of the ensemble, and those of its inner recipe. */
interface Divided {
  readonly inner: Recipe;
  readonly own: Parameters;
  readonly ofInner: Parameters;
}

function divide(kind: Kind, table: ParameterTable, parameters: Parameters, fineTuning: boolean): Divided {
  const entries = Object.entries(parameters);
  const isOwn = (name: string): boolean => Object.hasOwn(table, name);
  const own = resolveParameters(
    kind,
    table,
    Object.fromEntries(entries.filter(([name]) => isOwn(name))),
    fineTuning,
  );
  const passed = Object.fromEntries(entries.filter(([name]) => !isOwn(name)));
  const unusable = notOfMembers.find(
    (name) => passed[name] !== undefined && passed[name] !== false && passed[name] !== 0,
  );
  if (unusable !== undefined)
    throw new StemmaError(
      "RECIPE_PARAMETERS_INVALID",
      `The recipe ${kind} does not take the parameter ${unusable}: members keep neither checkpoints nor the state ` +
        "of their optimizers. Leave it out.",
      { recipe: kind, parameter: unusable },
    );
  const name = textOf(own, "inner");
  const inner = innerRecipes[kind].find((each) => each.name === name) as Recipe;
  return { inner, own, ofInner: inner.resolve(passed, fineTuning) };
}

/** @throws RECIPE_PARAMETERS_INVALID */
function requireTask(kind: Kind, inner: Recipe, { task }: SampleSet): void {
  if (inner.task !== task)
    throw new StemmaError(
      "RECIPE_PARAMETERS_INVALID",
      `The recipe ${kind} trains members by ${inner.name}, which is for ${inner.task}, and the data is for ${task}. ` +
        `Set inner to one of ${innerRecipes[kind].map(({ name }) => name).join(", ")}.`,
      { recipe: kind, parameter: "inner" },
    );
}

/** @throws RECIPE_PARAMETERS_INVALID */
function columnCount(kind: Kind, own: Parameters, data: SampleSet): number | undefined {
  if (kind === "bagging") return undefined;
  const features = sampleLength(data);
  if (data.inputShape.length !== 1 || features < 2)
    throw new StemmaError(
      "RECIPE_PARAMETERS_INVALID",
      `The recipe ${kind} takes rows of two columns or more, the data has samples of shape ` +
        `[${data.inputShape.join(", ")}]. Choose a table, or the recipe bagging.`,
      { recipe: kind },
    );
  return Math.max(1, Math.floor((features * numberOf(own, "shareThousandths")) / 1000));
}

function drawnCount(kind: Kind, own: Parameters, { train }: SampleSet): number | undefined {
  if (kind !== "bagging") return undefined;
  return Math.max(1, Math.floor((train.count * numberOf(own, "shareThousandths")) / 1000));
}

function outputOf({ task }: SampleSet, own: Parameters): MemberOutput {
  if (task === "regression") return "numbers";
  if (task === "general") return "sigmoid";
  return textOf(own, "vote") === "majority" ? "majority" : "softmax";
}

async function newEnsemble(
  kind: Kind,
  { inner, own, ofInner }: Divided,
  data: SampleSet,
  streams: Streams,
): Promise<StoredModel> {
  requireTask(kind, inner, data);
  const count = columnCount(kind, own, data);
  const drawn = drawnCount(kind, own, data);
  const members = [];
  for (let index = 0; index < numberOf(own, "members"); index++) {
    const its = streams.following(index);
    const columns =
      count === undefined ? undefined : drawColumns(sampleLength(data), count, its.stream("columns"));
    const seen = memberSamples(data, { columns, drawn }, its);
    members.push({ model: await inner.initialModel(ofInner, seen, its), columns });
  }
  const width = outputsOf(data)
    .flatMap(outputShape)
    .reduce((product, size) => product * size, 1);
  return joinMembers(members, { inputShape: data.inputShape, output: outputOf(data, own), width });
}

function ensembleRecipe(kind: Kind, title: string): Recipe {
  const table = tableOf(kind);
  // Resolved parameters are resolved once more without a change: every one of them is given.
  const divided = (parameters: Parameters): Divided => divide(kind, table, parameters, false);
  return {
    name: kind,
    version: 1,
    task: "any",
    metric: { name: "loss", unit: "", lowerIsBetter: true },
    title,
    metricOf: (parameters) => divided(parameters).inner.metric,
    // The parameters of the default inner recipe stand for those of all.
    parameterInfo: (fineTuning) => [
      ...infoOf(table, fineTuning),
      ...(innerRecipes[kind][0]?.parameterInfo(fineTuning) ?? []),
    ],
    resolve(passed, fineTuning) {
      const { own, ofInner } = divide(kind, table, passed, fineTuning);
      return { ...own, ...ofInner };
    },
    initialModel: (parameters, data, streams) => newEnsemble(kind, divided(parameters), data, streams),
    plan(parameters, architecture, data): FitPlan {
      const { inner, own, ofInner } = divided(parameters);
      requireTask(kind, inner, data);
      const members = membersOf(architecture);
      const [first] = members;
      if ((first?.selection === undefined) !== (kind === "bagging"))
        throw new StemmaError(
          "RECIPE_PARAMETERS_INVALID",
          `The recipe ${kind} only continues from models that it made itself, and the members of this one ` +
            `${first?.selection === undefined ? "see all columns" : "see some columns only"}. Choose another base.`,
          { recipe: kind },
        );
      const columns = first?.architecture.layers[0]?.config["batch_input_shape"] as readonly number[];
      const seen =
        first?.selection === undefined
          ? data
          : withColumns(
              data,
              Array.from({ length: columns[1] ?? 0 }, (_, column) => column),
            );
      const member = inner.plan(ofInner, first?.architecture ?? architecture, seen);
      return {
        ...member,
        ensemble: { kind, members: members.length, drawn: drawnCount(kind, own, data), member },
        frozenLayers: members.flatMap(({ constantLayers, firstLayer }) => [
          ...constantLayers,
          ...member.frozenLayers.map((layer) => layer - 1 + firstLayer),
        ]),
      };
    },
  };
}

export const bagging: Recipe = ensembleRecipe(
  "bagging",
  "ensemble over another recipe, whose members are trained on samples drawn with replacement (bagging)",
);
export const randomSubspaces: Recipe = ensembleRecipe(
  "random-subspaces",
  "ensemble over another recipe, whose members each see some columns of a table (random subspaces)",
);
