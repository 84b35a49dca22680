/** A query as functions: what its conditions need, test and find. Types only. */
import type { Hash } from "../../../shared/tensor/tensor.js";
import type { RowFilter } from "../../storage/repository/row-keeper.js";
import type { Binding, CompiledOperand, Need, Truth } from "./operands.js";
import type { Relation } from "./syntax.js";

/** Ids that are looked up before the conditions that use them: a nested query's, or the relatives of a version. */
export interface Dependency {
  readonly of:
    CompiledSelect | { readonly relation: Relation; readonly reference: string; readonly at: number };
  ids: ReadonlySet<Hash>;
}

/** A way to find the versions of one variable by those of another one, without a look at all pairs. */
export type JoinPath =
  | { readonly kind: "equal"; readonly sides: readonly [CompiledOperand, CompiledOperand] }
  | {
      readonly kind: "lineage";
      readonly variable: number;
      readonly relation: Relation;
      readonly other: number;
    };

/** The services that conditions use while they are tested. */
export interface Work {
  /** Counts steps. @throws QUERY_TOO_LARGE */
  spend(steps: number): void;
  isRelated(version: Hash, relation: Relation, other: Hash): boolean;
}

export interface CompiledCondition {
  readonly variables: ReadonlySet<number>;
  readonly needs: readonly Need[];
  readonly test: (binding: Binding, work: Work) => Truth;
  /** Finds the versions of its only variable that may meet it; for a condition that all results meet. */
  readonly filter?: () => RowFilter;
  readonly join?: JoinPath;
  /** The condition as it is written, on one line. */
  readonly text: string;
}

export type Untitled = Omit<CompiledCondition, "text">;

export interface CompiledSelect {
  readonly variables: readonly string[];
  readonly source: CompiledSelect | undefined;
  /** All of them are to be true. */
  readonly conditions: readonly CompiledCondition[];
  readonly dependencies: readonly Dependency[];
}
