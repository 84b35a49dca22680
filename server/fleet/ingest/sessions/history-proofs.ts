/**
 * Proves to devices that this server's journal begins with what they have seen of it, and shows them the
 * restores since. Each costs O(log n) hashes, and the disk is read for restores, and for what is older than the newest
 * entries.
 */
import { maxProvenRestores, maxRestoresBytes } from "../../../../shared/wire/limits.js";
import type { Birth, ProvenFact, Receipt, StartProof, Welcome } from "../../../../shared/wire/messages.js";
import type { FleetRepository } from "../../../storage/repository/fleet-repository.js";
import type { RestoreState } from "../../../storage/repository/state/restore-state.js";

type WelcomeProofs = Pick<Welcome, "head" | "start" | "restores" | "restoresFrom" | "moreRestores">;
type SeenHistory = Pick<Birth, "seenJournalLength" | "seenJournalRoot" | "restoresFrom">;
type ReceiptProofs = Required<Pick<Receipt, "head" | "start" | "fact">>;

/** The most that a fact `restored` with the hashes of one proof takes, in bytes: 54 hashes at 2^53 facts. */
const restoreBytes = 2048;

export class HistoryProofs {
  /** Entries of facts `restored`, by position. */
  readonly #restores = new Map<number, Uint8Array>();

  constructor(private readonly repository: Pick<FleetRepository, "journal" | "restores">) {}

  /**
   * The proofs that answer a birth. Without `start` the journal does not begin with the head that the device
   * names.
   * @throws JOURNAL_CORRUPT
   */
  async welcome(seen: SeenHistory): Promise<WelcomeProofs> {
    const { restoresFrom } = seen;
    const page = this.#pageOf(this.#restoresFor(seen));
    await this.#readRestores(page);
    // From here on there is no await: head and proofs are of the same journal.
    const head = this.repository.journal.signedHead();
    const start = this.#startFor(seen, head.length);
    const restores = page.flatMap((restore) => this.#provenRestore(restore, head.length));
    const isMore = this.#restoresFor(seen).length > page.length;
    return {
      head,
      start,
      restores: restores.length === 0 ? undefined : restores,
      restoresFrom,
      moreRestores: isMore ? true : undefined,
    };
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

  /** True if the journal's first `to` entries begin with the head that a device names. */
  #beginsWith({ seenJournalLength: length, seenJournalRoot: root }: SeenHistory, to: number): boolean {
    return length === 0 || (length <= to && root === this.repository.journal.rootAt(length));
  }

  /** Bounded, whatever a device claims: lengths and roots that this journal does not have get no proof. */
  #startFor(seen: SeenHistory, to: number): StartProof | undefined {
    if (!this.#beginsWith(seen, to)) return undefined;
    const { seenJournalLength: length } = seen;
    return { length, hashes: this.repository.journal.proveStart(length, to) };
  }

  /** The facts `restored` that the device may not know, from where it asks for them, oldest first. */
  #restoresFor(seen: SeenHistory): readonly Readonly<RestoreState>[] {
    const length = this.repository.journal.head().length;
    const since = this.#beginsWith(seen, length) ? seen.seenJournalLength : 0;
    const from = Math.max(since, seen.restoresFrom ?? 0);
    return this.repository.restores().filter(({ factPosition }) => factPosition >= from);
  }

  /** Returns as many restores as fit into a message, the oldest first. */
  #pageOf(restores: readonly Readonly<RestoreState>[]): readonly Readonly<RestoreState>[] {
    let bytes = 0;
    const first = restores.slice(0, maxProvenRestores);
    const end = first.findIndex(({ approval }, index) => {
      bytes += approval === undefined ? restoreBytes : 2 * restoreBytes + approval.length;
      return index > 0 && bytes > maxRestoresBytes;
    });
    return end === -1 ? first : first.slice(0, end);
  }

  async #readRestores(restores: readonly Readonly<RestoreState>[]): Promise<void> {
    for (const { factPosition: position } of restores)
      if (!this.#restores.has(position))
        this.#restores.set(position, await this.repository.journal.readEntry(position));
  }

  #provenRestore(
    { factPosition: position, approval }: Readonly<RestoreState>,
    length: number,
  ): readonly ProvenFact[] {
    const entry = this.#restores.get(position);
    if (entry === undefined) return [];
    const { journal } = this.repository;
    const proven = { position, entry, hashes: journal.proveEntry(position, length) };
    if (approval === undefined) return [proven];
    return [{ ...proven, approval: { text: approval, hashes: journal.proveStart(position + 1, length) } }];
  }
}
