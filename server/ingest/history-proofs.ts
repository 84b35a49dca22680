/**
 * Proves to devices that this server's journal begins with what they have seen of it, and shows them the
 * restores since. Each costs O(log n) hashes; the disk is read only for restores, once each.
 */
import { maxProvenRestores } from "../../shared/wire/limits.js";
import type { Birth, ProvenFact, Receipt, StartProof, Welcome } from "../../shared/wire/messages.js";
import type { FleetRepository } from "../repository/fleet-repository.js";

type WelcomeProofs = Pick<Welcome, "head" | "start" | "restores">;
type ReceiptProofs = Required<Pick<Receipt, "head" | "start" | "fact">>;

export class HistoryProofs {
  /** Entries of facts `restored`, by position. */
  readonly #restores = new Map<number, Uint8Array>();

  constructor(private readonly repository: Pick<FleetRepository, "journal" | "restores">) {}

  /**
   * The proofs that answer a birth. Without `start` the journal does not begin with the head that the device
   * names.
   * @throws JOURNAL_CORRUPT
   */
  async welcome(seen: Pick<Birth, "seenJournalLength" | "seenJournalRoot">): Promise<WelcomeProofs> {
    await this.#readRestores();
    // No await from here on: head and proofs are of the same journal.
    const head = this.repository.journal.signedHead();
    const start = this.#startFor(seen, head.length);
    const since = start === undefined ? 0 : start.length;
    const restores = this.repository
      .restores()
      .filter(({ factPosition }) => factPosition >= since)
      .slice(-maxProvenRestores)
      .flatMap(({ factPosition }) => this.#provenRestore(factPosition, head.length));
    return { head, start, restores: restores.length === 0 ? undefined : restores };
  }

  /**
   * The proofs of a receipt: that the journal begins with the first `from` entries that the device knows, and has
   * this entry at `position`.
   */
  receipt(from: number, position: number, entry: Uint8Array): ReceiptProofs {
    const { journal } = this.repository;
    const head = journal.signedHead();
    return {
      head,
      start: { length: from, hashes: journal.proveStart(from, head.length) },
      fact: { position, entry, hashes: journal.proveEntry(position, head.length) },
    };
  }

  /** Bounded, whatever a device claims: lengths and roots that this journal does not have get no proof. */
  #startFor(
    {
      seenJournalLength: length,
      seenJournalRoot: root,
    }: Pick<Birth, "seenJournalLength" | "seenJournalRoot">,
    to: number,
  ): StartProof | undefined {
    const { journal } = this.repository;
    if (length > to || (length > 0 && root !== journal.rootAt(length))) return undefined;
    return { length, hashes: journal.proveStart(length, to) };
  }

  async #readRestores(): Promise<void> {
    const { journal } = this.repository;
    for (const { factPosition } of this.repository.restores().slice(-maxProvenRestores))
      if (!this.#restores.has(factPosition))
        this.#restores.set(factPosition, await journal.readEntry(factPosition));
  }

  /** Empty for one that was appended since #readRestores: the next welcome has it. */
  #provenRestore(position: number, length: number): readonly ProvenFact[] {
    const entry = this.#restores.get(position);
    if (entry === undefined) return [];
    return [{ position, entry, hashes: this.repository.journal.proveEntry(position, length) }];
  }
}
