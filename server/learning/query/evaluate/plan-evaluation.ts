/**
 * Plans `evaluate` (MH, section III-B): the models of its inner query, each with each combination of settings, and what
 * is judged after how many steps. Nothing is trained.
 */
import { weightSlots } from "../../../../shared/model/architecture.js";
import { commonPrefix } from "../../../../shared/model/common-prefix.js";
import { tensorByteLength } from "../../../../shared/tensor/dtype.js";
import type { Hash } from "../../../../shared/tensor/tensor.js";
import { recipes } from "../../../../shared/train/recipes/registry.js";
import type { VersionRow } from "../../../storage/repository/row-keeper.js";
import { checkName } from "../../../storage/repository/state/naming.js";
import { compileSelect } from "../compile-query.js";
import type { CompiledSelect } from "../compiled-query.js";
import { compileDerivation, type CompiledDerivation } from "../derive/compile-derivation.js";
import { deriveModels, type DerivedModel } from "../derive/derive-models.js";
import { matchOf } from "../patterns.js";
import { failIn, queryTooLarge, versionGone } from "../query-errors.js";
import type { Run } from "../query-run.js";
import { SavedQueries } from "../saved-queries.js";
import type { Evaluate, Models } from "../syntax.js";
import {
  compileEvaluation,
  maxCandidates,
  tooManyCandidates,
  type Combination,
  type CompiledEvaluation,
  type OwnProgram,
} from "./compile-evaluation.js";
import { judgedSteps, roundsOf, type Round } from "./keep-rule.js";
import { rateOfFrozen, type Settings } from "./settings.js";

const maxSteps = 10_000_000;

/** Weights of new layers that a stored model has, after the same layers (EvoStore, EV1). */
export interface InheritedWeights {
  readonly row: VersionRow;
  /** Paths in the derived model → paths in the stored one; only of weights that would be drawn. */
  readonly paths: ReadonlyMap<string, string>;
  readonly bytes: number;
}

/** A model that candidates are trained from: a version, or one that is derived of it. */
export interface PlannedModel {
  readonly row: VersionRow;
  /** `name:version` of a stored model, the name that a derived one would be saved by. */
  readonly title: string;
  /** The name by which what is kept is saved. */
  readonly keptName: string;
  readonly derived?: {
    readonly name: string;
    readonly model: DerivedModel;
    /** The weights that are not drawn; absent: no stored model has such layers. */
    readonly inherited?: InheritedWeights;
  };
  readonly layers: readonly { readonly name: string; readonly hasWeights: boolean }[];
}

export interface PlannedCandidate {
  readonly number: number;
  readonly model: PlannedModel;
  readonly combination: Combination;
  /** Indices of the layers that stay as they are. */
  readonly frozenLayers: readonly number[];
  /** Rates of layers by their indices, where a program of the user's own trains them at other ones. */
  readonly layerRates?: ReadonlyMap<number, number>;
}

/** The parameters of a candidate's training, with the layers that it treats otherwise. */
export function parametersOf({ combination, frozenLayers, layerRates }: PlannedCandidate): Settings {
  return {
    ...combination.parameters,
    ...(frozenLayers.length === 0 ? {} : { frozenLayers: frozenLayers.join(",") }),
    ...(layerRates && {
      layerRates: [...layerRates].map(([layer, rate]) => `${layer}=${rate}`).join(","),
    }),
  };
}

export interface EvaluationPlan {
  readonly query: CompiledEvaluation;
  readonly models: readonly PlannedModel[];
  readonly candidates: readonly PlannedCandidate[];
  readonly rounds: readonly Round[];
  /** Models, and combinations of settings, that are not among the candidates, with the reason. */
  readonly notMade: readonly {
    readonly name: string;
    readonly settings: Settings;
    readonly reason: string;
  }[];
}

export interface PlanInputs {
  /** The configuration in the file that the query names; undefined: none was sent. */
  readonly config: Settings | undefined;
  readonly seed: string;
  /** The user's own program that trains; undefined: it is not known, or engines train. */
  readonly program?: OwnProgram | undefined;
  /** The versions that were found before, in their order; absent: those that the inner query finds now. */
  readonly found?: readonly Hash[];
  /** The versions that derived models were to inherit from then, in the order of the models. */
  readonly sources?: readonly (Hash | null)[];
  /** Finds the versions of a query for models. */
  readonly find: (select: CompiledSelect) => Promise<readonly VersionRow[]>;
}

/** @throws QUERY_INVALID, QUERY_TOO_LARGE */
export async function planEvaluation(
  statement: Evaluate,
  text: string,
  { run, ...inputs }: PlanInputs & { readonly run: Run },
): Promise<EvaluationPlan> {
  const fail = failIn(text);
  const { config, seed, program } = inputs;
  if (config === undefined) return fail(statement.config.at, "no configuration was sent with the query");
  const compiledModels = compileModels(statement, text, run);
  const query = compileEvaluation(statement, text, {
    config,
    seed,
    recipeOf: (name) => recipes.find((recipe) => recipe.name === name),
    program,
  });
  const notMade: { name: string; settings: Settings; reason: string }[] = [];
  const models = await findModels(compiledModels, {
    ...inputs,
    run,
    variable: statement.variable.name,
    refuse: (name, reason) => notMade.push({ name, settings: {}, reason }),
  });
  const count = models.length * query.combinations.length;
  if (count > maxCandidates) throw tooManyCandidates(count);
  const candidates: PlannedCandidate[] = [];
  for (const model of models)
    for (const combination of query.combinations) {
      const layers = ratesOf(model, combination);
      if (typeof layers === "string")
        notMade.push({ name: model.title, settings: combination.varied, reason: layers });
      else candidates.push({ number: candidates.length + 1, model, combination, ...layers });
    }
  const rounds = roundsOf(query.rule, candidates.length);
  const steps = judgedSteps(rounds) ?? 0;
  if (steps > maxSteps)
    throw queryTooLarge(
      `would train ${steps} steps, more than ${maxSteps}`,
      "Judge after fewer steps, or vary fewer settings.",
    );
  return { query, models, candidates, rounds, notMade };
}

type CompiledModels =
  | { readonly select: CompiledSelect; readonly derivation?: undefined }
  | { readonly select: CompiledSelect; readonly derivation: CompiledDerivation };

function compileModels({ models }: Evaluate, text: string, run: Run): CompiledModels {
  const saved = new SavedQueries(run.source.saved);
  const compile = (statement: Models, of: string): CompiledModels => {
    if (statement.kind !== "select") {
      const derivation = compileDerivation(statement, of, saved);
      return { select: derivation.select, derivation };
    }
    const second = statement.variables[1];
    if (second !== undefined) failIn(of)(second.at, "candidates are made of one variable's models");
    return { select: compileSelect(statement, of, saved) };
  };
  return models.kind === "literal" ? saved.use(models, failIn(text), compile) : compile(models, text);
}

interface Finding extends PlanInputs {
  readonly run: Run;
  readonly variable: string;
  readonly refuse: (name: string, reason: string) => void;
}

/** Oldest first. */
async function findModels(
  { select, derivation }: CompiledModels,
  { run, found, sources, find, variable, refuse }: Finding,
): Promise<readonly PlannedModel[]> {
  const rows =
    found === undefined
      ? (await find(select)).toReversed()
      : inOrder(found, (await run.source.find({ ids: new Set(found), withRetired: true })).rows);
  const models: PlannedModel[] = [];
  const add = (model: Omit<PlannedModel, "keptName">, name: string): void => {
    const keptName = `${name}-${variable}`;
    try {
      checkName("model", keptName);
      models.push({ ...model, keptName });
    } catch (error) {
      refuse(model.title, (error as Error).message);
    }
  };
  if (derivation !== undefined) {
    for (const { row, name, result } of await deriveModels(rows, derivation, run)) {
      if ("reason" in result) {
        refuse(name, result.reason);
        continue;
      }
      const inherited = await inheritedBy(result, run, sources && (sources[models.length] ?? null));
      const derived = { name, model: result, ...(inherited && { inherited }) };
      add({ row, title: name, derived, layers: layersOf(result) }, name);
    }
    return models;
  }
  if (rows.length > maxCandidates) throw tooManyCandidates(rows.length);
  for (const row of rows) {
    const title = `${row.name}:${row.version}`;
    const stored = await run.source.storedNetwork(row);
    await run.budget.pause();
    if (stored === undefined) refuse(title, "its network is not known");
    else add({ row, title, layers: layersOf({ ...stored, names: stored.names.layers ?? [] }) }, row.name);
  }
  return models;
}

/**
 * The weights that a derived model takes over instead of drawing them.
 * @param source the version that was found before; null: none, undefined: it is looked for
 * @throws MODEL_RETIRED where the version is gone since
 */
async function inheritedBy(
  { architecture, drawers }: DerivedModel,
  { source: models }: Run,
  source: Hash | null | undefined,
): Promise<InheritedWeights | undefined> {
  if (source === null || drawers.every((draw) => draw === undefined)) return undefined;
  const id = source ?? (await models.nearest(architecture));
  const [row] =
    id === undefined
      ? []
      : (await models.find({ ids: new Set([id]), withRetired: source !== undefined })).rows;
  if (source !== undefined && row === undefined) throw versionGone(source);
  const stored = row && (await models.storedNetwork(row));
  if (row === undefined || stored === undefined) return undefined;
  const common = new Map(
    commonPrefix(architecture, stored.architecture).weights.map(({ child, ancestor }) => [child, ancestor]),
  );
  const drawn = weightSlots(architecture).filter(({ path }, leaf) => drawers[leaf] && common.has(path));
  if (drawn.length === 0) return undefined;
  return {
    row,
    paths: new Map(drawn.map(({ path }) => [path, common.get(path) as string])),
    bytes: drawn.reduce((sum, { dtype, shape }) => sum + tensorByteLength(dtype, shape), 0),
  };
}

function inOrder(ids: readonly Hash[], rows: readonly VersionRow[]): readonly VersionRow[] {
  const byId = new Map(rows.map((row) => [row.versionId, row]));
  return ids.flatMap((id) => byId.get(id) ?? []);
}

function layersOf({
  architecture,
  names,
}: Pick<DerivedModel, "architecture" | "names">): PlannedModel["layers"] {
  return architecture.layers.map(({ weights }, at) => ({
    name: names[at] ?? String(at),
    hasWeights: weights.length > 0,
  }));
}

/** The layers that a combination treats otherwise than the others, or why it cannot be had of this model. */
function ratesOf(
  { layers }: PlannedModel,
  { layerRates }: Combination,
): Pick<PlannedCandidate, "frozenLayers" | "layerRates"> | string {
  const rates = new Map<number, number>();
  for (const { name, layers: pattern, rate } of layerRates) {
    const found = layers.flatMap((layer, at) =>
      layer.hasWeights && matchOf(pattern, layer.name) !== undefined ? [at] : [],
    );
    if (found.length === 0) return `config.${name} finds no layer with weights`;
    for (const index of found) {
      const other = rates.get(index) ?? rate;
      if (other !== rate)
        return `the layer ${layers[index]?.name ?? index} gets two rates, ${other} and ${rate}`;
      rates.set(index, rate);
    }
  }
  const inOrder = [...rates].sort(([a], [b]) => a - b);
  const frozenLayers = inOrder.flatMap(([index, rate]) => (rate === rateOfFrozen ? [index] : []));
  const others = inOrder.filter(([, rate]) => rate !== rateOfFrozen);
  if (
    frozenLayers.length > 0 &&
    layers.every(({ hasWeights }, at) => !hasWeights || rates.get(at) === rateOfFrozen)
  )
    return "no layer would be trained";
  return { frozenLayers, ...(others.length > 0 && { layerRates: new Map(others) }) };
}
