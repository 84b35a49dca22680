/** The very file that a model came from, of its tensors and the rest of that file. */
import { leafOrderOfFile } from "../model/names.js";
import { decodeRest, type RestOfFile } from "../model/rest-of-file.js";
import type { TensorSource } from "../tensor/tensor.js";
import { withSha256 } from "./kept-file-chunks.js";
import type { RecoveredModel } from "./recovery.js";

export interface OriginalFile {
  readonly name: string;
  readonly byteLength: number;
  /** Throws ROOT_MISMATCH at the end, where the bytes are not those of the stated SHA-256. */
  readonly chunks: AsyncIterable<Uint8Array>;
}

/** @param rest the attachment's bytes. @throws MODEL_FILE_MALFORMED */
export function originalFileOf(
  { names, sources }: Readonly<Pick<RecoveredModel, "names" | "sources">>,
  rest: Uint8Array,
): OriginalFile {
  const inOrder = leafOrderOfFile(names).map((leaf) => sources[leaf] as TensorSource);
  const decoded = decodeRest(
    rest,
    inOrder.map(({ byteLength }) => byteLength),
  );
  const { name, byteLength } = decoded;
  return { name, byteLength, chunks: withSha256(decoded, chunksOf(decoded, inOrder)) };
}

async function* chunksOf(
  { pieces, bytes }: Pick<RestOfFile, "pieces" | "bytes">,
  tensors: readonly TensorSource[],
): AsyncGenerator<Uint8Array> {
  let at = 0;
  for (const [i, piece] of pieces.entries())
    if (i % 2 === 1) yield* (tensors[piece] as TensorSource).chunks();
    else if (piece > 0) {
      yield bytes.subarray(at, at + piece);
      at += piece;
    }
}
