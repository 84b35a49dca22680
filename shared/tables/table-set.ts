/**
 * Sorted tables on files, for what is derived from something else: files of rows (table-run.ts) and a list of them. A
 * commit adds one file, and its rows hide those with the same keys in older files; four files of one level become one
 * of the next, so that there are few and each row is written again a few times only. A row without a value removes the
 * one with its key, and is left out where the oldest file is merged.
 *
 * Whoever opens them reads a list and the files that it names. One process at a time commits; others may open and read
 * beside it, also where they may not write: a file that was open stays readable after it is removed.
 *
 * The list, format 1: "STEMLIST", format u32, bytes of the head u32, head, number of files u32; per file its number
 * u64, level u32, rows u64, checksum u32; the CRC-32 of all these.
 */
import { basename, join } from "node:path";
import { crc32 } from "node:zlib";
import { SerialQueue } from "../concurrency/serial-queue.js";
import { isStemmaError } from "../errors.js";
import { temporarySuffix, writeDurably } from "../files/durable-write.js";
import { makeFolderDurably } from "../files/make-folder.js";
import type { Files, FilesToReadNow } from "../ports.js";
import { mergedRows, type SortedRows } from "./merge-rows.js";
import { DamagedTables, isRemoved, type Row, type RowRange, type Rows } from "./row.js";
import { TableRun, writeRun, type RunContent } from "./table-run.js";

const start = Buffer.concat([Buffer.from("STEMLIST"), Buffer.of(1, 0, 0, 0)]);
const listName = "list";
const runPattern = /^rows-[0-9]+(\.tmp)?$/;
/** Bytes of a file in the list. */
const listedBytes = 24;
/** Files of one level that become one of the next. */
const mergedFiles = 4;
/** Openings that are tried while another process merges the files that its list named a moment ago. */
const openings = 8;

interface ListedRun extends RunContent {
  readonly number: number;
  readonly level: number;
}
interface OpenedRun extends ListedRun {
  readonly run: TableRun;
}
interface List {
  readonly head: Buffer;
  /** The oldest first. */
  readonly runs: readonly ListedRun[];
}

/** A file that the list names is gone, or another one has its name. */
class OtherRows extends DamagedTables {
  constructor(folder: string) {
    super(folder, "lacks rows that its list names");
  }
}

export class TableSet implements Rows {
  #runs: readonly OpenedRun[];
  #head: Buffer;
  #nextNumber: number;
  #isClosed = false;
  readonly #commits = new SerialQueue();
  readonly #merges = new SerialQueue();

  private constructor(
    private readonly files: FilesToReadNow,
    private readonly folder: string,
    { head, runs }: { readonly head: Buffer; readonly runs: readonly OpenedRun[] },
  ) {
    this.#head = head;
    this.#runs = runs;
    this.#nextNumber = Math.max(0, ...runs.map(({ number }) => number)) + 1;
  }

  /**
   * Opens the tables in a folder; undefined: there are none.
   * @throws DamagedTables, FILE_FAILED
   */
  static async open(files: FilesToReadNow, folder: string): Promise<TableSet | undefined> {
    for (let attempt = 1; ; attempt++) {
      const list = await readList(files, folder);
      if (list === undefined) return undefined;
      const runs: OpenedRun[] = [];
      try {
        for (const listed of list.runs) {
          const run = TableRun.open(files, runPath(folder, listed.number));
          runs.push({ ...listed, run });
          if (run.rows !== listed.rows || run.check !== listed.check) throw new OtherRows(folder);
        }
        return new TableSet(files, folder, { head: list.head, runs });
      } catch (error) {
        for (const { run } of runs) run.close();
        if (!isStemmaError(error, "FILE_MISSING") && !(error instanceof OtherRows)) throw error;
        if (attempt === openings) throw new OtherRows(folder);
      }
    }
  }

  /** Tables without rows; nothing is written before the first commit. What is in the folder is removed then. */
  static empty(files: FilesToReadNow, folder: string): TableSet {
    return new TableSet(files, folder, { head: Buffer.alloc(0), runs: [] });
  }

  /** Removes the tables in a folder. */
  static async remove(files: Files, folder: string): Promise<void> {
    // Without its list no file is read any more.
    await files.remove(join(folder, listName));
    for (const name of await files.list(folder))
      if (runPattern.test(name) || name.endsWith(temporarySuffix)) await files.remove(join(folder, name));
  }

  /** Removes what an interrupted commit or merge left. Only who commits may call it. */
  async removeRests(): Promise<void> {
    const listed = new Set(this.#runs.map(({ number }) => basename(runPath(this.folder, number))));
    for (const name of await this.files.list(this.folder))
      if (name.endsWith(temporarySuffix) || (runPattern.test(name) && !listed.has(name)))
        await this.files.remove(join(this.folder, name));
  }

  /** Reads everything once. @throws DamagedTables */
  async verify(): Promise<void> {
    for (const { run } of this.#runs) await run.verify();
  }

  /** The head of the newest commit, which says what the rows hold. Empty before the first one. */
  get head(): Buffer {
    return this.#head;
  }
  /** The number of rows in all files; a row that another one hides counts, too. */
  get rows(): number {
    return this.#runs.reduce((sum, { rows }) => sum + rows, 0);
  }
  get fileCount(): number {
    return this.#runs.length;
  }

  get(key: Buffer): Buffer | undefined {
    for (let at = this.#runs.length - 1; at >= 0; at--) {
      const found = (this.#runs[at] as OpenedRun).run.get(key);
      if (found !== undefined) return found.length === 0 ? undefined : found;
    }
    return undefined;
  }

  page({ from, until, reverse = false, limit }: RowRange): readonly Row[] {
    const sources = this.#runs.map(({ run }): SortedRows =>
      reverse ? run.descending(until) : run.ascending(from),
    );
    const found: Row[] = [];
    for (const row of mergedRows(sources, reverse)) {
      if (found.length === limit || (reverse ? row.key.compare(from) < 0 : row.key.compare(until) >= 0))
        break;
      if (!isRemoved(row)) found.push(row);
    }
    return found;
  }

  /**
   * Adds rows, which come in the order of their keys, and states what the tables hold then. All of it is there after a
   * crash, or none. @throws FILE_FAILED, DISK_FULL, and nothing has changed
   */
  async commit(rows: readonly Row[], head: Buffer): Promise<void> {
    await this.#commits.run(async () => {
      if (this.#runs.length === 0 && this.#head.length === 0) {
        await makeFolderDurably(this.files, this.folder);
        await TableSet.remove(this.files, this.folder);
      }
      const number = this.#nextNumber++;
      const path = runPath(this.folder, number);
      const content = await writeRun(this.files, path, rows, rows.length);
      const added: OpenedRun = { number, level: 0, ...content, run: TableRun.open(this.files, path) };
      // A merge may have changed the files meanwhile; it does not while the list is written.
      await this.#merges.run(async () => {
        await this.#list([...this.#runs, added], head);
      });
    });
    void this.#mergeSome();
  }

  /** Resolves when nothing is being merged. */
  async settled(): Promise<void> {
    await this.#commits.run(() => Promise.resolve());
    await this.#merges.run(() => Promise.resolve());
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    await this.settled();
    for (const { run } of this.#runs) run.close();
    this.#runs = [];
  }

  /** Merges files of one level as long as there are enough. A failure leaves more files, which cost time only. */
  async #mergeSome(): Promise<void> {
    await this.#merges
      .run(async () => {
        for (
          let merged = this.#toMerge();
          merged !== undefined && !this.#isClosed;
          merged = this.#toMerge()
        ) {
          const level = (merged.at(-1) as OpenedRun).level + 1;
          const number = this.#nextNumber++;
          const path = runPath(this.folder, number);
          const sources = merged.map(({ run }) => run.all(this.files)).toReversed();
          const mostRows = merged.reduce((sum, { rows }) => sum + rows, 0);
          const isOldest = merged[0] === this.#runs[0];
          const content = await writeRun(this.files, path, mergedAsync(sources, isOldest), mostRows);
          const merging: OpenedRun = { number, level, ...content, run: TableRun.open(this.files, path) };
          const runs = this.#runs.flatMap((each) =>
            each === merged[0] ? [merging] : merged.includes(each) ? [] : [each],
          );
          await this.#list(runs, this.#head);
          for (const gone of merged) {
            gone.run.close();
            await this.files.remove(runPath(this.folder, gone.number));
          }
        }
      })
      .catch(() => undefined);
  }

  /** The newest files, down to the last one of a higher level than the newest. */
  #toMerge(): readonly OpenedRun[] | undefined {
    const level = this.#runs.at(-1)?.level ?? 0;
    const newest = this.#runs.slice(this.#runs.findLastIndex((each) => each.level > level) + 1);
    return newest.length < mergedFiles ? undefined : newest;
  }

  async #list(runs: readonly OpenedRun[], head: Buffer): Promise<void> {
    await writeDurably(this.files, join(this.folder, listName), encodeList({ head, runs }));
    this.#runs = runs;
    this.#head = head;
  }
}

function runPath(folder: string, number: number): string {
  return join(folder, `rows-${number}`);
}

function encodeList({ head, runs }: List): Buffer {
  const headLength = Buffer.alloc(4);
  headLength.writeUInt32LE(head.length);
  const count = Buffer.alloc(4);
  count.writeUInt32LE(runs.length);
  const listed = runs.map(({ number, level, rows, check }) => {
    const bytes = Buffer.alloc(listedBytes);
    bytes.writeBigUInt64LE(BigInt(number), 0);
    bytes.writeUInt32LE(level, 8);
    bytes.writeBigUInt64LE(BigInt(rows), 12);
    bytes.writeUInt32LE(check, 20);
    return bytes;
  });
  const body = Buffer.concat([start, headLength, head, count, ...listed]);
  const check = Buffer.alloc(4);
  check.writeUInt32LE(crc32(body));
  return Buffer.concat([body, check]);
}

async function readList(files: Files, folder: string): Promise<List | undefined> {
  const path = join(folder, listName);
  let bytes: Buffer;
  try {
    const read = await files.read(path);
    bytes = Buffer.from(read.buffer, read.byteOffset, read.length);
  } catch (error) {
    if (isStemmaError(error, "FILE_MISSING")) return undefined;
    throw error;
  }
  const end = bytes.length - 4;
  if (end < start.length || !bytes.subarray(0, start.length).equals(start))
    throw new DamagedTables(path, "is no list of files of rows that this release reads");
  if (bytes.readUInt32LE(end) !== crc32(bytes.subarray(0, end)))
    throw new DamagedTables(path, "has a checksum that is wrong");
  const headBytes = bytes.readUInt32LE(start.length);
  const headAt = start.length + 4;
  const countAt = headAt + headBytes;
  const runs = Array.from({ length: bytes.readUInt32LE(countAt) }, (_, index): ListedRun => {
    const at = countAt + 4 + listedBytes * index;
    return {
      number: Number(bytes.readBigUInt64LE(at)),
      level: bytes.readUInt32LE(at + 8),
      rows: Number(bytes.readBigUInt64LE(at + 12)),
      check: bytes.readUInt32LE(at + 20),
    };
  });
  return { head: bytes.subarray(headAt, countAt), runs };
}

/**
 * The rows of several files, the newest file first: of rows with one key the first one's.
 * @param isOldest true: no older file has rows that a removal would have to hide
 */
async function* mergedAsync(
  sources: readonly AsyncGenerator<Row, void, undefined>[],
  isOldest: boolean,
): AsyncGenerator<Row> {
  const current = await Promise.all(sources.map(async (source) => (await source.next()).value ?? undefined));
  for (;;) {
    let first = -1;
    for (const [at, row] of current.entries())
      if (row !== undefined && (first === -1 || row.key.compare((current[first] as Row).key) < 0)) first = at;
    if (first === -1) return;
    const row = current[first] as Row;
    const { key } = row;
    if (!isOldest || !isRemoved(row)) yield row;
    for (const [at, row] of current.entries())
      if (row?.key.equals(key) === true)
        current[at] = (await (sources[at] as AsyncGenerator<Row, void, undefined>).next()).value ?? undefined;
  }
}
