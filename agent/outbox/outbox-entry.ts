/** A version in the outbox, as the fact that brought it there tells it. Pure. */
import type { AgentFactOf } from "./agent-fact.js";
import type { OutboxEntry } from "./outbox-state.js";

/** A version of a `saved` or `adopted` fact, before it is given to its line. */
export function entryOf(fact: AgentFactOf<"saved" | "adopted">): OutboxEntry {
  const common = {
    versionId: fact.versionId,
    line: fact.line,
    lines: [],
    orders: {},
    tensorBytes: fact.tensorBytes,
    ...(fact.type === "saved" && fact.usesBytes !== undefined ? { usesBytes: fact.usesBytes } : {}),
    savedAtMs: fact.atMs,
    name: fact.name,
    refusal: undefined,
    claimedAtMs: undefined,
    position: undefined,
  };
  return fact.type === "saved"
    ? {
        ...common,
        origin: "trained",
        sequence: fact.sequence,
        bases: fact.bases,
        metric: fact.metric,
        samples: fact.samples,
        standing: "pending",
        backedUp: false,
        version: undefined,
      }
    : {
        ...common,
        origin: "adopted",
        sequence: 0,
        bases: [],
        metric: null,
        samples: null,
        standing: "released",
        backedUp: true,
        version: fact.version,
      };
}
