/**
 * Finds the copy of each object in the indexes of packs. It keeps positions and no ids: an id is compared with the
 * bytes in its pack's index. Beside each copy it counts the tensors that are coded against it and the references of the
 * store's owner, and keeps the depth of its chain and a mark.
 *
 * What is new is in memory; the rest is in a file where there is one (sorted-rows.ts). A row of the file that changes
 * becomes one in memory. From time to time a new file is made of both, beside other work: what is in memory then leaves
 * it, and what changes meanwhile comes into memory again.
 */
import type { Hash } from "../tensor/tensor.js";
import type { CompactPack } from "./compact-pack.js";
import { KeptRows, RowCounts } from "./kept-rows.js";
import type { ObjectRows, RowContent } from "./object-rows.js";
import type { ObjectCounts } from "./object-store.js";
import { SlotRows } from "./slot-rows.js";
import type { SortedRows } from "./sorted-rows.js";

/** Rows that changed while a file was made, all of which are looked up in it at once: some tenths of a second. */
const touchedAtOnce = 100_000;

export interface Place {
  readonly pack: CompactPack;
  readonly at: number;
}

/** The rows of a table at one moment, for a new file. */
export interface RowsToKeep {
  readonly size: number;
  /** The packs of the rows, which name them by their place here. */
  readonly packs: readonly CompactPack[];
  /** The rows in the order of their tags. May be read once, while the table is used. */
  readonly rows: Iterable<RowContent>;
}

/** A new file that is being made. */
interface Keeping {
  readonly rows: SlotRows;
  readonly numbers: readonly number[];
  readonly references: RowCounts;
}

/** The row of an object in `rows`. */
interface LastFound {
  readonly rows: ObjectRows;
  readonly row: number;
  readonly place: Place;
  /** The object's id; undefined where it was found by its entry alone. */
  id: Hash | undefined;
}

export class ObjectTable {
  /** Packs by their number; a number is used again once its pack is gone. */
  readonly #packs: (CompactPack | undefined)[] = [];
  readonly #numbers = new Map<CompactPack, number>();
  readonly #freeNumbers: number[] = [];
  #new = new SlotRows();
  #keeping: Keeping | undefined;
  #kept: KeptRows | undefined;
  /** All of these, the newest first. */
  #rows: readonly ObjectRows[] = [this.#new];
  /** The rows in which an object was found last. */
  #in: ObjectRows = this.#new;
  /**
   * The object that was found last, which is often asked for again; undefined since a row was added, moved or removed.
   */
  #last: LastFound | undefined;
  /** The bytes of the id that is looked up. */
  readonly #asked = Buffer.alloc(32);
  #size = 0;
  #isMarking = false;
  /** Counts of tensors coded against objects that the table does not have. */
  readonly #absentCounts = new Map<Hash, number>();
  readonly #absentReferences = new Map<Hash, number>();

  /** A table whose rows are all in a file. @param packs those that the rows name by their place here */
  static restored(rows: SortedRows, packs: readonly CompactPack[]): ObjectTable {
    const table = new ObjectTable();
    for (const pack of packs) table.addPack(pack);
    table.#kept = new KeptRows(rows, Uint32Array.from(packs.keys()));
    table.#size = rows.size;
    table.#listRows();
    return table;
  }

  #listRows(): void {
    this.#last = undefined;
    this.#rows = [this.#new, this.#keeping?.rows, this.#kept].filter((rows) => rows !== undefined);
  }

  /** The number of objects. */
  get size(): number {
    return this.#size;
  }
  /** The number of rows that are in memory. */
  get rowsInMemory(): number {
    return this.#new.size;
  }

  addPack(pack: CompactPack): void {
    if (this.#numbers.has(pack)) return;
    const number = this.#freeNumbers.pop() ?? this.#packs.length;
    this.#packs[number] = pack;
    this.#numbers.set(pack, number);
  }
  /** Removes a pack to which no object refers any more. */
  removePack(pack: CompactPack): void {
    const number = this.#numbers.get(pack);
    if (number === undefined) return;
    this.#last = undefined;
    this.#numbers.delete(pack);
    this.#packs[number] = undefined;
    this.#freeNumbers.push(number);
  }

  find(id: Hash): Place | undefined {
    return this.#placeOf(this.#find(id));
  }
  /** The copy of the object of which an entry is. */
  findLike(pack: CompactPack, at: number): Place | undefined {
    return this.#placeOf(this.#findEntry(pack, at));
  }
  /** True if the copy of its object is this entry. */
  isPlace(pack: CompactPack, at: number): boolean {
    const number = this.#numbers.get(pack);
    if (number === undefined) return false;
    if (this.#isLast(pack, at)) return true;
    const tag = pack.tagAt(at);
    for (const rows of this.#rows) {
      const row = rowOf(rows, tag, number, at);
      if (row === -1) continue;
      this.#last = { rows, row, place: { pack, at }, id: undefined };
      return true;
    }
    return false;
  }
  #isLast(pack: CompactPack, at: number): boolean {
    return this.#last !== undefined && this.#last.place.at === at && this.#last.place.pack === pack;
  }

  /** Makes space for this many more objects. */
  reserve(objects: number): void {
    this.#last = undefined;
    this.#new.reserve(objects);
  }

  /** Sets the copy of an object to this entry of a pack that was added. */
  set(pack: CompactPack, at: number): void {
    const found = this.#findEntry(pack, at);
    this.#last = undefined;
    if (found === -1) this.#insert(pack, at);
    else this.#new.place(this.#changeable(found), this.#numberOf(pack), at);
  }
  /** Sets the copy of an object that the table does not have. @returns false where it has one, which stays */
  setNew(pack: CompactPack, at: number): boolean {
    if (this.#findEntry(pack, at) !== -1) return false;
    this.#insert(pack, at);
    return true;
  }

  #insert(pack: CompactPack, at: number): void {
    this.#last = undefined;
    let [count, references] = [0, 0];
    if (this.#absentCounts.size > 0 || this.#absentReferences.size > 0) {
      const id = pack.idAt(at);
      count = this.#absentCounts.get(id) ?? 0;
      references = this.#absentReferences.get(id) ?? 0;
      this.#absentCounts.delete(id);
      this.#absentReferences.delete(id);
    }
    const row = this.#new.add({ tag: pack.tagAt(at), pack: this.#numberOf(pack), at, count });
    this.#new.setReferences(row, references);
    // What comes while objects are marked counts as marked.
    this.#new.mark(row);
    this.#size++;
  }
  #numberOf(pack: CompactPack): number {
    return this.#numbers.get(pack) as number;
  }

  /** The row in memory of an object that was just found. */
  #changeable(row: number): number {
    const rows = this.#in;
    if (rows === this.#new) return row;
    this.#in = this.#new;
    const pack = this.#packs[rows.packOf(row)] as CompactPack;
    const at = rows.atOf(row);
    return this.#bring(rows, row, {
      tag: pack.tagAt(at),
      pack: rows.packOf(row),
      at,
      count: rows.countOf(row),
    });
  }
  /** Brings a row into those that are new. */
  #bring(from: ObjectRows, row: number, content: RowContent): number {
    this.#last = undefined;
    const brought = this.#new.add(content);
    const depth = from.depthOf(row);
    if (depth !== undefined) this.#new.setDepth(brought, depth);
    this.#new.setReferences(brought, from.referencesOf(row));
    if (from.isMarked(row)) this.#new.mark(brought);
    from.remove(row);
    return brought;
  }

  delete(id: Hash): void {
    const row = this.#find(id);
    if (row === -1) return;
    const [count, references] = [this.#in.countOf(row), this.#in.referencesOf(row)];
    if (count > 0) this.#absentCounts.set(id, count);
    if (references > 0) this.#absentReferences.set(id, references);
    this.#last = undefined;
    this.#in.remove(row);
    this.#size--;
  }

  /** One more tensor (1), or one less (-1), is coded against an object. */
  count(id: Hash, by: 1 | -1): void {
    const found = this.#find(id);
    if (found === -1) {
      changeCount(this.#absentCounts, id, by);
      return;
    }
    const row = this.#changeable(found);
    this.#new.setCount(row, this.#new.countOf(row) + by);
  }

  /** The counts of the store's owner. */
  readonly references: ObjectCounts = {
    change: (id, by) => {
      const row = this.#find(id);
      if (row === -1) changeCount(this.#absentReferences, id, by);
      else this.#in.setReferences(row, Math.max(0, this.#in.referencesOf(row) + by));
    },
    of: (id) => {
      const row = this.#find(id);
      return row === -1 ? (this.#absentReferences.get(id) ?? 0) : this.#in.referencesOf(row);
    },
    absent: () => this.#absentReferences.keys(),
  };

  /** Begins a marking, at which no object is marked. One at a time. */
  beginMarks(): void {
    this.#isMarking = true;
    for (const rows of this.#rows) rows.beginMarks();
  }
  endMarks(): void {
    this.#isMarking = false;
    for (const rows of this.#rows) rows.endMarks();
  }
  /** @returns false where the object is marked already, or is not here */
  mark(id: Hash): boolean {
    const row = this.#find(id);
    if (row === -1 || this.#in.isMarked(row)) return false;
    this.#in.mark(row);
    return true;
  }
  /** True if the object of this entry is marked. */
  isMarked(pack: CompactPack, at: number): boolean {
    const row = this.#findEntry(pack, at);
    return row !== -1 && this.#in.isMarked(row);
  }

  isCounted(id: Hash): boolean {
    const row = this.#find(id);
    return row === -1 ? this.#absentCounts.has(id) : this.#in.countOf(row) > 0;
  }

  /** The depth that was set, or undefined. */
  depth(id: Hash): number | undefined {
    const row = this.#find(id);
    return row === -1 ? undefined : this.#in.depthOf(row);
  }
  setDepth(id: Hash, depth: number): void {
    const row = this.#find(id);
    if (row !== -1) this.#in.setDepth(row, depth);
  }
  forgetDepths(): void {
    for (const rows of this.#rows) rows.forgetDepths();
  }

  /** True if the rows may be kept in a file now: nothing that is absent is counted. */
  get mayBeKept(): boolean {
    return this.#absentCounts.size === 0 && this.#keeping === undefined && !this.#isMarking;
  }

  /** Begins to make a new file, which `keep` or `abandon` ends. Only where it may be. */
  beginKeeping(): RowsToKeep {
    const [rows, kept, size] = [this.#new, this.#kept, this.#size];
    const numbers = [...this.#numbers.values()];
    const keeping = { rows, numbers, references: new RowCounts(size) };
    this.#new = new SlotRows();
    this.#keeping = keeping;
    // Before any of them is gone.
    const sorted = rows.sorted();
    rows.watch();
    kept?.watch();
    this.#listRows();
    const placeOf = new Map(numbers.map((number, place) => [number, place]));
    return {
      size,
      packs: [...this.#numbers.keys()],
      rows: inOrder({ rows, sorted }, kept, keeping.references, (number) => placeOf.get(number) as number),
    };
  }

  /**
   * Takes the rows of the file that was made, in the place of those that were kept in it.
   * @returns false: it was abandoned, since objects are marked meanwhile, or more than `mostTouched` rows of it changed
   */
  keep(file: SortedRows, mostTouched = touchedAtOnce): boolean {
    const keeping = this.#keeping as Keeping;
    if (this.#isMarking || keeping.rows.touchedRows + (this.#kept?.touchedRows ?? 0) > mostTouched) {
      this.abandon();
      return false;
    }
    const kept = new KeptRows(file, keeping.numbers, keeping.references);
    for (const before of [keeping.rows, this.#kept])
      for (const { row, content, isGone } of before?.touched() ?? []) {
        const now = rowOf(kept, content.tag, content.pack, content.at);
        if (isGone) kept.remove(now);
        else kept.setReferences(now, (before as ObjectRows).referencesOf(row));
      }
    this.#kept?.close();
    this.#kept = kept;
    this.#endKeeping();
    return true;
  }

  /** Takes what was to be kept back into memory. */
  abandon(): void {
    const { rows } = this.#keeping as Keeping;
    this.#last = undefined;
    this.#new.reserve(rows.size);
    for (const row of rows.rows()) this.#bring(rows, row, rows.contentOf(row));
    this.#kept?.unwatch();
    this.#endKeeping();
  }
  #endKeeping(): void {
    this.#keeping = undefined;
    this.#listRows();
  }

  close(): void {
    this.#kept?.close();
  }

  #placeOf(row: number): Place | undefined {
    if (row === -1) return undefined;
    if (this.#last?.rows === this.#in && this.#last.row === row) return this.#last.place;
    return { pack: this.#packs[this.#in.packOf(row)] as CompactPack, at: this.#in.atOf(row) };
  }

  #find(id: Hash): number {
    const last = this.#last;
    if (last?.id === id) return this.#again(last);
    const bytes = this.#asked;
    if (bytes.write(id, "hex") !== bytes.length) return -1;
    // Who goes through entries asks for the id of each next.
    if (last?.id === undefined && last?.place.pack.isOf(last.place.at, bytes, 0) === true) {
      last.id = id;
      return this.#again(last);
    }
    const row = this.#findBytes(bytes, 0, bytes.readUInt32BE(0));
    if (this.#last !== undefined && row !== -1) this.#last.id = id;
    return row;
  }
  #again({ rows, row }: LastFound): number {
    this.#in = rows;
    return row;
  }

  #findEntry(pack: CompactPack, at: number): number {
    if (this.#last !== undefined && this.#isLast(pack, at)) return this.#again(this.#last);
    const entry = pack.entryBytes(at);
    return this.#findBytes(entry.bytes, entry.at + 8, entry.bytes.readUInt32BE(entry.at + 8));
  }

  /** The row, in `#in`, of the object whose id is the 32 bytes at `from`; -1: there is none. */
  #findBytes(bytes: Uint8Array, from: number, tag: number): number {
    for (const rows of this.#rows)
      for (let row = rows.firstOf(tag); row !== -1; row = rows.nextOf(row, tag)) {
        const place = { pack: this.#packs[rows.packOf(row)] as CompactPack, at: rows.atOf(row) };
        if (!place.pack.isOf(place.at, bytes, from)) continue;
        this.#in = rows;
        this.#last = { rows, row, place, id: undefined };
        return row;
      }
    return -1;
  }
}

/** The row of the entry at this position of a pack; -1: there is none. */
function rowOf(rows: ObjectRows, tag: number, pack: number, at: number): number {
  let row = rows.firstOf(tag);
  while (row !== -1 && (rows.packOf(row) !== pack || rows.atOf(row) !== at)) row = rows.nextOf(row, tag);
  return row;
}

/** The rows of both in the order of their tags, and in `references` the owner's counts of each by its place. */
function* inOrder(
  { rows, sorted }: { readonly rows: SlotRows; readonly sorted: Uint32Array },
  kept: KeptRows | undefined,
  references: RowCounts,
  placeOf: (number: number) => number,
): Iterable<RowContent> {
  let [next, size] = [0, 0];
  const leaving = function* (below: number): Iterable<RowContent> {
    for (; next < sorted.length; next++) {
      const row = sorted[next] as number;
      const content = rows.contentOf(row);
      if (content.tag >= below) return;
      references.set(size++, rows.referencesOf(row));
      yield { ...content, pack: placeOf(content.pack) };
    }
  };
  for (const [row, content] of kept?.watched() ?? []) {
    yield* leaving(content.tag);
    references.set(size++, (kept as KeptRows).referencesOf(row));
    yield { ...content, pack: placeOf(content.pack) };
  }
  yield* leaving(2 ** 32);
}

function changeCount(counts: Map<Hash, number>, id: Hash, by: 1 | -1): void {
  const count = (counts.get(id) ?? 0) + by;
  if (count > 0) counts.set(id, count);
  else counts.delete(id);
}
