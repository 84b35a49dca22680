/**
 * Keeps a coded stream while it is sent: appended once, then read at any position. Stored in a file that is
 * removed when the transfer ends, or in memory for a short stream. It need not outlive the process, because
 * coding again gives the same bytes.
 */
import type { Files, OpenFile } from "../../ports.js";
import type { StreamObject } from "../transfer/stream.js";

export interface CodingSpool {
  /** Appends bytes and returns them as an object of a stream. */
  append(bytes: Uint8Array): Promise<StreamObject>;
  remove(): Promise<void>;
}

/** Suffix of a spool's file name: files that a killed process left are removed at the next start. */
export const codingSpoolEnding = ".coded";

/**
 * @param byteLength upper bound of the bytes that will be appended
 * @param memoryBytes a spool of at most this many bytes stays in memory
 */
export async function openCodingSpool(
  files: Files,
  path: string,
  byteLength: number,
  memoryBytes: number,
): Promise<CodingSpool> {
  if (byteLength <= memoryBytes) return memorySpool();
  await files.remove(path);
  const file = await files.open(path, "create");
  let end = 0;
  return {
    async append(bytes) {
      const offset = end;
      end += bytes.length;
      await file.write(bytes, offset);
      return objectOfFile(file, offset, bytes.length);
    },
    async remove() {
      await file.close();
      await files.remove(path);
    },
  };
}

/** A spool that keeps nothing: only the lengths of what is appended are wanted. */
export function countingSpool(): CodingSpool {
  return {
    append: ({ length }) =>
      Promise.resolve({
        byteLength: length,
        chunks: () => {
          throw new RangeError("a counting spool keeps no bytes");
        },
      }),
    remove: () => Promise.resolve(),
  };
}

function memorySpool(): CodingSpool {
  return {
    append(bytes) {
      return Promise.resolve({
        byteLength: bytes.length,
        async *chunks() {
          if (bytes.length > 0) yield Promise.resolve(bytes);
        },
        readAt: (offset: number, target: Uint8Array) => {
          target.set(bytes.subarray(offset, offset + target.length));
          return Promise.resolve(true);
        },
      });
    },
    remove: () => Promise.resolve(),
  };
}

const pieceBytes = 1024 * 1024;

function objectOfFile(file: OpenFile, offset: number, byteLength: number): StreamObject {
  const readAt = async (at: number, target: Uint8Array): Promise<true> => {
    for (let got = 0; got < target.length;) {
      const count = await file.read(target.subarray(got), offset + at + got);
      if (count === 0) throw new RangeError("a coded stream's file is shorter than what was written to it");
      got += count;
    }
    return true;
  };
  return {
    byteLength,
    readAt,
    async *chunks() {
      for (let at = 0; at < byteLength; at += pieceBytes) {
        const piece = new Uint8Array(Math.min(pieceBytes, byteLength - at));
        await readAt(at, piece);
        yield piece;
      }
    },
  };
}
