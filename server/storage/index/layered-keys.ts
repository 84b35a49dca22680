/** A sorted set of keys of bytes, from which keys may be removed. A key is a string with a character for each byte. */
import { removed, type Row } from "../../../shared/tables/row.js";
import { ChangedLayers, type LayeredPart, type SavedRows } from "./layers.js";

/** Keys that are read from the disk at once: few at first, since often the first one is all that is asked for. */
const firstPageKeys = 8;
const pageKeys = 256;
const present = Buffer.of(1);

export class LayeredKeys implements LayeredPart {
  /** Key → true where it is in the set. */
  readonly #layers = new ChangedLayers<string, boolean>();
  /** The keys of both layers in memory, in order; undefined: they changed since. */
  #inMemory: readonly string[] | undefined;

  /** @param table the first byte of the keys of its rows */
  constructor(
    private readonly table: number,
    private readonly saved: SavedRows,
  ) {}

  add(key: string): void {
    this.#set(key, true);
  }
  delete(key: string): void {
    this.#set(key, false);
  }

  /** The keys from `from` on, before `until`. The set may change meanwhile: a page later that is seen. */
  *values(from: string, until: string): Iterable<string> {
    for (let [next, limit] = [from, firstPageKeys]; next < until; limit = pageKeys) {
      const page = this.#page({ from: next, until, reverse: false, limit });
      const end = page.length < limit ? until : `${page.at(-1) as string}\0`;
      yield* this.#withChanges(page, next, end);
      next = end;
    }
  }

  /** The keys that `values` gives, the last one first. */
  *reversed(from: string, until: string): Iterable<string> {
    for (let [before, limit] = [until, firstPageKeys]; before > from; limit = pageKeys) {
      const page = this.#page({ from, until: before, reverse: true, limit });
      const start = page.length < limit ? from : (page.at(-1) as string);
      yield* this.#withChanges(page, start, before).reverse();
      before = start;
    }
  }

  beginCommit(): Iterable<Row> {
    return this.#rowsOf(this.#layers.beginCommit());
  }
  committed(): void {
    this.#layers.committed();
    this.#inMemory = undefined;
  }
  failed(): void {
    this.#layers.failed();
  }

  #set(key: string, isPresent: boolean): void {
    this.#layers.set(key, isPresent);
    this.#inMemory = undefined;
  }

  *#rowsOf(changes: ReadonlyMap<string, boolean>): Iterable<Row> {
    for (const [key, isPresent] of changes)
      yield { key: this.#rowKey(key), value: isPresent ? present : removed };
  }

  #page(range: { from: string; until: string; reverse: boolean; limit: number }): readonly string[] {
    const rows = this.saved.rows?.page({
      ...range,
      from: this.#rowKey(range.from),
      until: this.#rowKey(range.until),
    });
    return (rows ?? []).map(({ key }) => key.toString("latin1", 1));
  }

  /** Keys of the disk from `from` on, before `until`, in order, as changes in memory make them. */
  #withChanges(page: readonly string[], from: string, until: string): string[] {
    const all = (this.#inMemory ??= [...new Set(this.#layers.keys())].sort(inOrder));
    const changed = all.slice(firstAtLeast(all, from), firstAtLeast(all, until));
    if (changed.length === 0) return page.toSorted(inOrder);
    return [...new Set([...page, ...changed])].filter((key) => this.#layers.get(key) ?? true).sort(inOrder);
  }

  #rowKey(key: string): Buffer {
    return Buffer.concat([Buffer.of(this.table), Buffer.from(key, "latin1")]);
  }
}

function inOrder(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

/** The place of the first of these keys that is not before `least`. */
function firstAtLeast(keys: readonly string[], least: string): number {
  let [low, high] = [0, keys.length];
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((keys[middle] as string) < least) low = middle + 1;
    else high = middle;
  }
  return low;
}
