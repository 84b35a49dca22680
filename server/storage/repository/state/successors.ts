/**
 * Successors that a person declares: "version B comes after version A", whatever it was trained from (ModelHub,
 * MH15). A save can declare one in its record (`successorOf`); a fact declares or removes one at any time, and
 * prevails over the record. Pure.
 */
import { byOf } from "../../../../shared/journal/caller.js";
import type { SaveRecord } from "../../../../shared/model/model.js";
import { StemmaError } from "../../../../shared/errors.js";
import type { Hash } from "../../../../shared/tensor/tensor.js";
import type { FactOf } from "../../../../shared/journal/fact.js";

/** The state of one pair of versions, by its latest fact. */
export interface SuccessorState {
  readonly isRemoved: boolean;
  readonly atMs: number;
  readonly because: string;
  readonly by?: string;
}

export interface SuccessorFacts {
  /** Version → version that comes after it → the latest fact about the two. */
  readonly after: Map<Hash, Map<Hash, SuccessorState>>;
  /** Version → versions about which a fact states that this one comes after them, or does not any more. */
  readonly before: Map<Hash, Set<Hash>>;
}

/** One declared relation, seen from either of its versions. */
export interface DeclaredRelation {
  readonly versionId: Hash;
  /** The declaration; absent where the save record declares it. */
  readonly declared?: Omit<SuccessorState, "isRemoved">;
}

export function noSuccessors(): SuccessorFacts {
  return { after: new Map(), before: new Map() };
}

export function applySucceeded(successors: SuccessorFacts, fact: FactOf<"succeeded">): void {
  const { versionId, successor, removed = false, atMs, because } = fact;
  let after = successors.after.get(versionId);
  if (after === undefined) successors.after.set(versionId, (after = new Map<Hash, SuccessorState>()));
  after.set(successor, { isRemoved: removed, atMs, because, ...byOf(fact) });
  let before = successors.before.get(successor);
  if (before === undefined) successors.before.set(successor, (before = new Set<Hash>()));
  before.add(versionId);
}

/** The tables to look up relations in: facts, records, and the versions whose records name a predecessor. */
export interface RelationTable {
  readonly state: { readonly successors: SuccessorFacts };
  readonly records: { readonly get: (versionId: Hash) => SaveRecord | undefined };
  /** Version → versions whose save record declares that they come after it. */
  readonly bySuccessorOf: { readonly of: (versionId: Hash) => Iterable<Hash> };
}

export function successorsOf(table: RelationTable, versionId: Hash): readonly DeclaredRelation[] {
  const facts = table.state.successors.after.get(versionId);
  const recorded = [...table.bySuccessorOf.of(versionId)].filter((id) => facts?.has(id) !== true);
  return [...recorded.map((id) => ({ versionId: id })), ...[...(facts ?? [])].flatMap(declared)];
}

export function predecessorsOf(table: RelationTable, versionId: Hash): readonly DeclaredRelation[] {
  const { after, before } = table.state.successors;
  const facts = [...(before.get(versionId) ?? [])].flatMap((id) => {
    const state = after.get(id)?.get(versionId);
    return state === undefined ? [] : ([[id, state]] as const);
  });
  const recorded = table.records.get(versionId)?.successorOf;
  return [
    ...(recorded === undefined || facts.some(([id]) => id === recorded) ? [] : [{ versionId: recorded }]),
    ...facts.flatMap(declared),
  ];
}

function declared([versionId, state]: readonly [Hash, SuccessorState]): readonly DeclaredRelation[] {
  const { isRemoved, ...about } = state;
  return isRemoved ? [] : [{ versionId, declared: about }];
}

/** @throws NOT_ALLOWED for a version that would come after itself, directly or through others */
export function checkSuccessor(successors: SuccessorFacts, fact: FactOf<"succeeded">): void {
  if (fact.removed === true) return;
  const { versionId, successor } = fact;
  const seen = new Set<Hash>([successor]);
  for (const id of seen) for (const next of declaredAfter(successors, id)) seen.add(next);
  if (seen.has(versionId)) throw comesAfterItself(versionId, successor);
}

/**
 * The same for declarations that were applied, each version looked at once.
 * @param from versions about which something was declared
 * @throws NOT_ALLOWED
 */
export function checkSuccessors(successors: SuccessorFacts, from: Iterable<Hash>): void {
  const done = new Set<Hash>();
  /** The versions from one of `from` to the one that is looked at, each with those after it that are to be seen. */
  const path: { readonly id: Hash; readonly rest: Iterator<Hash> }[] = [];
  const onPath = new Set<Hash>();
  const enter = (id: Hash): void => {
    if (done.has(id)) return;
    path.push({ id, rest: declaredAfter(successors, id)[Symbol.iterator]() });
    onPath.add(id);
  };
  for (const start of from) {
    enter(start);
    for (let last = path.at(-1); last !== undefined; last = path.at(-1)) {
      const next = last.rest.next();
      if (next.done === true) {
        path.pop();
        onPath.delete(last.id);
        done.add(last.id);
      } else if (onPath.has(next.value)) throw comesAfterItself(last.id, next.value);
      else enter(next.value);
    }
  }
}

function declaredAfter({ after }: SuccessorFacts, versionId: Hash): readonly Hash[] {
  return [...(after.get(versionId) ?? [])].flatMap(([id, { isRemoved }]) => (isRemoved ? [] : [id]));
}

function comesAfterItself(versionId: Hash, successor: Hash): StemmaError {
  return new StemmaError(
    "NOT_ALLOWED",
    `${successor.slice(0, 12)} cannot be declared the successor of ${versionId.slice(0, 12)}: the latter comes ` +
      "after the former already, or is the same. `stemma model successor list` shows what is declared.",
    { versionId, successor },
  );
}
