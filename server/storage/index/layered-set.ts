/** A sorted set of numbers, from which numbers may be removed: positions of versions that something is true of. */
import type { Row } from "../../../shared/tables/row.js";
import { LayeredKeys } from "./layered-keys.js";
import { orderBytes, orderOf, type LayeredPart, type SavedRows } from "./layers.js";

export class LayeredSet implements LayeredPart {
  readonly #keys: LayeredKeys;

  /** @param table the first byte of the keys of its rows */
  constructor(table: number, saved: SavedRows) {
    this.#keys = new LayeredKeys(table, saved);
  }

  add(number: number): void {
    this.#keys.add(keyOf(number));
  }
  delete(number: number): void {
    this.#keys.delete(keyOf(number));
  }

  /** The numbers from `from` on, before `until`. The set may change meanwhile: a page later that is seen. */
  *values(from = 0, until = Infinity): Iterable<number> {
    for (const key of this.#keys.values(keyOf(from), keyOf(until))) yield numberOf(key);
  }
  /** The numbers that `values` gives, the highest one first. */
  *reversed(from = 0, until = Infinity): Iterable<number> {
    for (const key of this.#keys.reversed(keyOf(from), keyOf(until))) yield numberOf(key);
  }

  beginCommit(): Iterable<Row> {
    return this.#keys.beginCommit();
  }
  committed(): void {
    this.#keys.committed();
  }
  failed(): void {
    this.#keys.failed();
  }
}

function keyOf(number: number): string {
  return orderOf(number).toString("latin1");
}
function numberOf(key: string): number {
  return Buffer.from(key, "latin1").readUIntBE(0, orderBytes);
}
