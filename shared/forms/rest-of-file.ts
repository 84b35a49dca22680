/** Reads what of a model's file is not its tensors, so that the very file can be written again. */
import { basename } from "node:path";
import { encodeRest, maxRestBytes, type RestOfFile } from "../model/rest-of-file.js";
import { endingOf, isKeptFileName } from "../model/kept-file.js";
import { tensorByteLength } from "../tensor/dtype.js";
import { readFully } from "../tensor/safetensors-reader.js";
import type { FormContent, OpenedPart } from "./form.js";
import { sha256OfFile } from "./sha256-of-file.js";

interface Span {
  readonly tensor: number;
  readonly start: number;
  readonly end: number;
}

/**
 * Reads the whole file once, for its SHA-256.
 * @returns undefined where the tensors' bytes do not lie in the file as they are, or its rest is longer than is kept
 * @throws FILE_FAILED, SAFETENSORS_TRUNCATED where the file became shorter
 */
export async function restOfFile(
  part: OpenedPart,
  path: string,
  { tensors }: Pick<FormContent, "tensors">,
): Promise<Uint8Array | undefined> {
  const spans = spansOf(tensors, part.size);
  const tensorBytes = spans.reduce((sum, { start, end }) => sum + end - start, 0);
  if (spans.length === 0 || part.size - tensorBytes > maxRestBytes) return undefined;
  const pieces: number[] = [];
  const bytes: Uint8Array[] = [];
  let at = 0;
  for (const { tensor, start, end } of [...spans, { tensor: -1, start: part.size, end: part.size }]) {
    const literal = new Uint8Array(start - at);
    await readFully(part.file, literal, at, path);
    bytes.push(literal);
    pieces.push(literal.length, ...(tensor < 0 ? [] : [tensor]));
    at = end;
  }
  const name = basename(path);
  const rest: RestOfFile = {
    name: isKeptFileName(name) ? name : `original${endingOf(name)}`,
    sha256: await sha256OfFile(part.file, part.size, path),
    byteLength: part.size,
    pieces,
    bytes: Buffer.concat(bytes),
  };
  return encodeRest(rest);
}

/** The places of tensors, in the order of the file; one that shares bytes with another is left out. */
function spansOf(tensors: FormContent["tensors"], size: number): readonly Span[] {
  const all = tensors.flatMap(({ dtype, shape, at }, tensor): Span[] => {
    const byteLength = tensorByteLength(dtype, shape);
    return at === undefined || byteLength === 0 ? [] : [{ tensor, start: at, end: at + byteLength }];
  });
  let end = 0;
  return all
    .sort((one, other) => one.start - other.start || other.end - one.end)
    .filter((span) => {
      if (span.start < end || span.end > size) return false;
      end = span.end;
      return true;
    });
}
