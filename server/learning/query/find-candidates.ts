/**
 * Finds the versions that a variable may stand for: first by what the fleet's state has a list of, then by the
 * conditions on this variable alone, those that need no object of the store before those that do.
 */
import type { Hash } from "../../../shared/tensor/tensor.js";
import type { FoundRows, RowFilter } from "../../storage/repository/row-keeper.js";
import { combined } from "./compile-query.js";
import type { CompiledCondition, CompiledSelect } from "./compiled-query.js";
import type { Run } from "./query-run.js";
import { facets, type Candidate, type Facet } from "./query-source.js";

/** Larger sets of ids are not looked up one by one. */
const maxIdsLookedUp = 1000;

/** The facets of a variable that conditions need, the cheapest first. */
function facetsOf(conditions: readonly CompiledCondition[], variable: number): readonly Facet[] {
  const needs = conditions.flatMap((condition) => condition.needs);
  return facets.filter((facet) => needs.some((need) => need.variable === variable && need.facet === facet));
}

/** @param among ids of the versions that the query begins from; undefined: all */
export async function findCandidates(
  { variables, conditions }: CompiledSelect,
  variable: number,
  among: ReadonlySet<Hash> | undefined,
  run: Run,
): Promise<readonly Candidate[]> {
  const name = variables[variable] ?? "";
  const own = conditions.filter(
    (condition) =>
      [...condition.variables].every((each) => each === variable) &&
      (condition.variables.size > 0 || variable === 0),
  );
  const filter = joinedFilter(own, among);
  const startedMs = run.source.now();
  const { rows, by, looked } = await run.source.find(filter);
  // The first query of a process reads what later ones have in memory.
  run.budget.allow(run.source.now() - startedMs);
  run.note({ variable: name, step: wayText(by, filter), lookedAt: looked, kept: rows.length });
  let candidates: readonly Candidate[] = rows.map((row): Candidate => ({ row })).reverse();
  if (among !== undefined) candidates = candidates.filter(({ row }) => among.has(row.versionId));
  const dearest = (condition: CompiledCondition): Facet | undefined => facetsOf([condition], variable).at(-1);
  for (const facet of [undefined, ...facets]) {
    const stage = own.filter((condition) => dearest(condition) === facet);
    if (stage.length > 0) candidates = await keepTrue(candidates, { stage, variable, name }, run);
  }
  const joins = conditions.filter((condition) => condition.variables.size > 1);
  for (const facet of facetsOf(joins, variable)) await run.load(facet, candidates);
  return candidates;
}

interface Stage {
  readonly stage: readonly CompiledCondition[];
  readonly variable: number;
  readonly name: string;
}

async function keepTrue(
  candidates: readonly Candidate[],
  { stage, variable, name }: Stage,
  run: Run,
): Promise<readonly Candidate[]> {
  const wanted = facetsOf(stage, variable);
  for (const facet of wanted) await run.load(facet, candidates);
  const binding: Candidate[] = [];
  const kept: Candidate[] = [];
  const { test, text } = combined("and", stage);
  let unknown = 0;
  for (const [index, candidate] of candidates.entries()) {
    if (index % (wanted.length === 0 ? 2000 : 100) === 99) await run.budget.pause();
    binding[variable] = candidate;
    const truth = test(binding, run.work);
    if (truth === true) kept.push(candidate);
    if (truth === undefined) unknown++;
  }
  const networks = new Set(
    wanted.includes("network") ? candidates.flatMap(({ network }) => network ?? []) : [],
  );
  run.note({
    variable: name,
    step: text,
    lookedAt: candidates.length,
    kept: kept.length,
    ...(unknown === 0 ? {} : { unknown }),
    ...(wanted.includes("network") ? { networks: networks.size } : {}),
  });
  return kept;
}

/** The conditions that narrow most: of several sets of ids the smallest, of several names the first. */
function joinedFilter(own: readonly CompiledCondition[], among: ReadonlySet<Hash> | undefined): RowFilter {
  const filters = own.flatMap(({ filter }) => filter?.() ?? []);
  const sets = [...filters.flatMap(({ ids }) => ids ?? []), ...(among === undefined ? [] : [among])];
  const [ids] = sets.filter(({ size }) => size <= maxIdsLookedUp).sort((a, b) => a.size - b.size);
  const { ids: _, ...others }: RowFilter = Object.assign({}, ...filters.toReversed()) as RowFilter;
  return ids === undefined ? others : { ...others, ids };
}

function wayText(by: FoundRows["by"], { namePrefix, recordedFromMs }: RowFilter): string {
  const way = by === "all" ? "all versions" : `versions by ${by}`;
  const isNarrowed = Boolean(namePrefix) || recordedFromMs !== undefined;
  return isNarrowed ? `${way}, by the beginning of names or times of recording` : way;
}
