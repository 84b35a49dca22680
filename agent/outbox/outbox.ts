/**
 * The outbox: every model that this device has and the server may not, durable from the moment it is
 * saved. A journal of agent facts and a pack store in the agent's home; the order of writing is pack,
 * then fact. Knows no network; the parts that announce and receive receipts append facts to it.
 */
import { join } from "node:path";
import { SerialQueue } from "../../shared/concurrency/serial-queue.js";
import { defined } from "../../shared/defined.js";
import { messageOf } from "../../shared/error-text.js";
import { isStemmaError, StemmaError } from "../../shared/errors.js";
import type { FileJournal } from "../../shared/journal/file-journal.js";
import { openJournal } from "../../shared/journal/open-journal.js";
import type { ModelSource, SaveRecord } from "../../shared/model/model.js";
import { decodeSaveRecord } from "../../shared/model/save-record.js";
import { decodeTree } from "../../shared/model/tree-object.js";
import type { PackWriter } from "../../shared/objects/object-store.js";
import { openPackStore, type PackStore } from "../../shared/objects/pack-store.js";
import type { Clock, Files, Log, Random } from "../../shared/ports.js";
import {
  loadSaveBase,
  saveModel,
  type SavedModel,
  type SaveModelOptions,
} from "../../shared/save/save-model.js";
import type { Hash } from "../../shared/tensor/tensor.js";
import { forgettable } from "../resources/disk-budget.js";
import type { AgentFact, AgentFactOf } from "./agent-fact.js";
import type { Metric, SampleRange } from "./outbox-state.js";
import { replaceJournal, settleCompaction } from "./compact-journal.js";
import { compactedFacts } from "./compacted-facts.js";
import { OutboxFold } from "./outbox-fold.js";
import { neededObjects } from "./needed-objects.js";
import { usesBytesOf } from "./version-sizes.js";
import {
  isOnlyStaged,
  keptVersions,
  newestVersion,
  type OutboxEntry,
  type OutboxState,
} from "./outbox-state.js";

export interface OutboxOptions {
  readonly files: Files;
  readonly folder: string;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  /**
   * Called after a failed fsync: what is on the disk is then unknown, and nothing may be acknowledged until
   * the outbox is opened again.
   */
  readonly onFatal?: (error: StemmaError) => void;
  /**
   * Facts after which the journal is replaced by a shorter one, at least; more where the state itself takes as
   * many. Default 2000.
   */
  readonly compactAfter?: number | undefined;
  /** The size of the pack store's decoded cache (PackStoreOptions). */
  readonly decodedCacheBytes?: number | undefined;
}

export type TrainedOptions = Omit<SaveModelOptions, "sequence" | "bases"> & {
  readonly base: Hash | undefined;
  readonly metric: Metric | null;
  /** Samples to keep until this version is released. */
  readonly samples: SampleRange | null;
  /** The training that made it. */
  readonly invocation?: number;
};

const journalFolder = ({ folder }: Pick<OutboxOptions, "folder">): string => join(folder, "journal");

export class Outbox {
  readonly #fold = new OutboxFold();
  #journal: FileJournal<AgentFact>;
  /** Entries in the journal, and those of them that its last compaction wrote. */
  #entries = 0;
  #compactedEntries = 0;
  /** Runs appends and compactions serially. */
  readonly #journalQueue = new SerialQueue();
  readonly #listeners = new Set<() => void>();
  /**
   * Runs saves, adoptions and forgetting serially: a pack whose fact is not appended yet must not look like
   * garbage.
   */
  readonly #queue = new SerialQueue();

  private constructor(
    private readonly options: OutboxOptions,
    journal: FileJournal<AgentFact>,
    readonly objects: PackStore,
  ) {
    this.#journal = journal;
    this.#reportFatal(journal.stopped);
  }

  /**
   * Opens the outbox in a folder. A torn tail of the journal was never acknowledged and is cut off.
   * @throws OUTBOX_CORRUPT when the journal is damaged
   */
  static async open(options: OutboxOptions): Promise<Outbox> {
    const objects = await openPackStore(options.files, join(options.folder, "packs"), {
      clock: options.clock,
      random: options.random,
      decodedCacheBytes: options.decodedCacheBytes,
    });
    await settleCompaction(options.files, journalFolder(options));
    const journal = await openJournal<AgentFact>(options.files, journalFolder(options), {}).catch(
      (cause: unknown) => {
        if (!isStemmaError(cause, "JOURNAL_CORRUPT")) throw cause;
        throw new StemmaError(
          "OUTBOX_CORRUPT",
          `The outbox in ${options.folder} is damaged: ${cause.message} Nothing was removed. Restore the folder from a copy, or enrol the device again and recover its models from the server.`,
          { cause },
        );
      },
    );
    const outbox = new Outbox(options, journal, objects);
    outbox.#reportFatal(objects.failed);
    for await (const { fact } of journal.entries()) {
      outbox.#fold.apply(fact);
      outbox.#entries++;
      if (fact.type === "compacted") outbox.#compactedEntries++;
    }
    await outbox.#compactWhenDue();
    await outbox.#deleteUnneeded();
    return outbox;
  }

  get state(): OutboxState {
    return this.#fold.state;
  }
  entry(versionId: Hash): OutboxEntry | undefined {
    return this.#fold.state.entries.get(versionId);
  }
  /** Calls `listener` after every change. Returns a function that ends this. */
  onChange(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => {
      this.#listeners.delete(listener);
    };
  }

  /** Appends facts. Once they are durable, the state contains them and this resolves. */
  async append(...facts: readonly AgentFact[]): Promise<void> {
    await this.#journalQueue.run(async () => {
      await this.#journal.append(facts);
      for (const fact of facts) this.#fold.apply(fact);
      this.#entries += facts.length;
    });
    void this.#journalQueue.run(() => this.#compactWhenDue());
    for (const listener of this.#listeners) listener();
  }

  /** Saves a fine-tuned model: durable, and in the state, when this resolves. */
  saveTrained(
    model: ModelSource,
    { base, metric, samples, invocation, ...options }: TrainedOptions,
  ): Promise<SavedModel> {
    return this.#exclusively(async () => {
      const { clock } = this.options;
      const sequence = (this.state.lines.get(options.line)?.sequence ?? 0) + 1;
      const bases = base === undefined ? [] : [await loadSaveBase(this.objects, base)];
      const saved = await saveModel(this.objects, model, { ...options, sequence, bases }, clock);
      const usesBytes = await usesBytesOf(this.objects, saved.record);
      await this.append({
        type: "saved",
        atMs: Math.round(clock.now()),
        versionId: saved.versionId,
        line: options.line,
        sequence,
        name: options.name,
        bases: saved.record.bases,
        tensorBytes: saved.tensorBytes,
        ...(usesBytes === 0 ? {} : { usesBytes }),
        metric,
        samples,
        ...defined({ invocation }),
      });
      return saved;
    });
  }

  /**
   * Stores a version from the server: `write` puts what is missing into one pack, then the fact is appended.
   */
  adopt(
    fact: AgentFactOf<"adopted">,
    needed: Iterable<Hash>,
    write: (pack: PackWriter) => Promise<void>,
  ): Promise<void> {
    return this.#exclusively(async () => {
      const pack = await this.objects.begin();
      try {
        await write(pack);
        await pack.commit();
      } catch (error) {
        await pack.abort();
        throw error;
      }
      // What was here when the download began may have been forgotten with another version since.
      await this.objects.commitReferences(needed, () => this.append(fact));
    });
  }

  /** A version's record as it was written or received. @throws OBJECT_MISSING */
  async record(versionId: Hash): Promise<{ readonly bytes: Uint8Array; readonly record: SaveRecord }> {
    const bytes = await this.objects.read("record", versionId);
    return { bytes, record: decodeSaveRecord(bytes) };
  }

  async leaves(record: SaveRecord): Promise<ReturnType<typeof decodeTree>["leaves"]> {
    return decodeTree(await this.objects.read("tree", record.objects.tree)).leaves;
  }

  /** The newest version of a line here. */
  newest(line: string): OutboxEntry | undefined {
    return newestVersion(this.state, line);
  }

  /**
   * Forgets what the rule allows (released, not active, beyond the last N of its line). Appends the facts
   * first and deletes the bytes then, so that the state never names bytes that are gone.
   */
  forget(keepLast: number, releasedWhen: "stored" | "backed-up"): Promise<readonly Hash[]> {
    return this.#exclusively(async () => {
      const gone = forgettable(keptVersions(this.state, releasedWhen), keepLast) as readonly Hash[];
      if (gone.length === 0) return gone;
      const atMs = Math.round(this.options.clock.now());
      await this.append(...gone.map((versionId) => ({ type: "forgotten", atMs, versionId }) as const));
      await this.#deleteUnneeded();
      return gone;
    });
  }

  /** Forgets a version that was only staged for a line; otherwise it stays. */
  dropStaged(line: string, versionId: Hash): Promise<void> {
    return this.#exclusively(async () => {
      if (!isOnlyStaged(this.state, line, versionId)) return;
      await this.append({ type: "forgotten", atMs: Math.round(this.options.clock.now()), versionId });
      await this.#deleteUnneeded();
    });
  }

  async bytes(): Promise<{ readonly packs: number; readonly journal: number }> {
    let packs = 0;
    for (const object of this.objects.list()) packs += object.storedBytes;
    return { packs, journal: await this.#journalQueue.run(() => this.#journal.byteLength()) };
  }

  async close(): Promise<void> {
    await this.#queue.idle();
    await this.#journalQueue.idle();
    await this.#journal.close();
    await this.objects.close();
  }

  /**
   * Replaces the journal by a shorter one, once it has twice the entries that its state takes. Never rejects: the
   * old journal stays where this fails, unless it was closed already; that is fatal.
   */
  async #compactWhenDue(): Promise<void> {
    const { files, clock, log, onFatal, compactAfter = 2000 } = this.options;
    if (this.#entries - this.#compactedEntries < Math.max(compactAfter, this.#compactedEntries)) return;
    const folder = journalFolder(this.options);
    const facts = compactedFacts(this.state, Math.round(clock.now()));
    let isClosed = false;
    try {
      await this.#journal.close();
      isClosed = true;
      await replaceJournal(files, folder, facts);
    } catch (error) {
      // A full disk: the journal stays as it is, and the next fact tries again.
      log.warn("outbox-not-compacted", { text: messageOf(error) });
    }
    if (!isClosed) return;
    try {
      await settleCompaction(files, folder);
      this.#journal = await openJournal<AgentFact>(files, folder, {});
      this.#reportFatal(this.#journal.stopped);
      this.#entries = this.#journal.opening.length;
      this.#compactedEntries = Math.max(facts.length, this.#entries);
    } catch (error) {
      onFatal?.(
        isStemmaError(error)
          ? error
          : new StemmaError("STORE_FAILED", `The outbox in ${folder} cannot be opened again.`, {
              cause: error,
            }),
      );
    }
  }

  #exclusively<T>(action: () => Promise<T>): Promise<T> {
    return this.#queue.run(action);
  }

  /** Reports the error after which nothing more can be stored, whatever work meets it. */
  #reportFatal(failed: Promise<StemmaError>): void {
    void failed.then((error) => this.options.onFatal?.(error));
  }

  /**
   * Ids of all objects of the kept versions; undefined when they are not known for sure: then nothing is
   * deleted.
   */
  async #live(): Promise<Set<Hash> | undefined> {
    const live = new Set<Hash>();
    let isComplete = true;
    for (const entry of this.state.entries.values()) {
      let ids: readonly Hash[] | undefined;
      try {
        ids = await neededObjects(this.objects, entry);
      } catch (error) {
        // Objects are given up only if they are certainly missing or altered, and only of a model that the
        // server has: a disk that fails now may work later.
        if (!isStemmaError(error, "OBJECT_MISSING") && !isStemmaError(error, "OBJECT_HASH_MISMATCH"))
          isComplete = false;
      }
      for (const id of ids ?? []) if (this.objects.has(id)) live.add(id);
      if (entry.standing !== "released" && (ids === undefined || ids.some((id) => !this.objects.has(id)))) {
        isComplete = false;
        this.options.log.error("model-damaged", {
          line: entry.line,
          versionId: entry.versionId,
          text: `a model that the server has not released is damaged in ${this.options.folder}; nothing is deleted there until it is restored from a copy`,
        });
      }
    }
    return isComplete ? live : undefined;
  }

  /**
   * One round of merging small packs: a device that is offline for long, or keeps many models, saves thousands.
   * @param keepFreeBytes stay free on the disk meanwhile
   */
  async mergePacks(keepFreeBytes: number): Promise<void> {
    try {
      const merged = await this.objects.merging.merge({ keepFreeBytes });
      if (merged !== undefined) this.options.log.debug("packs-merged", { ...merged });
    } catch (error) {
      if (!isStemmaError(error)) throw error;
      this.options.log.warn("packs-not-merged", { code: error.code, text: error.message });
    }
  }

  /** Deletes what no kept version needs: after forgetting, and what a crash left between pack and fact. */
  async #deleteUnneeded(): Promise<void> {
    const live = await this.#live();
    if (live === undefined) return;
    try {
      await this.objects.merging.hold();
      const plan = await this.objects.planCollection(live);
      if (plan.dead.length === 0) return;
      const { freedBytes } = await this.objects.collect(plan, () => live);
      this.options.log.debug("outbox-tidied", { freedBytes, objects: plan.dead.length });
    } catch (error) {
      if (!isStemmaError(error)) throw error;
      // Space is not worth stopping for: what cannot be freed now is tried again with the next model that is
      // forgotten.
      this.options.log.warn("outbox-not-tidied", { code: error.code, text: error.message });
    }
  }
}
