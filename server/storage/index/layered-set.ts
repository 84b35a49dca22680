/** A set of numbers, in their order, from which numbers may be removed: positions of versions that something is true of. */
import { removed, type Row } from "../../../shared/tables/row.js";
import { orderBytes, orderOf, type LayeredPart, type SavedRows } from "./layers.js";

/** Numbers that are read from the disk at once. */
const pageNumbers = 256;
const present = Buffer.of(1);

type Changes = Map<number, boolean>;

export class LayeredSet implements LayeredPart {
  #changed: Changes = new Map();
  #committing: Changes | undefined;
  /** The numbers of both layers in memory, in order; undefined: they changed since. */
  #inMemory: readonly number[] | undefined;

  /** @param table the first byte of the keys of its rows */
  constructor(
    private readonly table: number,
    private readonly saved: SavedRows,
  ) {}

  add(number: number): void {
    this.#set(number, true);
  }
  delete(number: number): void {
    this.#set(number, false);
  }

  /** The numbers from `from` on, before `until`. The set may change meanwhile, which is seen a page later at the latest. */
  *values(from = 0, until = Infinity): Iterable<number> {
    for (let next = from; next < until;) {
      const page = this.#page(next, until, false);
      const end = page.length < pageNumbers ? until : (page.at(-1) as number) + 1;
      yield* this.#withChanges(page, next, end);
      next = end;
    }
  }

  /** As `values`, the highest number first. */
  *reversed(from = 0, until = Infinity): Iterable<number> {
    for (let before = until; before > from;) {
      const page = this.#page(from, before, true);
      const start = page.length < pageNumbers ? from : (page.at(-1) as number);
      yield* this.#withChanges(page, start, before).reverse();
      before = start;
    }
  }

  beginCommit(): Iterable<Row> {
    const committing = this.#changed;
    this.#committing = committing;
    this.#changed = new Map();
    return this.#rowsOf(committing);
  }
  committed(): void {
    this.#committing = undefined;
    this.#inMemory = undefined;
  }
  failed(): void {
    this.#changed = new Map([...(this.#committing ?? []), ...this.#changed]);
    this.#committing = undefined;
  }

  #set(number: number, isPresent: boolean): void {
    this.#changed.set(number, isPresent);
    this.#inMemory = undefined;
  }

  *#rowsOf(changes: Changes): Iterable<Row> {
    for (const [number, isPresent] of changes)
      yield { key: this.#rowKey(number), value: isPresent ? present : removed };
  }

  #page(from: number, until: number, reverse: boolean): readonly number[] {
    const rows = this.saved.rows?.page({
      from: this.#rowKey(from),
      until: this.#rowKey(until),
      reverse,
      limit: pageNumbers,
    });
    return (rows ?? []).map(({ key }) => key.readUIntBE(key.length - orderBytes, orderBytes));
  }

  /** Numbers of the disk from `from` on, before `until`, in order, as changes in memory make them. */
  #withChanges(page: readonly number[], from: number, until: number): number[] {
    const all = (this.#inMemory ??= [
      ...new Set([...(this.#committing?.keys() ?? []), ...this.#changed.keys()]),
    ].sort((a, b) => a - b));
    const changed = all.slice(firstAtLeast(all, from), firstAtLeast(all, until));
    if (changed.length === 0) return page.toSorted((a, b) => a - b);
    const isPresent = (number: number): boolean =>
      this.#changed.get(number) ?? this.#committing?.get(number) ?? true;
    return [...new Set([...page, ...changed])].filter(isPresent).sort((a, b) => a - b);
  }

  #rowKey(number: number): Buffer {
    return Buffer.concat([Buffer.of(this.table), orderOf(number)]);
  }
}

/** The place of the first of these numbers that is not below `least`. */
function firstAtLeast(numbers: readonly number[], least: number): number {
  let [low, high] = [0, numbers.length];
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((numbers[middle] as number) < least) low = middle + 1;
    else high = middle;
  }
  return low;
}
