/** A small object that a version uses, from bytes in memory. */
import { objectId } from "../tensor/hash.js";
import type { UsedObject } from "./save-uses.js";

/** An object of kind "data". */
export function usedData(bytes: Uint8Array): UsedObject {
  return { id: objectId("data", bytes), source: { chunks: () => onePiece(bytes) } };
}

// eslint-disable-next-line @typescript-eslint/require-await -- a stream of one piece
async function* onePiece(bytes: Uint8Array): AsyncGenerator<Uint8Array> {
  yield bytes;
}
