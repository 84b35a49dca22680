/**
 * The bytes of simulated devices' files. A thousand devices have the same model, so equal pieces are kept once in a
 * process, found by their hash. A piece that no file has any more is freed by the garbage collector.
 */
import { createHash } from "node:crypto";
import type { FileContents, FileInMemory } from "../../shared/files/memory-files.js";

/** Bytes `piece[from … from + length - 1]` at `position` of a file. */
interface Extent {
  readonly position: number;
  readonly length: number;
  readonly piece: Uint8Array;
  readonly from: number;
}

export interface PooledFile extends FileInMemory {
  /** The extents by position, without overlaps. What lies between them is zeros. */
  extents: Extent[];
}

/** Smaller pieces are rarely equal, and cost more to look up than to keep. */
const minPooledBytes = 4096;

/** Pieces of bytes by their content. */
export class PiecePool {
  readonly #pieces = new Map<string, WeakRef<Uint8Array>>();
  readonly #freed = new FinalizationRegistry<string>((key) => {
    if (this.#pieces.get(key)?.deref() === undefined) this.#pieces.delete(key);
  });

  /** Pieces that files of this process share, or could. */
  get count(): number {
    return this.#pieces.size;
  }

  /** A copy of the bytes, or an equal piece that is there already. Nobody may change it. */
  keep(bytes: Uint8Array): Uint8Array {
    // Not by `slice`, which is a view of the same memory where the bytes are a Buffer.
    if (bytes.length < minPooledBytes) return new Uint8Array(bytes);
    const key = createHash("sha256").update(bytes).digest("base64");
    const known = this.#pieces.get(key)?.deref();
    if (known !== undefined) return known;
    const piece = new Uint8Array(bytes);
    this.#pieces.set(key, new WeakRef(piece));
    this.#freed.register(piece, key);
    return piece;
  }
}

/** Index of the first extent that ends after a position. */
function firstAfter(extents: readonly Extent[], position: number): number {
  let [low, high] = [0, extents.length];
  while (low < high) {
    const middle = (low + high) >>> 1;
    const { position: start, length } = extents[middle] as Extent;
    if (start + length > position) high = middle;
    else low = middle + 1;
  }
  return low;
}

/** The parts of an extent outside [start, end). */
function partsOutside(extent: Extent, start: number, end: number): readonly Extent[] {
  const { position, length, from } = extent;
  const before = Math.min(start - position, length);
  const skipped = Math.max(end - position, 0);
  return [
    ...(before > 0 ? [{ ...extent, length: before }] : []),
    ...(skipped < length
      ? [{ ...extent, position: position + skipped, from: from + skipped, length: length - skipped }]
      : []),
  ];
}

export function pooledContents(pool: PiecePool): FileContents<PooledFile> {
  const cut = (file: PooledFile, start: number, end: number): number => {
    const first = firstAfter(file.extents, start);
    let last = first;
    while (last < file.extents.length && (file.extents[last] as Extent).position < end) last++;
    const kept = file.extents.slice(first, last).flatMap((extent) => partsOutside(extent, start, end));
    file.extents.splice(first, last - first, ...kept);
    return firstAfter(file.extents, start);
  };
  return {
    make: () => ({ kind: "file", size: 0, modifiedMs: 0, extents: [] }),
    read: ({ extents, size }, target, position) => {
      const length = Math.max(0, Math.min(target.length, size - position));
      target.fill(0, 0, length);
      for (let at = firstAfter(extents, position); at < extents.length; at++) {
        const extent = extents[at] as Extent;
        if (extent.position >= position + length) break;
        const start = Math.max(extent.position, position);
        const end = Math.min(extent.position + extent.length, position + length);
        const from = extent.from + start - extent.position;
        target.set(extent.piece.subarray(from, from + end - start), start - position);
      }
      return length;
    },
    write: (file, bytes, position) => {
      if (bytes.length === 0) return;
      const end = position + bytes.length;
      const at = cut(file, position, end);
      file.extents.splice(at, 0, { position, length: bytes.length, piece: pool.keep(bytes), from: 0 });
      file.size = Math.max(file.size, end);
    },
    truncate: (file, size) => {
      if (size < file.size) cut(file, size, file.size);
      file.size = size;
    },
  };
}
