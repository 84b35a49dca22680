/**
 * Runs a query. Variables are bound one after the other, in the order of `select`, each to the versions that its own
 * conditions leave; those that a join condition relates to the ones before are looked up, so that no product is made.
 */
import type { Hash } from "../../../shared/tensor/tensor.js";
import type { QueryAnswer } from "../../interface/api/models/query-definitions.js";
import type { VersionRow } from "../../storage/repository/row-keeper.js";
import { queryLimits, type QueryLimits } from "./budget.js";
import { compileSelect } from "./compile-query.js";
import type { CompiledCondition, CompiledSelect, Dependency } from "./compiled-query.js";
import { compileDerivation } from "./derive/compile-derivation.js";
import { deriveModels, type Derivation } from "./derive/derive-models.js";
import { derivedModelOf } from "./derive/derived-answer.js";
import type { EvaluationPlan, PlanInputs } from "./evaluate/plan-evaluation.js";
import type { Settings } from "./evaluate/settings.js";
import { findCandidates } from "./find-candidates.js";
import { joinLookups, type JoinLookup } from "./join-lookup.js";
import { parseQuery } from "./parse-query.js";
import { queryInvalid } from "./query-errors.js";
import { Run } from "./query-run.js";
import type { Candidate, QuerySource } from "./query-source.js";
import { SavedQueries } from "./saved-queries.js";
import type { Construct, Evaluate, Slice } from "./syntax.js";

export interface QueryPage {
  /** Results that are left out before the first. */
  readonly offset: number;
  readonly limit: number;
  /** The configuration and the seed of an evaluation. */
  readonly config?: Settings | undefined;
  readonly seed?: string | undefined;
}

export interface QueryResult extends Omit<QueryAnswer, "rows"> {
  readonly rows: readonly (readonly VersionRow[])[];
}

/** @throws QUERY_INVALID, QUERY_TOO_LARGE, MODEL_NOT_FOUND for a version that the query names */
export async function runQuery(
  source: QuerySource,
  text: string,
  { offset, limit, config, seed }: QueryPage,
  limits: QueryLimits = queryLimits,
): Promise<QueryResult> {
  const statement = parseQuery(text);
  const run = new Run(source, limits);
  if (statement.kind === "evaluate") return await plannedAnswer(statement, text, { run, config, seed });
  if (statement.kind !== "select") return await derivedAnswer(statement, text, run);
  const compiled = compileSelect(statement, text, new SavedQueries(source.saved));
  const found: (readonly VersionRow[])[] = [];
  let count = 0;
  let hasMore = false;
  for await (const binding of bindingsOf(compiled, run)) {
    if (count++ < offset) continue;
    if (found.length === limit && compiled.variables.length > 1) {
      hasMore = true;
      break;
    }
    if (found.length < limit) found.push(binding.map(({ row }) => row));
  }
  return {
    variables: compiled.variables,
    rows: found,
    total: hasMore ? null : count,
    ...knownOf(run),
  };
}

function knownOf(run: Run): Pick<QueryResult, "withoutNetwork" | "unreadable" | "plan"> {
  return { withoutNetwork: run.withoutNetwork.size, unreadable: run.unreadable.size, plan: run.plan };
}

async function plannedAnswer(
  statement: Evaluate,
  text: string,
  { run, config, seed }: { readonly run: Run } & Pick<QueryPage, "config" | "seed">,
): Promise<QueryResult> {
  const { planEvaluation } = await import("./evaluate/plan-evaluation.js");
  const { planAnswerOf } = await import("./evaluate/plan-answer.js");
  const plan = await planEvaluation(statement, text, { run, config, seed: seed ?? "0", find: finderOf(run) });
  return {
    variables: [statement.variable.name],
    rows: [],
    total: plan.candidates.length,
    ...knownOf(run),
    evaluation: planAnswerOf(plan, seed),
  };
}

/**
 * Checks a query for models that is to be saved, with those that it begins from.
 * @param saved texts by names, its own among them. @throws QUERY_INVALID, QUERY_TOO_LARGE
 */
export function checkModelsQuery(text: string, saved: ReadonlyMap<string, string>): void {
  const statement = parseQuery(text);
  const queries = new SavedQueries(saved);
  if (statement.kind === "evaluate")
    throw queryInvalid(text, 0, "an evaluation is not saved; its inner query can be");
  if (statement.kind !== "select") compileDerivation(statement, text, queries);
  else compileSelect(statement, text, queries);
}

/** The evaluation that a query describes. @throws as runQuery; QUERY_INVALID for one that describes none */
export async function plannedEvaluation(
  source: QuerySource,
  text: string,
  inputs: Omit<PlanInputs, "find">,
): Promise<EvaluationPlan> {
  const statement = parseQuery(text);
  if (statement.kind !== "evaluate") throw queryInvalid(text, 0, "only evaluate trains what it finds");
  const { planEvaluation } = await import("./evaluate/plan-evaluation.js");
  const run = new Run(source, queryLimits);
  return await planEvaluation(statement, text, { ...inputs, run, find: finderOf(run) });
}

/** Finds the versions of a query with one variable, the newest first. */
function finderOf(run: Run): PlanInputs["find"] {
  return async (select) => {
    const rows: VersionRow[] = [];
    for await (const [candidate] of bindingsOf(select, run)) if (candidate) rows.push(candidate.row);
    return rows;
  };
}

async function derivedAnswer(statement: Construct | Slice, text: string, run: Run): Promise<QueryResult> {
  const derivations = await derivationsOf(statement, text, run);
  return {
    variables: [statement.derived.name],
    rows: [],
    total: derivations.length,
    ...knownOf(run),
    derived: derivations.map((derivation) => derivedModelOf(derivation)),
  };
}

/**
 * The models that a query derives, oldest source first, to be saved.
 * @throws as runQuery; QUERY_INVALID for a query that selects
 */
export async function runDerivation(source: QuerySource, text: string): Promise<readonly Derivation[]> {
  const statement = parseQuery(text);
  if (statement.kind === "select" || statement.kind === "evaluate")
    throw queryInvalid(text, 0, "only what construct and slice derive can be saved");
  return await derivationsOf(statement, text, new Run(source, queryLimits));
}

async function derivationsOf(
  statement: Construct | Slice,
  text: string,
  run: Run,
): Promise<readonly Derivation[]> {
  const compiled = compileDerivation(statement, text, new SavedQueries(run.source.saved));
  const rows = await finderOf(run)(compiled.select);
  return await deriveModels(rows.toReversed(), compiled, run);
}

async function* bindingsOf(select: CompiledSelect, run: Run): AsyncGenerator<readonly Candidate[]> {
  for (const dependency of select.dependencies) dependency.ids = await idsOf(dependency, run);
  const among = select.source && (await selectedIds(select.source, run));
  const candidates: (readonly Candidate[])[] = [];
  for (const variable of select.variables.keys())
    candidates.push(await findCandidates(select, variable, among, run));
  const [only] = candidates;
  if (candidates.length === 1 && only !== undefined) for (const candidate of only) yield [candidate];
  else yield* new Join(select, candidates, run).bindings();
}

async function idsOf({ of }: Dependency, run: Run): Promise<ReadonlySet<Hash>> {
  if (!("relation" in of)) return await selectedIds(of, run);
  return run.family.idsOf(of.relation, run.source.resolve(of.reference));
}

/** The versions that a nested query selects. */
async function selectedIds(select: CompiledSelect, run: Run): Promise<ReadonlySet<Hash>> {
  const ids = new Set<Hash>();
  for await (const [candidate] of bindingsOf(select, run)) if (candidate) ids.add(candidate.row.versionId);
  return ids;
}

class Join {
  readonly #lookups: readonly (JoinLookup | undefined)[];
  /** The conditions that can be tested once each variable is bound. */
  readonly #conditions: readonly (readonly CompiledCondition[])[];
  readonly #binding: Candidate[] = [];
  #looked = 0;
  #kept = 0;

  constructor(
    private readonly select: CompiledSelect,
    private readonly candidates: readonly (readonly Candidate[])[],
    private readonly run: Run,
  ) {
    this.#lookups = joinLookups(select, candidates, run.family);
    this.#conditions = candidates.map((_, variable) =>
      select.conditions.filter(({ variables }) => variables.size > 1 && Math.max(...variables) === variable),
    );
  }

  async *bindings(): AsyncGenerator<readonly Candidate[]> {
    const lookups = this.#lookups.flatMap((lookup) => lookup?.text ?? []);
    try {
      yield* this.#from(0);
    } finally {
      this.run.note({
        variable: this.select.variables.join(", "),
        step: lookups.length === 0 ? "every combination" : `looked up by ${lookups.join(" and ")}`,
        lookedAt: this.#looked,
        kept: this.#kept,
      });
    }
  }

  async *#from(variable: number): AsyncGenerator<readonly Candidate[]> {
    const all = this.candidates[variable] ?? [];
    const lookup = this.#lookups[variable];
    const isLast = variable === this.candidates.length - 1;
    for (const candidate of lookup === undefined ? all : lookup.of(this.#binding)) {
      this.#binding[variable] = candidate;
      this.run.budget.spend(1);
      if (++this.#looked % 2000 === 0) await this.run.budget.pause();
      if (!this.#conditions[variable]?.every(({ test }) => test(this.#binding, this.run.work) === true))
        continue;
      if (!isLast) yield* this.#from(variable + 1);
      else {
        this.#kept++;
        yield [...this.#binding];
      }
    }
  }
}
