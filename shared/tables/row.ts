/** Rows of sorted tables: a key and a value, both bytes; rows are in the order of the bytes of their keys. */

export interface Row {
  readonly key: Buffer;
  /** Empty in a commit: the row with this key is removed. */
  readonly value: Buffer;
}

export const removed = Buffer.alloc(0);
export function isRemoved({ value }: Row): boolean {
  return value.length === 0;
}

/** A part of a table's rows: from `from` on, before `until`. */
export interface RowRange {
  readonly from: Buffer;
  readonly until: Buffer;
  /** True: the last row first. Default false. */
  readonly reverse?: boolean;
  /** The most rows that are read. */
  readonly limit: number;
}

/** The reading side of tables. Everything is read from files that never change, in the moment of the call. */
export interface Rows {
  /** The value of the row with this key. @throws FILE_FAILED; DamagedTables */
  get(key: Buffer): Buffer | undefined;
  /** Some rows in their order. @throws FILE_FAILED; DamagedTables */
  page(range: RowRange): readonly Row[];
}

/** The largest key, in bytes. */
export const maxKeyBytes = 4096;
/** The largest value, in bytes. */
export const maxValueBytes = 1024 * 1024 * 1024;

/** Tables on the disk that are not what was written: they are thrown away and made anew. */
export class DamagedTables extends Error {
  override readonly name = "DamagedTables";

  constructor(path: string, what: string) {
    super(`${path} ${what}. It is derived from the journal and made anew.`);
  }
}

/** The key after every key that begins with `prefix`. */
export function afterPrefix(prefix: Buffer): Buffer {
  const end = Buffer.from(prefix);
  for (let at = end.length - 1; at >= 0; at--) {
    const byte = end[at] as number;
    if (byte === 0xff) continue;
    end[at] = byte + 1;
    return end.subarray(0, at + 1);
  }
  return Buffer.alloc(maxKeyBytes, 0xff);
}
