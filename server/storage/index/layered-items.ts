/**
 * Items by their ids and in the order of their positions in the journal. An item that was read from the disk is a copy:
 * whoever changes one does it by `change`.
 */
import { LRUCache } from "lru-cache";
import { hashBytes } from "../../../shared/tensor/hash.js";
import type { Hash } from "../../../shared/tensor/tensor.js";
import type { Row } from "../../../shared/tables/row.js";
import { orderBytes, orderOf, type LayeredPart, type SavedRows } from "./layers.js";
import type { ListCodec } from "./layered-lists.js";

export interface Positioned {
  readonly position: number;
}
type Layer<Item> = Map<Hash, Item>;

export interface ItemCodec<Item> extends ListCodec<Item> {
  readonly idOf: (item: Item) => Hash;
  /** A copy that may be changed while the item stays as it is. */
  readonly copy: (item: Item) => Item;
}

/** Items that are read from the disk at once: few at first, since a page of a list is often all that is asked for. */
const firstPageItems = 64;
const pageItems = 256;
const keptItems = 2048;

export class LayeredItems<Item extends Positioned> implements LayeredPart {
  #changed: Layer<Item> = new Map();
  #committing: Layer<Item> | undefined;
  /** The ids and positions of the items that are not on the disk yet, in order. */
  #added: { readonly id: Hash; readonly position: number }[] = [];
  #committingAdded = 0;
  #size: number;
  readonly #kept = new LRUCache<Hash, Item>({ max: keptItems });

  /**
   * @param tables the first bytes of the keys of its rows
   * @param size the number of items on the disk
   */
  constructor(
    private readonly tables: { readonly items: number; readonly ids: number },
    private readonly codec: ItemCodec<Item>,
    private readonly saved: SavedRows,
    size: number,
  ) {
    this.#size = size;
  }

  get size(): number {
    return this.#size;
  }

  get(id: Hash): Item | undefined {
    return this.#inMemory(id) ?? this.#kept.get(id) ?? this.#read(id);
  }
  /** The item at this position. */
  at(position: number): Item | undefined {
    const added = this.#added[this.#firstAdded(position - 1)];
    if (added?.position === position) return this.#inMemory(added.id);
    const bytes = this.saved.rows?.get(this.#itemKey(position));
    return bytes && this.#current(this.codec.decode(bytes));
  }
  has(id: Hash): boolean {
    return this.positionOf(id) !== undefined;
  }

  /** The position of the item with this id. */
  positionOf(id: Hash): number | undefined {
    return (this.#inMemory(id) ?? this.#kept.get(id))?.position ?? this.#savedPosition(id);
  }

  /** Adds an item that comes after all others. */
  add(item: Item): void {
    const id = this.codec.idOf(item);
    this.#changed.set(id, item);
    this.#added.push({ id, position: item.position });
    this.#size++;
  }

  /** Changes an item; false: there is none with this id. */
  change(id: Hash, change: (item: Item) => void): boolean {
    let item = this.#changed.get(id);
    if (item === undefined) {
      const before = this.get(id);
      if (before === undefined) return false;
      item = this.codec.copy(before);
      this.#kept.delete(id);
      this.#changed.set(id, item);
    }
    change(item);
    return true;
  }

  /** The items with positions from `from` on, before `until`. Items may be added, changed and committed meanwhile. */
  *values(from = 0, until = Infinity): Iterable<Item> {
    let after = from - 1;
    let readCommits = -1;
    let limit = firstPageItems;
    for (;;) {
      const next = this.#added[this.#firstAdded(after)];
      const commits = this.saved.commits;
      // What was committed meanwhile is on the disk now.
      if (readCommits !== commits) {
        const page = this.#page(after, until, limit);
        limit = pageItems;
        for (const saved of page) {
          // A commit meanwhile may have changed what follows on this page.
          if (this.saved.commits !== commits) break;
          after = saved.position;
          yield this.#current(saved);
        }
        if (page.length === 0) readCommits = commits;
        continue;
      }
      if (next === undefined || next.position >= until) return;
      after = next.position;
      yield this.#inMemory(next.id) as Item;
    }
  }

  /** The items with positions from `from` on, before `until`, the last one first. Items may be committed meanwhile. */
  *reversed(from = 0, until = Infinity): Iterable<Item> {
    for (let [before, limit] = [until, firstPageItems]; ; limit = pageItems) {
      const added = this.#added[this.#firstAdded(before - 1) - 1];
      if (added !== undefined) {
        if (added.position < from) return;
        before = added.position;
        yield this.#inMemory(added.id) as Item;
        continue;
      }
      const rows = this.saved.rows?.page({
        from: this.#itemKey(from),
        until: this.#itemKey(before),
        reverse: true,
        limit,
      });
      const { commits } = this.saved;
      for (const { value } of rows ?? []) {
        if (this.saved.commits !== commits) break;
        const saved = this.codec.decode(value);
        before = saved.position;
        yield this.#current(saved);
      }
      if (this.saved.commits === commits && (rows?.length ?? 0) < limit) return;
    }
  }

  *keys(): Iterable<Hash> {
    for (const item of this.values()) yield this.codec.idOf(item);
  }

  /** The ids that begin with some hexadecimal digits. */
  idsWith(prefix: string): readonly Hash[] {
    const low = prefix.padEnd(64, "0") as Hash;
    const high = prefix.padEnd(64, "f") as Hash;
    const rows = this.saved.rows?.page({
      from: this.#idKey(low),
      until: Buffer.concat([this.#idKey(high), Buffer.of(0)]),
      limit: Infinity,
    });
    const saved = (rows ?? []).map(({ key }) => key.subarray(1).toString("hex") as Hash);
    const added = this.#added.map(({ id }) => id).filter((id) => id.startsWith(prefix));
    return [...new Set([...saved, ...added])];
  }

  beginCommit(): Iterable<Row> {
    const committing = this.#changed;
    this.#committing = committing;
    this.#committingAdded = this.#added.length;
    this.#changed = new Map();
    return this.#rowsOf(committing, this.#added.slice());
  }
  committed(): void {
    this.#committing = undefined;
    this.#added = this.#added.slice(this.#committingAdded);
  }
  failed(): void {
    this.#changed = new Map([...(this.#committing ?? []), ...this.#changed]);
    this.#committing = undefined;
  }

  *#rowsOf(
    items: Layer<Item>,
    added: readonly { readonly id: Hash; readonly position: number }[],
  ): Iterable<Row> {
    for (const item of items.values())
      yield { key: this.#itemKey(item.position), value: this.codec.encode(item) };
    for (const { id, position } of added) yield { key: this.#idKey(id), value: orderOf(position) };
  }

  #inMemory(id: Hash): Item | undefined {
    return this.#changed.get(id) ?? this.#committing?.get(id);
  }

  /** An item that was just read, as it is now. */
  #current(saved: Item): Item {
    const id = this.codec.idOf(saved);
    const changed = this.#inMemory(id);
    // What belongs to it is asked for next.
    if (changed === undefined) this.#kept.set(id, saved);
    return changed ?? saved;
  }

  #savedPosition(id: Hash): number | undefined {
    return this.saved.rows?.get(this.#idKey(id))?.readUIntBE(0, orderBytes);
  }

  #read(id: Hash): Item | undefined {
    const position = this.#savedPosition(id);
    const bytes = position === undefined ? undefined : this.saved.rows?.get(this.#itemKey(position));
    if (bytes === undefined) return undefined;
    const item = this.codec.decode(bytes);
    this.#kept.set(id, item);
    return item;
  }

  #page(after: number, until: number, limit: number): readonly Item[] {
    const rows = this.saved.rows?.page({
      from: this.#itemKey(after + 1),
      until: this.#itemKey(until),
      limit,
    });
    return (rows ?? []).map(({ value }) => this.codec.decode(value));
  }

  #firstAdded(after: number): number {
    let [low, high] = [0, this.#added.length];
    while (low < high) {
      const middle = (low + high) >>> 1;
      if ((this.#added[middle]?.position ?? 0) <= after) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  #itemKey(position: number): Buffer {
    return Buffer.concat([Buffer.of(this.tables.items), orderOf(position)]);
  }
  #idKey(id: Hash): Buffer {
    return Buffer.concat([Buffer.of(this.tables.ids), hashBytes(id)]);
  }
}
