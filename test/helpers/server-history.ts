/**
 * The history of a server without a server: its journal in memory, and the welcomes and receipts that a real
 * one proves from it. A copy of it is what an operator's copy of the server's home is.
 */
import type { Fact } from "../../shared/journal/fact.js";
import type { FileJournal } from "../../shared/journal/file-journal.js";
import { openJournal } from "../../shared/journal/open-journal.js";
import type { Hash } from "../../shared/tensor/tensor.js";
import type { PrivateKey } from "../../shared/trust/keys.js";
import { signReceipt } from "../../shared/trust/signatures.js";
import type { Birth, Receipt, Welcome } from "../../shared/wire/messages.js";
import { HistoryProofs } from "../../server/fleet/ingest/sessions/history-proofs.js";
import { headSigner } from "../../server/storage/repository/journal-key.js";
import { restoredFact } from "../../server/storage/repository/restored-fact.js";
import { factCodec } from "../../server/storage/repository/state/fact-codec.js";
import { applyFact } from "../../server/storage/repository/state/apply-fact.js";
import { emptyState } from "../../server/storage/repository/state/state.js";
import type { RestoreState } from "../../server/storage/repository/state/restore-state.js";
import { memoryFiles } from "./files/memory-files.js";
import { seededRandom } from "./manual-clock.js";

const random = seededRandom("server-history");
/** Facts that no test looks at. */
const session = (n: number): Fact => ({ type: "session", atMs: 0, device: "v9", session: n });

export class TestHistory {
  readonly #state = emptyState();
  readonly #facts: Fact[] = [];
  readonly proofs: HistoryProofs;
  /** Length of the head that was sent last. */
  sent = 0;

  private constructor(
    readonly key: PrivateKey,
    readonly journal: FileJournal,
  ) {
    this.proofs = new HistoryProofs({ journal, restores: () => this.#state.restores });
  }

  static async start(key: PrivateKey, facts: readonly Fact[] = []): Promise<TestHistory> {
    const journal = await openJournal<Fact>(memoryFiles(), "/journal", {
      signer: headSigner({ signer: key, keyChanges: [] }),
      codec: factCodec,
    });
    const history = new TestHistory(key, journal);
    await history.append(...facts);
    return history;
  }

  get length(): number {
    return this.#facts.length;
  }
  get restores(): readonly Readonly<RestoreState>[] {
    return this.#state.restores;
  }
  factAt(position: number): Fact {
    const fact = this.#facts[position];
    if (fact === undefined) throw new Error(`there is no fact ${position}`);
    return fact;
  }
  async append(...facts: readonly Fact[]): Promise<void> {
    await this.journal.append(facts);
    for (const fact of facts) applyFact(this.#state, this.#facts.push(fact) - 1, fact);
  }
  /** Grows by facts that concern no device here. */
  async grow(count: number): Promise<void> {
    await this.append(...Array.from({ length: count }, (_, i) => session(this.length + i)));
  }
  /** The first `length` facts, as a copy of the home has them. */
  copy(length: number): Promise<TestHistory> {
    return TestHistory.start(this.key, this.#facts.slice(0, length));
  }
  /** The copy as `stemma storage restore` brings it back. */
  async restored(length: number): Promise<TestHistory> {
    const copy = await this.copy(length);
    await copy.append(
      restoredFact({ clock: { now: () => 0 }, random }, { position: length, lostFrom: null }),
    );
    return copy;
  }

  /** The owner's signature of the newest restore. */
  async approve(
    sign: (statement: { length: number; root: Hash; position: number }) => string,
  ): Promise<void> {
    const restore = this.restores.at(-1);
    if (restore === undefined) throw new Error("nothing was restored");
    const { factPosition, position } = restore;
    const length = factPosition + 1;
    const approval = sign({ length, root: this.journal.rootAt(length), position });
    await this.append({ type: "restore-approved", atMs: 0, restore: factPosition, approval });
  }

  async record(versionId: Hash): Promise<number> {
    const known = this.#state.versions.get(versionId);
    if (known !== undefined) return known.position;
    const version = this.#state.versions.size + 1;
    await this.append({ type: "recorded", atMs: 0, versionId, name: "m", version });
    return this.length - 1;
  }

  async welcome(
    birth: Pick<Birth, "seenJournalLength" | "seenJournalRoot" | "restoresFrom">,
  ): Promise<Welcome> {
    const proofs = await this.proofs.welcome(birth);
    this.sent = proofs.head?.length ?? 0;
    return {
      type: "welcome",
      serverVersion: "1",
      protocol: 1,
      clockMs: 1_700_000_000_000,
      restored: this.#state.restores.length > 0,
      restoredPosition: this.#state.restores.at(-1)?.position ?? 0,
      known: [],
      blockBytes: 65536,
      window: 4,
      ...proofs,
    };
  }

  /** A receipt of a version, which is recorded where it is not. */
  async receipt(
    versionId: Hash,
    kind: Receipt["kind"],
    more: Partial<Receipt> & Pick<Receipt, "session">,
  ): Promise<Receipt> {
    const position = await this.record(versionId);
    const proofs = this.proofs.receipt(this.sent, position, await this.journal.readEntry(position));
    this.sent = proofs.head?.length ?? 0;
    return signReceipt(this.key, {
      kind,
      versionId,
      fleet: "test-fleet",
      device: "v1",
      generation: 1,
      position,
      backedUpTo: 0,
      name: "m",
      version: this.#state.versions.get(versionId)?.version ?? 0,
      ...proofs,
      ...more,
    });
  }
}
