/** Relatives of versions, as queries ask for them: through the bases of save records. */
import type { Hash } from "../../../shared/tensor/tensor.js";
import type { Budget } from "./budget.js";
import type { QuerySource } from "./query-source.js";
import type { Relation } from "./syntax.js";

/** Answers that are remembered: those of the versions asked about last. */
const maxRemembered = 64;
const inverses = {
  parent: "child",
  child: "parent",
  ancestor: "descendant",
  descendant: "ancestor",
} as const satisfies Record<Relation, Relation>;

export function inverseOf(relation: Relation): Relation {
  return inverses[relation];
}

export class FamilyTree {
  readonly #remembered = new Map<string, ReadonlySet<Hash>>();

  constructor(
    private readonly source: Pick<QuerySource, "basesOf" | "childrenOf">,
    private readonly budget: Budget,
  ) {}

  /** The versions that have this relation to `other`. */
  idsOf(relation: Relation, other: Hash): ReadonlySet<Hash> {
    const key = `${relation} ${other}`;
    const known = this.#remembered.get(key);
    if (known !== undefined) return known;
    const isUpwards = relation === "parent" || relation === "ancestor";
    const step = (id: Hash): Iterable<Hash> =>
      isUpwards ? this.source.basesOf(id) : this.source.childrenOf(id);
    const isOne = relation === "parent" || relation === "child";
    const found = isOne ? new Set(step(other)) : this.#reachedFrom(other, step);
    if (this.#remembered.size >= maxRemembered) this.#remembered.clear();
    this.#remembered.set(key, found);
    return found;
  }

  isRelated(version: Hash, relation: Relation, other: Hash): boolean {
    // The parents of a version are few, and its children may be many.
    if (relation === "child" || relation === "descendant")
      return this.idsOf(inverseOf(relation), version).has(other);
    return this.idsOf(relation, other).has(version);
  }

  #reachedFrom(start: Hash, step: (id: Hash) => Iterable<Hash>): ReadonlySet<Hash> {
    const reached = new Set<Hash>([start]);
    // A set gives its members in the order in which they came, also those that come meanwhile.
    for (const id of reached)
      for (const next of step(id)) {
        this.budget.spend(1);
        reached.add(next);
      }
    reached.delete(start);
    return reached;
  }
}
