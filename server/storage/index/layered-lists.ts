/**
 * Lists that only grow, each under a key: the versions of a name, the activations of a line. The items of a list have
 * numbers, each higher than the one before, and are found by them.
 */
import { LRUCache } from "lru-cache";
import type { Row } from "../../../shared/tables/row.js";
import { hashBytes, isHash } from "../../../shared/tensor/hash.js";
import { orderBytes, orderOf, type LayeredPart, type SavedRows } from "./layers.js";

interface Item<Value> {
  readonly order: number;
  readonly value: Value;
}
type Lists<Value> = Map<string, Item<Value>[]>;

export interface ListCodec<Value> {
  readonly encode: (value: Value) => Buffer;
  readonly decode: (bytes: Buffer) => Value;
}

/** Items that are read from the disk at once. */
const pageItems = 128;
const keptLasts = 8192;
/** Written in place of the length of a key that is a hash: no text is so long. */
const lengthOfHash = 0xffff;

export class LayeredLists<Value> implements LayeredPart {
  #changed: Lists<Value> = new Map();
  #committing: Lists<Value> | undefined;
  /** The last items of lists that were asked for lately. */
  readonly #lasts = new LRUCache<string, Item<Value>>({ max: keptLasts });

  /** @param table the first byte of the keys of its rows */
  constructor(
    private readonly table: number,
    private readonly codec: ListCodec<Value>,
    private readonly saved: SavedRows,
  ) {}

  /** Adds an item, whose number is higher than those of its list. */
  add(key: string, order: number, value: Value): void {
    const list = this.#changed.get(key);
    const item = { order, value };
    if (list === undefined) this.#changed.set(key, [item]);
    else list.push(item);
    this.#lasts.set(key, item);
  }

  /** The items of a list, those with low numbers first. Items may be added meanwhile. */
  *of(key: string): Iterable<Value> {
    for (let after = -1; ;) {
      const page = this.#page(key, after);
      for (const { order, value } of page) {
        after = order;
        yield value;
      }
      if (page.length === 0) return;
    }
  }

  /** The items of a list, those with high numbers first. */
  *reversed(key: string): Iterable<Value> {
    for (let before = Infinity; ;) {
      const page = this.#pageBefore(key, before);
      for (const { order, value } of page) {
        before = order;
        yield value;
      }
      if (page.length === 0) return;
    }
  }

  /** The item with the highest number. */
  last(key: string): Item<Value> | undefined {
    const known =
      this.#lasts.get(key) ?? this.#changed.get(key)?.at(-1) ?? this.#committing?.get(key)?.at(-1);
    if (known !== undefined) return known;
    const [saved] = this.#savedPage(key, { from: 0, until: Infinity, reverse: true, limit: 1 });
    if (saved !== undefined) this.#lasts.set(key, saved);
    return saved;
  }

  at(key: string, order: number): Value | undefined {
    for (const layer of [this.#changed, this.#committing]) {
      const list = layer?.get(key);
      const item = list?.[firstAtLeast(list, order)];
      if (item?.order === order) return item.value;
    }
    const bytes = this.saved.rows?.get(this.#rowKey(key, order));
    return bytes && this.codec.decode(bytes);
  }

  /** True if the list has an item. */
  has(key: string): boolean {
    return this.last(key) !== undefined;
  }

  beginCommit(): Iterable<Row> {
    const committing = this.#changed;
    this.#committing = committing;
    this.#changed = new Map();
    return this.#rowsOf(committing);
  }
  committed(): void {
    this.#committing = undefined;
  }
  failed(): void {
    const later = this.#changed;
    this.#changed = this.#committing ?? new Map<string, Item<Value>[]>();
    this.#committing = undefined;
    for (const [key, list] of later) {
      const known = this.#changed.get(key);
      if (known === undefined) this.#changed.set(key, list);
      else known.push(...list);
    }
  }

  *#rowsOf(lists: Lists<Value>): Iterable<Row> {
    for (const [key, list] of lists)
      for (const { order, value } of list)
        yield { key: this.#rowKey(key, order), value: this.codec.encode(value) };
  }

  /** The next items of a list: of the first layer that has any. */
  #page(key: string, after: number): readonly Item<Value>[] {
    const page = this.#savedPage(key, { from: after + 1, until: Infinity, reverse: false, limit: pageItems });
    if (page.length > 0) return page;
    for (const layer of [this.#committing, this.#changed]) {
      const list = layer?.get(key) ?? [];
      const at = firstAtLeast(list, after + 1);
      if (at < list.length) return list.slice(at, at + pageItems);
    }
    return [];
  }

  #pageBefore(key: string, before: number): readonly Item<Value>[] {
    for (const layer of [this.#changed, this.#committing]) {
      const list = layer?.get(key) ?? [];
      const end = firstAtLeast(list, before);
      if (end > 0) return list.slice(Math.max(0, end - pageItems), end).reverse();
    }
    return this.#savedPage(key, { from: 0, until: before, reverse: true, limit: pageItems });
  }

  #savedPage(
    key: string,
    { from, until, reverse, limit }: { from: number; until: number; reverse: boolean; limit: number },
  ): readonly Item<Value>[] {
    const rows = this.saved.rows?.page({
      from: this.#rowKey(key, from),
      until: this.#rowKey(key, until),
      reverse,
      limit,
    });
    return (rows ?? []).map((row) => ({
      order: row.key.readUIntBE(row.key.length - orderBytes, orderBytes),
      value: this.codec.decode(row.value),
    }));
  }

  /** The length comes first, so that no list is part of another one's range. A hash is written as its bytes. */
  #rowKey(key: string, order: number): Buffer {
    const isOfHash = isHash(key);
    const text = isOfHash ? hashBytes(key) : Buffer.from(key);
    const start = Buffer.allocUnsafe(3);
    start[0] = this.table;
    start.writeUInt16BE(isOfHash ? lengthOfHash : text.length, 1);
    return Buffer.concat([start, text, orderOf(order)]);
  }
}

/** The place of the first item whose number is not below `order`. */
function firstAtLeast(items: readonly Item<unknown>[], order: number): number {
  let [low, high] = [0, items.length];
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((items[middle] as Item<unknown>).order < order) low = middle + 1;
    else high = middle;
  }
  return low;
}
