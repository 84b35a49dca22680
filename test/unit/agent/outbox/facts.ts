/** Facts about versions identified by a number, for tests of the state that a journal gives. */
import type { AgentFact } from "../../../../agent/outbox/agent-fact.js";
import { emptyOutbox, OutboxFold } from "../../../../agent/outbox/outbox-fold.js";
import type { OutboxState } from "../../../../agent/outbox/outbox-state.js";
import { sha256 } from "../../../../shared/tensor/hash.js";
import type { Hash } from "../../../../shared/tensor/tensor.js";

export const id = (name: string | number): Hash => sha256(`version ${name}`);
export const saved = (number: number, bases: readonly Hash[] = [], line = "cam"): AgentFact => ({
  type: "saved",
  atMs: number,
  versionId: id(number),
  line,
  sequence: number,
  name: "m",
  bases,
  tensorBytes: 10,
  metric: null,
  samples: { from: number, to: number + 1 },
});
export const receipt = (
  number: number,
  kind: "recorded" | "stored" | "released",
  position = number,
  backedUpTo = 0,
): AgentFact => ({
  type: "receipt",
  atMs: 0,
  kind,
  versionId: id(number),
  position,
  backedUpTo,
  name: "m",
  version: number,
});

/** The state after facts that follow each other; `from` stays as it is. */
export function foldFacts(facts: Iterable<AgentFact>, from: OutboxState = emptyOutbox): OutboxState {
  const fold = new OutboxFold(from);
  for (const fact of facts) fold.apply(fact);
  return fold.state;
}
