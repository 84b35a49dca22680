/** Rows of a table of objects, in memory or in a file: where the copy of each object is, and what is counted of it. */

/** A row is found by the first four bytes of its object's id, its tag, and addressed by a number. */
export interface ObjectRows {
  /** The first row with this tag; -1: there is none. */
  firstOf(tag: number): number;
  /** The next row with the tag; -1: there is none. */
  nextOf(row: number, tag: number): number;
  /** The number of the pack. */
  packOf(row: number): number;
  /** The position of the entry in the index of that pack. */
  atOf(row: number): number;
  /** Tensors that are coded against the object. */
  countOf(row: number): number;
  /** The depth of the chain, where it was set. */
  depthOf(row: number): number | undefined;
  setDepth(row: number, depth: number): void;
  forgetDepths(): void;
  /** The count of the store's owner. */
  referencesOf(row: number): number;
  setReferences(row: number, count: number): void;
  /** Begins a marking, at which no row is marked. */
  beginMarks(): void;
  endMarks(): void;
  isMarked(row: number): boolean;
  mark(row: number): void;
  remove(row: number): void;
}

/** The content of a row. */
export interface RowContent {
  readonly tag: number;
  readonly pack: number;
  readonly at: number;
  readonly count: number;
}
