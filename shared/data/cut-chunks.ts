/**
 * Cuts bytes into chunks where their content says so. A data set that grew, or in which files were replaced,
 * then shares all chunks around the change with the one before it, wherever the change moved them to. A
 * boundary follows where a rolling sum over the last 32 bytes has 15 leading zero bits (a gear hash; Xia et
 * al., FastCDC). Boundaries depend on the bytes alone. Pure.
 */
import { sha256 } from "../tensor/hash.js";

const minBytes = 8 * 1024;
const maxBytes = 128 * 1024;
/** The largest number of bytes of a chunk. */
export const maxChunkLength = maxBytes;
/** Chunks have about `minBytes` + 2^15 bytes on average. */
const boundaryShift = 32 - 15;

/** One number of 32 bits for each value of a byte. */
const gear = Uint32Array.from({ length: 256 }, (_, value) =>
  Number.parseInt(sha256(`stemma-gear-1\0${value}`).slice(0, 8), 16),
);

/** Chunks of 8 to 128 KiB; only the last may be shorter. Each is a copy of its own. */
export async function* cutChunks(
  pieces: Iterable<Uint8Array> | AsyncIterable<Uint8Array>,
): AsyncGenerator<Uint8Array> {
  const buffer = new Uint8Array(maxBytes);
  let length = 0;
  let sum = 0;
  for await (const piece of pieces) {
    let at = 0;
    while (at < piece.length) {
      const room = Math.min(piece.length - at, maxBytes - length);
      const { taken, next, isEnd } = scan(piece, { at, room, length, sum });
      buffer.set(piece.subarray(at, at + taken), length);
      at += taken;
      length += taken;
      sum = next;
      if (!isEnd && length < maxBytes) continue;
      yield buffer.slice(0, length);
      length = 0;
      sum = 0;
    }
  }
  if (length > 0) yield buffer.slice(0, length);
}

/** Looks for the next boundary among `room` bytes. `length`: bytes that the chunk has already. */
function scan(
  piece: Uint8Array,
  {
    at,
    room,
    length,
    sum,
  }: { readonly at: number; readonly room: number; readonly length: number; readonly sum: number },
): { readonly taken: number; readonly next: number; readonly isEnd: boolean } {
  let next = sum;
  for (let index = 0; index < room; index++) {
    next = ((next << 1) + (gear[piece[at + index] as number] as number)) >>> 0;
    if (length + index + 1 >= minBytes && next >>> boundaryShift === 0)
      return { taken: index + 1, next, isEnd: true };
  }
  return { taken: room, next, isEnd: false };
}
