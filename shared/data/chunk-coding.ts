/**
 * Encodes a chunk of samples for store and wire: coding u8 ‖ bytes. 0: as they are. 1: deflated. 2: the first
 * byte of every four, then the second, third and fourth, deflated: of float32 samples the exponents come
 * together. The shortest is taken. Samples that were integers (pictures) and windows, which repeat each
 * number, take 1; single measured floats take 2. docs/reference/data.md has figures. Pure.
 */
import { promisify } from "node:util";
import { deflateRaw, inflateRaw } from "node:zlib";
import { StemmaError } from "../errors.js";
import { maxChunkLength } from "./cut-chunks.js";

const deflate = promisify<Uint8Array, Buffer>(deflateRaw);
const inflate = promisify<Uint8Array, { readonly maxOutputLength: number }, Buffer>(inflateRaw);

const codings = { raw: 0, deflated: 1, planes: 2 } as const;

/** The same bytes for the same chunk, as long as the machine's zlib is the same. */
export async function codeChunk(chunk: Uint8Array): Promise<Uint8Array> {
  const [deflated, planes] = await Promise.all([deflate(chunk), deflate(planesOf(chunk))]);
  const forms = [
    [codings.raw, chunk],
    [codings.deflated, deflated],
    [codings.planes, planes],
  ] as const;
  const [coding, bytes] = forms.reduce((best, form) => (form[1].length < best[1].length ? form : best));
  const coded = new Uint8Array(1 + bytes.length);
  coded[0] = coding;
  coded.set(bytes, 1);
  return coded;
}

/**
 * @param byteLength of the chunk, from its manifest
 * @throws DATA_MANIFEST_INVALID where the bytes are not a coded chunk of this length
 */
export async function decodeChunk(coded: Uint8Array, byteLength: number): Promise<Uint8Array> {
  const bytes = await decoded(coded, byteLength);
  if (bytes.length !== byteLength) throw invalid(`it has ${bytes.length} bytes, not ${byteLength}`);
  return bytes;
}

async function decoded(coded: Uint8Array, byteLength: number): Promise<Uint8Array> {
  if (byteLength > maxChunkLength) throw invalid(`${byteLength} bytes are more than ${maxChunkLength}`);
  const body = coded.subarray(1);
  switch (coded[0]) {
    case codings.raw:
      return body;
    case codings.deflated:
      return await inflated(body, byteLength);
    case codings.planes:
      return bytesOfPlanes(await inflated(body, byteLength));
    default:
      throw invalid(`its coding is ${coded[0] ?? "missing"}`);
  }
}

async function inflated(body: Uint8Array, byteLength: number): Promise<Uint8Array> {
  try {
    return await inflate(body, { maxOutputLength: byteLength });
  } catch (cause) {
    throw invalid("it cannot be inflated", cause);
  }
}

function invalid(problem: string, cause?: unknown): StemmaError {
  return new StemmaError(
    "DATA_MANIFEST_INVALID",
    `A chunk of a data set is not what its manifest states: ${problem}. Push the data set again, or have the ` +
      "device save its model again.",
    { cause },
  );
}

/** Every fourth byte from the first on, then from the second, third and fourth; what is left over stays last. */
function planesOf(bytes: Uint8Array): Uint8Array {
  const count = Math.floor(bytes.length / 4);
  const planes = bytes.slice();
  for (let plane = 0; plane < 4; plane++)
    for (let index = 0; index < count; index++)
      planes[plane * count + index] = bytes[4 * index + plane] as number;
  return planes;
}

function bytesOfPlanes(planes: Uint8Array): Uint8Array {
  const count = Math.floor(planes.length / 4);
  const bytes = Uint8Array.from(planes);
  for (let plane = 0; plane < 4; plane++)
    for (let index = 0; index < count; index++)
      bytes[4 * index + plane] = planes[plane * count + index] as number;
  return bytes;
}
