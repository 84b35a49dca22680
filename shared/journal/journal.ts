/**
 * The journal port: a hash-chained append-only log of facts with group commit and a signed head.
 * open-journal.ts implements it.
 */
import type { Hash } from "../tensor/tensor.js";
import type { Fact } from "./fact.js";

export interface JournalEntry<F = Fact> {
  /** The position, from 0. */
  readonly position: number;
  readonly fact: F;
  /** H(previous chain ‖ entry bytes). */
  readonly chain: Hash;
}
export interface JournalHead {
  readonly length: number;
  readonly chain: Hash;
  /** RFC 6962 root over the entries' bytes. */
  readonly root: Hash;
}
export interface SignedHead extends JournalHead {
  readonly publicKey: string;
  readonly signature: string;
}

/**
 * Signs the bytes of `headMessage` (head-message.ts) with Ed25519; key and signature as hexadecimal
 * text.
 */
export interface HeadSigner {
  readonly publicKey: string;
  sign(message: Uint8Array): string;
  /** Asked before facts are taken. @throws why nothing is signed now: nothing is appended then */
  requireFree?(): void;
  /** Checks the head found on disk on opening, when given (HEAD_SIGNATURE_INVALID): is this key its server's? */
  verify?(message: Uint8Array, signature: string, publicKey: string): boolean;
}

/** Encodes facts as entry bytes and back. */
export interface FactCodec<F> {
  encode(fact: F): Uint8Array;
  decode(bytes: Uint8Array): F;
}

/** The result of opening: what was found and repaired. */
export interface JournalOpening {
  /** Number of entries. */
  readonly length: number;
  /**
   * Bytes of a torn, never acknowledged tail that were cut off; usually 0. They are kept in a file `torn-…`
   * in the journal's folder.
   */
  readonly tornBytes: number;
}

/** Proofs about a journal's log; merkle-log.ts checks them. */
export interface JournalProofs {
  /** The bytes of an entry, read alone. @throws FACT_INVALID where there is no such entry, JOURNAL_CORRUPT */
  readEntry(position: number): Promise<Uint8Array>;
  /**
   * The proof that the entry at `position` is in the log of the first `length` entries (`verifyInclusion`); of
   * all entries when absent. O(log n) and, among older entries, what is read of two blocks of them.
   * @throws FACT_INVALID where it has fewer entries, JOURNAL_CORRUPT
   */
  proveEntry(position: number, length?: number): readonly Hash[];
  /**
   * The proof that the log of the first `from` entries is the start of the log of the first `to` entries
   * (`verifyConsistency`); of all entries when absent. It costs what `proveEntry` does.
   * @throws FACT_INVALID where it has fewer entries, JOURNAL_CORRUPT
   */
  proveStart(from: number, to?: number): readonly Hash[];
  /** Root of the first `length` entries. @throws FACT_INVALID where it has fewer entries, JOURNAL_CORRUPT */
  rootAt(length: number): Hash;
}

export interface Journal<F = Fact> {
  /**
   * Appends facts together (all or none survive a crash); resolves with their positions once they are fsynced
   * (appends in flight share one fsync). After an fsync error every append rejects with JOURNAL_STOPPED until
   * the journal is reopened. A full disk rejects with DISK_FULL and leaves the journal usable.
   * @throws FACT_INVALID, DISK_FULL, JOURNAL_STOPPED, and what the signer's `requireFree` throws
   */
  append(facts: readonly F[]): Promise<readonly number[]>;
  /**
   * The durable entries from a position on. @throws JOURNAL_CORRUPT when the disk has changed since opening
   */
  entries(from?: number): AsyncIterable<JournalEntry<F>>;
  /** Returns the head over durable entries only. */
  head(): JournalHead;
  /** @throws KEY_INVALID when the journal was opened without a signer */
  signedHead(): SignedHead;
  close(): Promise<void>;
}
