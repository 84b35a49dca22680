/** What the outbox keeps of a receipt whose signature and proofs were verified. */
import { defined } from "../../shared/defined.js";
import type { Receipt } from "../../shared/wire/messages.js";
import { readProvenFact } from "../../shared/journal/proven-fact.js";
import type { AgentFact } from "../outbox/agent-fact.js";

export function receiptFact(receipt: Receipt, atMs: number): AgentFact {
  const { kind, versionId, position, backedUpTo, name, version, head, fact } = receipt;
  const content = fact === undefined ? undefined : readProvenFact(fact.entry);
  return {
    type: "receipt",
    atMs,
    kind,
    versionId,
    position,
    backedUpTo,
    name,
    version,
    ...(content?.type === "recorded" && content.isClaim ? { claim: true } : {}),
    ...defined({ head: head && { length: head.length, chain: head.chain, root: head.root } }),
  };
}
