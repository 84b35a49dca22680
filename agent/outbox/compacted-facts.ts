/** The state of an outbox as facts, with which a compaction replaces its journal. Pure. */
import type { AgentFact, CompactedPart } from "./agent-fact.js";
import { restOf } from "./outbox-fold.js";
import type { OutboxState } from "./outbox-state.js";

/** Receipts and activations of one fact of a compaction; a fact has to fit into one entry of the journal. */
const partLength = 1000;

/** The facts that give a state again. */
export function compactedFacts(state: OutboxState, atMs: number): AgentFact[] {
  const parts: CompactedPart[] = [{ outbox: restOf(state) }];
  for (const { versions: _, activations, ...line } of state.lines.values()) {
    parts.push({ line });
    for (let at = 0; at < activations.length; at += partLength)
      parts.push({ activations: activations.slice(at, at + partLength) });
  }
  for (const version of state.entries.values()) parts.push({ version });
  const receipts = [...state.receipts.values()];
  for (let at = 0; at < receipts.length; at += partLength)
    parts.push({ receipts: receipts.slice(at, at + partLength) });
  return parts.map((part) => ({ type: "compacted", atMs, part }));
}
