/** A proof that a fact is in the journal of a server, checked with nothing but the server's public key. Pure. */
import { StemmaError } from "../errors.js";
import { hashBytes } from "../tensor/hash.js";
import type { Hash } from "../tensor/tensor.js";
import type { SignedHead } from "./journal.js";
import { logLeaf, toHash, verifyConsistency, verifyInclusion, type LogRoot } from "./merkle-log.js";

export interface FactProof {
  readonly position: number;
  /** The fact as it is in the journal; null where it has the hash of a secret. */
  readonly fact: string | null;
  readonly leaf: Hash;
  /** The journal of so many facts, in which it is proven to be. */
  readonly log: LogRoot;
  readonly inclusion: readonly Hash[];
  /** A head of at least as many facts. */
  readonly head: SignedHead;
  /** The proof that `log` is the start of the journal with this head. */
  readonly consistency: readonly Hash[];
}

/** Checks the proof, but not the head's signature (`verifyHead`). @throws JOURNAL_DIFFERS */
export function checkFactProof({ position, fact, leaf, log, inclusion, head, consistency }: FactProof): void {
  if (fact !== null && toHash(logLeaf(Buffer.from(fact, "utf8"))) !== leaf)
    throw differs(`the fact ${position} is not the one that was proven: its hash is another`);
  const { length, root } = log;
  if (!verifyInclusion({ leaf: hashBytes(leaf), position, length, proof: inclusion, root }))
    throw differs(`the fact ${position} is not in the journal of ${length} facts that the proof names`);
  if (!verifyConsistency({ from: log, to: head, proof: consistency }))
    throw differs(
      `the journal of ${length} facts in which the fact ${position} is proven is not the start of the signed one`,
    );
}

export function differs(why: string): StemmaError {
  return new StemmaError(
    "JOURNAL_DIFFERS",
    `The journal is not what it was: ${why}. Either the file was changed, or the server's history was; compare with ` +
      "heads that were kept elsewhere before you trust it (docs/journal.md).",
  );
}
