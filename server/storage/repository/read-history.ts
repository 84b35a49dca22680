/**
 * Reads the state to which the facts and records of a fleet lead: from its index, and from what the journal has beyond
 * it. The index is written again each time that so many facts were applied, so that a start applies few.
 */
import { join } from "node:path";
import type { Log } from "../../../shared/ports.js";
import type { FileJournal } from "../../../shared/journal/file-journal.js";
import type { PackStore } from "../../../shared/objects/pack-store.js";
import { isStemmaError } from "../../../shared/errors.js";
import type { Hash } from "../../../shared/tensor/tensor.js";
import type { RepositoryContext } from "./context.js";
import type { Home } from "./home.js";
import { OpeningMemory } from "./opening-memory.js";
import { addCandidate, candidateOf, type ReadCandidate } from "./prefix-candidate.js";
import { applyFact } from "./state/apply-fact.js";
import { loadRecords, RecordCache } from "./state/record-cache.js";
import { recordMissing } from "./state/state-errors.js";
import { isFoundDamaged, StateIndex } from "./state/state-index.js";
import { indexVersion, type VersionIndexes } from "./state/version-table.js";
import type { VersionState } from "./state/version-state.js";
import { loadClaimRecords } from "./versions/claims.js";
import { noteSequence } from "./versions/record-version.js";

/** The state that journal and records of a fleet add up to. */
export type History = Pick<
  RepositoryContext,
  | "state"
  | "claimRecords"
  | "records"
  | keyof VersionIndexes
  | "damaged"
  | "recordCache"
  | "lastSequences"
  | "candidates"
  | "index"
>;

const defaultIndexEveryFacts = 5000;
/** More than the heap needs while an index is written. */
const savingBytes = 16 * 1024 * 1024;
/** Facts that are applied before the records of their versions are read together. */
const factsPerStep = 1000;

export function indexEveryFacts({ ports }: Pick<Home, "ports">): number {
  return ports.indexEveryFacts ?? defaultIndexEveryFacts;
}

interface HistoryOf {
  readonly fleet: string;
  readonly folder: string;
  readonly journal: FileJournal;
  readonly objects: PackStore;
}

/** @throws JOURNAL_CORRUPT, MEMORY_FULL, FILE_FAILED */
export async function readHistory(home: Pick<Home, "ports" | "changes">, of: HistoryOf): Promise<History> {
  const { files, log, memory } = home.ports;
  const { fleet, folder, journal, objects } = of;
  const room = new OpeningMemory(fleet, memory);
  const indexFolder = join(folder, "index");
  const opened = await StateIndex.open({
    files,
    folder: indexFolder,
    fleet,
    log,
    mayWrite: home.changes === undefined,
    onItem: () => room.item(),
  });
  const recordCache = new RecordCache(files, folder);
  let index = opened;
  try {
    const why = await whyUnusable(opened, { journal, objects, recordCache });
    if (why !== undefined) index = await opened.anew(why);
    return await readFacts(home, of, { index, recordCache, room });
  } catch (error) {
    await index.close();
    // Rows that no earlier step of the opening needs may be damaged, too.
    if (!isFoundDamaged(indexFolder)) throw error;
    return await readHistory(home, of);
  }
}

/** Applies the facts that the index lacks. */
async function readFacts(
  home: Pick<Home, "ports">,
  { fleet, journal, objects }: HistoryOf,
  parts: Pick<HistoryParts, "index" | "recordCache" | "room">,
): Promise<History> {
  const { index } = parts;
  const { log, onOpening } = home.ports;
  const all = journal.head().length;
  const reader = new HistoryReader({
    ...parts,
    objects,
    everyFacts: indexEveryFacts(home),
    log,
    onFacts: (read) => onOpening?.({ fleet, facts: { read, all } }),
  });
  const { state } = index.indexed;
  for await (const { position, fact, chain } of journal.entries(index.position)) {
    applyFact(state, position, fact);
    // The first fact that records a version does; others change nothing.
    if (fact.type === "recorded" && state.versions.get(fact.versionId)?.position === position)
      reader.recorded(fact.versionId);
    if (fact.type === "retired") reader.retired(fact.versionId);
    await reader.applied(chain);
  }
  return await reader.end((versionId, error) => log?.error("record-damaged", { fleet, versionId, error }));
}

/** Returns why an index holds another state than journal and records lead to; undefined: it holds that one. */
async function whyUnusable(
  { position, chain, unread }: StateIndex,
  {
    journal,
    objects,
    recordCache,
  }: { readonly journal: FileJournal; readonly objects: PackStore; readonly recordCache: RecordCache },
): Promise<string | undefined> {
  if (chain !== undefined) {
    const inJournal = await chainAt(journal, position);
    if (inJournal === undefined) return "it holds more facts than the journal";
    if (inJournal !== chain) return "it is of another journal";
  }
  if (unread.length === 0) return undefined;
  const { records } = await loadRecords({ cache: recordCache, objects }, unread);
  return records.size === 0 ? undefined : "records can be read that could not be read when it was written";
}

async function chainAt(journal: FileJournal, length: number): Promise<string | undefined> {
  for await (const { chain } of journal.entries(length - 1)) return chain;
  return undefined;
}

interface HistoryParts {
  readonly index: StateIndex;
  readonly objects: PackStore;
  readonly recordCache: RecordCache;
  readonly room: OpeningMemory;
  readonly everyFacts: number;
  readonly log: Log | undefined;
  /** Called with the number of facts that the state has, now and then. */
  readonly onFacts: (read: number) => void;
}

class HistoryReader {
  readonly #damaged: Map<Hash, unknown>;
  #recorded: Hash[] = [];
  #facts = 0;

  constructor(private readonly parts: HistoryParts) {
    this.#damaged = new Map(parts.index.unread.map((versionId) => [versionId, recordMissing(versionId)]));
  }

  recorded(versionId: Hash): void {
    this.#recorded.push(versionId);
  }

  retired(versionId: Hash): void {
    const { state, records, candidates } = this.parts.index.indexed;
    const position = state.versions.positionOf(versionId);
    const architecture = records.get(versionId)?.objects.architecture;
    if (position !== undefined && architecture !== undefined)
      candidates.remove(position, architecture, versionId);
  }

  /** A fact was applied; the journal has this chain hash behind it. */
  async applied(chain: string): Promise<void> {
    const { room, index, recordCache, everyFacts, onFacts } = this.parts;
    const look = room.item();
    if (look !== undefined) await look;
    if (++this.#facts % Math.min(factsPerStep, everyFacts) > 0) return;
    await this.#readNewRecords();
    onFacts(index.indexed.state.length);
    if (index.indexed.state.length - index.position < everyFacts || !room.hasRoomFor(savingBytes)) return;
    recordCache.indexBegun();
    if ((await index.save(chain, this.#damaged.keys()).catch(onlyExpected)) === true)
      recordCache.indexWritten();
  }

  async #readNewRecords(): Promise<void> {
    const recorded = this.#recorded;
    this.#recorded = [];
    if (recorded.length === 0) return;
    const { index, recordCache: cache, objects, room, log } = this.parts;
    const { indexed } = index;
    const candidates = new Map<Hash, ReadCandidate | undefined>();
    const { records, damaged } = await loadRecords(
      {
        cache,
        objects,
        onRecord: () => room.item(),
        onLoaded: async (versionId, record) => {
          if (indexed.state.versions.get(versionId)?.retired === undefined)
            candidates.set(versionId, await candidateOf({ objects, log }, versionId, record));
        },
      },
      recorded,
    );
    for (const [versionId, error] of damaged) this.#damaged.set(versionId, error);
    for (const [versionId, { record, bytes }] of records) {
      index.addRecord(versionId, record, bytes);
      const version = indexed.state.versions.get(versionId) as VersionState;
      if (version.received !== true) noteSequence(indexed.lastSequences, record);
      indexVersion(indexed, version, record);
      addCandidate(indexed, version, candidates.get(versionId));
    }
  }

  async end(onDamaged: (versionId: Hash, error: unknown) => void): Promise<History> {
    await this.#readNewRecords();
    const { index, objects, recordCache } = this.parts;
    recordCache.forgetRead();
    for (const [versionId, error] of this.#damaged) onDamaged(versionId, error);
    return {
      ...index.indexed,
      claimRecords: await loadClaimRecords(objects, index.indexed.state.claims.keys(), onDamaged),
      damaged: this.#damaged,
      recordCache,
      index,
    };
  }
}

/** A full disk leaves the index as it was, and the next start applies more facts. */
function onlyExpected(error: unknown): void {
  if (!isStemmaError(error)) throw error;
}

/** Facts that are worth writing at the end: a start takes longer to apply them. */
const endFacts = 500;
/** The number of facts after which an index that could not be written is tried again. */
const retryFacts = 1000;

/** Writes the index of an open fleet each time that so many facts were applied. */
export class IndexWriting {
  #nextAt = 0;

  constructor(
    private readonly history: Pick<History, "index" | "recordCache" | "damaged" | "state">,
    private readonly journal: Pick<FileJournal, "head">,
    private readonly everyFacts: number,
    private readonly log: Log | undefined,
  ) {}

  /** Call when facts were applied, and no others are being appended. */
  applied(): void {
    const { index, state } = this.history;
    if (index.isSaving || state.length < this.#nextAt || state.length - index.position < this.everyFacts)
      return;
    const { length, chain } = this.journal.head();
    if (length !== state.length) return;
    this.#nextAt = state.length + retryFacts;
    void this.#write(chain);
  }

  /** Call when no more facts will be applied, so that the next start has few to apply. Never rejects. */
  async end(): Promise<void> {
    const { index, state } = this.history;
    const { length, chain } = this.journal.head();
    const isNever = this.everyFacts === Infinity;
    if (isNever || index.isSaving || length !== state.length) return;
    if (state.length - index.position < Math.min(endFacts, this.everyFacts)) return;
    await this.#write(chain);
  }

  async #write(chain: string): Promise<void> {
    const { index, recordCache, damaged } = this.history;
    try {
      recordCache.indexBegun();
      if (!(await index.save(chain, damaged.keys()))) return;
      this.#nextAt = 0;
      recordCache.indexWritten();
    } catch (error) {
      // Nothing depends on it: the journal leads to the state, and the index stays what it was.
      this.log?.warn("index-not-written", { error });
    }
  }
}
