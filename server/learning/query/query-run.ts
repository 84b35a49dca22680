/** A running query, as its parts share it: its source, its budget, its plan, and what it could not know. */
import type { Hash } from "../../../shared/tensor/tensor.js";
import { Budget, type QueryLimits } from "./budget.js";
import type { QueryAnswer } from "../../interface/api/models/query-definitions.js";
import type { Work } from "./compiled-query.js";
import type { Candidate, Facet, QuerySource } from "./query-source.js";
import { FamilyTree } from "./relatives.js";

/** Versions whose objects are read between two looks at the time. */
const loadedTogether = 500;

export class Run {
  readonly budget: Budget;
  readonly family: FamilyTree;
  readonly work: Work;
  readonly plan: QueryAnswer["plan"][number][] = [];
  readonly withoutNetwork = new Set<Hash>();
  readonly unreadable = new Set<Hash>();

  constructor(
    readonly source: QuerySource,
    limits: QueryLimits,
  ) {
    this.budget = new Budget(limits, () => source.now());
    this.family = new FamilyTree(source, this.budget);
    this.work = {
      spend: (steps) => {
        this.budget.spend(steps);
      },
      isRelated: (...asked) => this.family.isRelated(...asked),
    };
  }

  note(step: QueryAnswer["plan"][number]): void {
    this.plan.push(step);
  }

  async load(facet: Facet, candidates: readonly Candidate[]): Promise<void> {
    for (let from = 0; from < candidates.length; from += loadedTogether) {
      this.budget.checkTime();
      const part = candidates.slice(from, from + loadedTogether);
      for (const id of await this.source.load(facet, part)) this.unreadable.add(id);
    }
    if (facet !== "network") return;
    for (const { row, network } of candidates)
      if (network === undefined) this.withoutNetwork.add(row.versionId);
  }
}
