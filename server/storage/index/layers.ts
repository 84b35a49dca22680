/**
 * The parts of an index have layers: rows on the disk hold everything up to the newest commit, and memory what changed
 * since. While a commit is written there are two layers in memory, the one that is being written and a new one.
 */
import type { Row, Rows } from "../../../shared/tables/row.js";

/** The rows of the newest commit, for all parts of an index. */
export interface SavedRows {
  /** The rows; undefined where there is no index. */
  rows: Rows | undefined;
  /** Grows with each commit. */
  commits: number;
}

/** A part of an index, as a commit sees it. */
export interface LayeredPart {
  /** Begins a new layer for later changes. @returns the rows of the commit, in no order */
  beginCommit(): Iterable<Row>;
  /** The rows are on the disk, and `SavedRows` has them. */
  committed(): void;
  /** The rows could not be written: they are part of the next commit. */
  failed(): void;
}

/** Positions in a journal, and other numbers by which rows are in order, take six bytes. */
export const orderBytes = 6;
const highest = 2 ** 48 - 1;

export function orderOf(number: number): Buffer {
  const bytes = Buffer.allocUnsafe(orderBytes);
  bytes.writeUIntBE(Math.min(number, highest), 0, orderBytes);
  return bytes;
}

/** The changes since the newest commit by their keys: a layer that is being written, and a later one that hides it. */
export class ChangedLayers<Key, Change> {
  #changed = new Map<Key, Change>();
  #committing: ReadonlyMap<Key, Change> | undefined;

  get(key: Key): Change | undefined {
    return this.#changed.get(key) ?? this.#committing?.get(key);
  }
  set(key: Key, change: Change): void {
    this.#changed.set(key, change);
  }
  /** The keys of both layers, those of both twice. */
  keys(): readonly Key[] {
    return [...(this.#committing?.keys() ?? []), ...this.#changed.keys()];
  }

  /** Returns the layer that is to be written; later changes go into a new one. */
  beginCommit(): ReadonlyMap<Key, Change> {
    const committing = this.#changed;
    this.#committing = committing;
    this.#changed = new Map();
    return committing;
  }
  committed(): void {
    this.#committing = undefined;
  }
  failed(): void {
    this.#changed = new Map([...(this.#committing ?? []), ...this.#changed]);
    this.#committing = undefined;
  }
}
