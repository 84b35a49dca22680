/** The journal port: a hash-chained append-only log of facts with group commit and a signed head. */
import type { Hash } from "../tensor/tensor.js";
import type { Fact } from "./fact.js";

export interface JournalEntry { /** From 0. */ readonly position: number; readonly fact: Fact; /** H(previous chain ‖ entry bytes). */ readonly chain: Hash }
export interface JournalHead { readonly length: number; readonly chain: Hash; /** RFC 6962 root over the entries' bytes. */ readonly root: Hash }
export interface SignedHead extends JournalHead { readonly publicKey: string; readonly signature: string }

export interface Journal {
  /** Appends facts together; resolves with their positions once they are fsynced (appends in flight share one fsync). After any fsync error: JOURNAL_STOPPED for ever, until reopened. */
  append(facts: readonly Fact[]): Promise<readonly number[]>;
  entries(from?: number): AsyncIterable<JournalEntry>;
  head(): JournalHead;
  signedHead(): SignedHead;
  close(): Promise<void>;
}
