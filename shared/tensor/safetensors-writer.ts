/**
 * Writes safetensors as a stream of bytes, so that a model of any size can be written to a file or a socket.
 * Does not depend on models.
 */
import { StemmaError } from "../errors.js";
import type { OpenFile } from "../ports.js";
import { tensorByteLength } from "./dtype.js";
import {
  headerDescribes,
  maxHeaderBytes,
  safetensorsHeaderText,
  safetensorsMalformed,
} from "./safetensors-header.js";
import type { TensorSource } from "./tensor.js";

export interface NamedSource {
  readonly name: string;
  readonly source: TensorSource;
}

export interface SafetensorsOptions {
  readonly metadata?: Readonly<Record<string, string>>;
  /**
   * A header kept from the file that these tensors came from; written verbatim where it still describes them,
   * else ignored.
   */
  readonly headerText?: string;
}

function prefixOf(tensors: readonly NamedSource[], { metadata, headerText }: SafetensorsOptions): Buffer {
  const parts = tensors.map(({ name, source: { dtype, shape } }) => ({ name, dtype, shape }));
  const kept =
    headerText !== undefined && headerDescribes(headerText, parts)
      ? headerText
      : safetensorsHeaderText(parts, metadata);
  const header = Buffer.from(kept, "utf8");
  if (header.length > maxHeaderBytes)
    throw safetensorsMalformed(
      "What is to be written",
      `its header of ${header.length} bytes is longer than ${maxHeaderBytes}`,
    );
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(header.length));
  return Buffer.concat([length, header]);
}

/**
 * Bytes of the complete file, known before any tensor is read. @throws SAFETENSORS_MALFORMED, SHAPE_INVALID
 */
export function safetensorsByteLength(
  tensors: readonly NamedSource[],
  options: SafetensorsOptions = {},
): number {
  return tensors.reduce(
    (sum, { source: { dtype, shape } }) => sum + tensorByteLength(dtype, shape),
    prefixOf(tensors, options).length,
  );
}

/**
 * The file as a stream: header, then the tensors in this order.
 * @throws SAFETENSORS_MALFORMED, SHAPE_INVALID; TENSOR_SIZE_MISMATCH where a source gives another number of
 * bytes than its shape
 */
export async function* safetensorsChunks(
  tensors: readonly NamedSource[],
  options: SafetensorsOptions = {},
): AsyncGenerator<Uint8Array> {
  yield prefixOf(tensors, options);
  for (const { name, source } of tensors) {
    const expected = tensorByteLength(source.dtype, source.shape);
    let actual = 0;
    for await (const chunk of source.chunks()) {
      actual += chunk.length;
      if (actual > expected) break;
      yield chunk;
    }
    if (actual !== expected)
      throw new StemmaError(
        "TENSOR_SIZE_MISMATCH",
        `The tensor ${JSON.stringify(name)} gave ${actual > expected ? "more than" : actual} bytes where its shape asks for ${expected}. Check what produced it.`,
        { expected, actual },
      );
  }
}

/** Writes the file from its first byte; returns how many bytes it has. The caller syncs and renames. */
export async function writeSafetensors(
  file: Pick<OpenFile, "write">,
  tensors: readonly NamedSource[],
  options: SafetensorsOptions = {},
): Promise<number> {
  let at = 0;
  for await (const chunk of safetensorsChunks(tensors, options)) {
    await file.write(chunk, at);
    at += chunk.length;
  }
  return at;
}
