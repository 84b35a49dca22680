/** Looks up the versions of a variable that a join condition relates to those of the variables before it. */
import type { CompiledCondition, CompiledSelect } from "./compiled-query.js";
import type { Binding } from "./operands.js";
import type { Candidate } from "./query-source.js";
import { inverseOf, type FamilyTree } from "./relatives.js";

export interface JoinLookup {
  /** The candidates that may fit, in their order. */
  readonly of: (binding: Binding) => Iterable<Candidate>;
  readonly text: string;
}

/** The first lookup that there is for each variable; undefined: all its candidates have to be looked at. */
export function joinLookups(
  { conditions }: CompiledSelect,
  candidates: readonly (readonly Candidate[])[],
  family: FamilyTree,
): readonly (JoinLookup | undefined)[] {
  return candidates.map((own, variable) => {
    for (const condition of conditions) {
      const lookup = lookupOf(condition, { variable, own, family });
      if (lookup !== undefined) return { of: lookup, text: condition.text };
    }
    return undefined;
  });
}

interface Level {
  readonly variable: number;
  readonly own: readonly Candidate[];
  readonly family: FamilyTree;
}

function lookupOf({ join, variables }: CompiledCondition, level: Level): JoinLookup["of"] | undefined {
  const { variable } = level;
  if (join === undefined || Math.max(...variables) !== variable) return undefined;
  return join.kind === "equal" ? equalLookup(join.sides, level) : familyLookup(join, level);
}

type Join<Kind> = Extract<NonNullable<CompiledCondition["join"]>, { readonly kind: Kind }>;

function equalLookup([a, b]: Join<"equal">["sides"], { variable, own }: Level): JoinLookup["of"] {
  const [mine, other] = a.need?.variable === variable ? [a, b] : [b, a];
  const byValue = new Map<unknown, Candidate[]>();
  const binding: Candidate[] = [];
  for (const candidate of own) {
    binding[variable] = candidate;
    const value = mine.valueOf(binding);
    if (value === undefined) continue;
    const same = byValue.get(value);
    if (same === undefined) byValue.set(value, [candidate]);
    else same.push(candidate);
  }
  return (bound) => byValue.get(other.valueOf(bound)) ?? [];
}

function familyLookup({ variable: first, relation, other }: Join<"lineage">, level: Level): JoinLookup["of"] {
  const { variable, own, family } = level;
  const asked = first === variable ? relation : inverseOf(relation);
  const bound = first === variable ? other : first;
  if (asked === "child") return childLookup(own, bound);
  const byId = new Map(own.map((candidate) => [candidate.row.versionId, candidate]));
  return (binding) => {
    const relative = binding[bound]?.row;
    if (relative === undefined) return [];
    const ids = asked === "parent" ? relative.record.bases : family.idsOf(asked, relative.versionId);
    const found = [...new Set(ids)].flatMap((id) => byId.get(id) ?? []);
    return found.sort((one, two) => two.row.position - one.row.position);
  };
}

/** The candidates themselves name their bases. */
function childLookup(own: readonly Candidate[], bound: number): JoinLookup["of"] {
  const byBase = new Map<string, Candidate[]>();
  for (const candidate of own)
    for (const base of new Set(candidate.row.record.bases)) {
      const siblings = byBase.get(base);
      if (siblings === undefined) byBase.set(base, [candidate]);
      else siblings.push(candidate);
    }
  return (binding) => byBase.get(binding[bound]?.row.versionId ?? "") ?? [];
}
