/**
 * A general coder (brotli) over the bytes of a tensor, for types whose repeats decide: packed small integers,
 * token ids, masks, pruned weights. Byte planes or elements as they are, of the tensor or of what it differs
 * by from its base.
 *
 * Bytes: form u8 (transform, plus 4 for byte planes) ‖ brotli stream (RFC 7932).
 */
import { brotliCompressSync, brotliDecompressSync, constants } from "node:zlib";
import { encodingMalformed } from "./encoding-malformed.js";
import { roughLog2 } from "./numbers.js";

/**
 * The coded forms of an element: itself, its xor with the base's, its difference from the base's as an integer, or its
 * xor where "becomes zero" and 1 have changed places, so that a pruned element takes one symbol.
 */
const transforms = { none: 0, xor: 1, difference: 2, pruned: 3 } as const;
const planesFlag = 4;
const forms = 8;

/** Larger tensors are not coded so: it is slow. */
const maxBytes = 64 * 1024 * 1024;
/** A form is chosen on a sample: so many runs of so many bytes. */
const runs = 4;
const runBytes = 2 ** 15;
const sampleQuality = 5;
const quality = 9;
/** Short tensors get the slowest and best search, which short elements gain most by: 3 to 6 %. */
const bestQuality = 11;
const bestQualityBytes = [0, 2 ** 21, 2 ** 17, 0, 2 ** 15, 0, 0, 0, 2 ** 15] as const;
const bestQualityShare = 0.95;
/** Longer ones of single bytes get the next best, up to this length: a megabyte takes 1 to 2 seconds. */
const goodQuality = 10;
const goodQualityBytes = 2 ** 23;
/** Streams up to this length are also tried without the setting for repeats of elements. */
const shortStreamBytes = 64;
/** A stream must promise to be so much shorter than what it replaces, because it takes longer. */
const minGain = 0.002;

export interface GeneralSource {
  readonly bytes: Uint8Array;
  /** The base's bytes, as long as `bytes`; undefined: without base. */
  readonly base: Uint8Array | undefined;
  /** Bytes of an element: 1, 2, 4 or 8. */
  readonly width: number;
}

/** Returns undefined where the encoding would not be shorter than `limit` bytes. */
export function encodeGeneral(source: GeneralSource, limit: number): Uint8Array | undefined {
  const { bytes, base, width } = source;
  if (bytes.length === 0 || bytes.length > maxBytes) return undefined;
  const sample = sampleOf(source);
  let best: { readonly form: number; readonly length: number } | undefined;
  for (let form = 0; form < forms; form++) {
    if ((base === undefined && (form & 3) !== transforms.none) || (width === 1 && form >= planesFlag))
      continue;
    const { length } = compressed(arranged(sample, form), { form, width, level: sampleQuality });
    if (best === undefined || length < best.length) best = { form, length };
  }
  if (best === undefined) return undefined;
  // A long tensor repeats more than its sample does.
  const level = levelOf(width, bytes.length);
  const more = (sample.bytes.length === bytes.length ? 1 : 0.98) * (level === quality ? 1 : bestQualityShare);
  const expected = (best.length / sample.bytes.length) * bytes.length * more;
  if (expected > (1 - minGain) * limit) return undefined;
  const input = arranged(source, best.form);
  const settings = { form: best.form, width, level };
  let stream = compressed(input, settings);
  // The setting for repeats of elements takes a byte, which only longer streams win back.
  if (stream.length <= shortStreamBytes) {
    const plain = compressed(input, { ...settings, width: 1 });
    if (plain.length < stream.length) stream = plain;
  }
  if (stream.length + 1 >= limit) return undefined;
  const out = new Uint8Array(stream.length + 1);
  out[0] = best.form;
  out.set(stream, 1);
  return out;
}

function levelOf(width: number, byteLength: number): number {
  if (byteLength <= bestQualityBytes[width]!) return bestQuality;
  return width === 1 && byteLength <= goodQualityBytes ? goodQuality : quality;
}

/** True if `bytes` need a base. @throws DELTA_MALFORMED */
export function generalNeedsBase(bytes: Uint8Array): boolean {
  return (formOf(bytes) & 3) !== transforms.none;
}

/**
 * @param source `bytes` are the encoding; the base is there where it is needed
 * @throws DELTA_MALFORMED
 */
export function decodeGeneral({ bytes, base, width }: GeneralSource, target: Uint8Array): void {
  const form = formOf(bytes);
  let found: Uint8Array;
  try {
    found = brotliDecompressSync(bytes.subarray(1), { maxOutputLength: target.length });
  } catch {
    throw encodingMalformed("its general coder's stream is damaged or too long");
  }
  if (found.length !== target.length) throw encodingMalformed("its general coder's stream is too short");
  if (form >= planesFlag) joinPlanes(found, width, target);
  else target.set(found);
  undo(form & 3, base, width, target);
}

function formOf(bytes: Uint8Array): number {
  const form = bytes[0] ?? forms;
  if (form >= forms) throw encodingMalformed("its flags name no form of its bytes");
  return form;
}

interface CoderSettings {
  readonly form: number;
  readonly width: number;
  readonly level: number;
}

function compressed(bytes: Uint8Array, { form, width, level }: CoderSettings): Uint8Array {
  return brotliCompressSync(bytes, {
    params: {
      [constants.BROTLI_PARAM_QUALITY]: level,
      [constants.BROTLI_PARAM_LGWIN]: constants.BROTLI_MAX_WINDOW_BITS,
      [constants.BROTLI_PARAM_SIZE_HINT]: bytes.length,
      // Repeats of elements begin at multiples of four bytes.
      [constants.BROTLI_PARAM_NPOSTFIX]: form < planesFlag && width >= 4 ? 2 : 0,
    },
  });
}

function sampleOf({ bytes, base, width }: GeneralSource): GeneralSource {
  if (bytes.length <= runs * runBytes) return { bytes, base, width };
  const pick = (from: Uint8Array): Uint8Array => {
    const out = new Uint8Array(runs * runBytes);
    for (let run = 0; run < runs; run++) {
      const start = Math.floor(((from.length - runBytes) * run) / ((runs - 1) * width)) * width;
      out.set(from.subarray(start, start + runBytes), run * runBytes);
    }
    return out;
  };
  return { bytes: pick(bytes), base: base && pick(base), width };
}

/** The bytes that the general coder gets. */
function arranged({ bytes, base, width }: GeneralSource, form: number): Uint8Array {
  const transformed = base === undefined ? bytes : apply(form & 3, bytes, base, width);
  return form >= planesFlag ? splitPlanes(transformed, width) : transformed;
}

type Elements = Uint8Array | Uint16Array | Uint32Array;

/** A copy of bytes as elements; of 8 bytes as pairs of 4, which carry nothing over. */
function elementsOf(bytes: Uint8Array, width: number): Elements {
  // A Buffer's `slice` is a view of its bytes, and no copy.
  const { buffer } = new Uint8Array(bytes);
  return width === 1
    ? new Uint8Array(buffer)
    : width === 2
      ? new Uint16Array(buffer)
      : new Uint32Array(buffer);
}

function bytesOf({ buffer }: Elements): Uint8Array {
  return new Uint8Array(buffer);
}

function apply(transform: number, bytes: Uint8Array, base: Uint8Array, width: number): Uint8Array {
  if (transform === transforms.none) return bytes;
  const own = elementsOf(bytes, width);
  const from = elementsOf(base, width);
  for (let i = 0; i < own.length; i++)
    own[i] =
      transform === transforms.difference
        ? own[i]! - from[i]!
        : transform === transforms.xor
          ? own[i]! ^ from[i]!
          : swapped((own[i]! ^ from[i]!) >>> 0, from[i]!);
  return bytesOf(own);
}

/** 1 and the base's element change places; a second time they are back. */
function swapped(xor: number, base: number): number {
  if (base === 0) return xor;
  return xor === base ? 1 : xor === 1 ? base : xor;
}

function undo(transform: number, base: Uint8Array | undefined, width: number, target: Uint8Array): void {
  if (transform === transforms.none) return;
  if (base === undefined) throw encodingMalformed("it needs a base of the same kind, which is missing");
  const own = elementsOf(target, width);
  const from = elementsOf(base, width);
  for (let i = 0; i < own.length; i++)
    own[i] =
      transform === transforms.difference
        ? own[i]! + from[i]!
        : transform === transforms.xor
          ? own[i]! ^ from[i]!
          : swapped(own[i]!, from[i]!) ^ from[i]!;
  target.set(bytesOf(own));
}

function splitPlanes(bytes: Uint8Array, width: number): Uint8Array {
  const count = bytes.length / width;
  const out = new Uint8Array(bytes.length);
  for (let i = 0, at = 0; i < count; i++)
    for (let plane = 0; plane < width; plane++, at++) out[plane * count + i] = bytes[at]!;
  return out;
}

function joinPlanes(planes: Uint8Array, width: number, target: Uint8Array): void {
  const count = target.length / width;
  for (let i = 0, at = 0; i < count; i++)
    for (let plane = 0; plane < width; plane++, at++) target[at] = planes[plane * count + i]!;
}

/** Elements looked at to tell whether a tensor of floats repeats. */
const probedElements = 1024;
const probedRun = 32;
/** The largest share of different values by bytes of an element: short floats have few values. */
const maxDistinctShare = [0, 0, 0.3, 0, 0.9] as const;
const minPrunedShare = 1 / 64;

/**
 * True if floats look as if a general coder could gain: many equal numbers, or, against a base, numbers that
 * became zero. Integers may always.
 */
export function mayRepeat(source: GeneralSource): boolean {
  const { bytes, base, width } = source;
  const count = Math.floor(bytes.length / width);
  if (count === 0) return false;
  const runs = Math.ceil(Math.min(count, probedElements) / probedRun);
  const length = Math.min(count, probedRun);
  const starts = Array.from({ length: runs }, (_, run) =>
    runs === 1 ? 0 : Math.floor(((count - probedRun) * run) / (runs - 1)),
  );
  const probed = runs * length;
  return base === undefined
    ? distinctWords(source, starts, length) < (maxDistinctShare[width] ?? 0) * probed
    : prunedWords({ ...source, base }, starts, length) >= minPrunedShare * probed;
}

/** Counts the different words of the probed elements, of at most four bytes each. */
function distinctWords({ bytes, width }: GeneralSource, starts: readonly number[], length: number): number {
  const seen = new Set<number>();
  const wordBytes = Math.min(4, width);
  for (const start of starts)
    for (let i = start; i < start + length; i++) {
      let word = 0;
      for (let byte = 0; byte < wordBytes; byte++) word |= bytes[i * width + byte]! << (8 * byte);
      seen.add(word);
    }
  return seen.size;
}

/** Counts the probed elements that became zero. */
function prunedWords(
  { bytes, base, width }: GeneralSource & { readonly base: Uint8Array },
  starts: readonly number[],
  length: number,
): number {
  let pruned = 0;
  for (const start of starts)
    for (let i = start * width; i < (start + length) * width; i += width) {
      let own = 0;
      let from = 0;
      for (let at = i; at < i + width; at++) {
        own |= bytes[at]!;
        from |= base[at]!;
      }
      if (own === 0 && from !== 0) pruned++;
    }
  return pruned;
}

/** Elements whose bytes are counted, and the bits of entropy below which a byte counts as having few values. */
const countedElements = 4096;
const fewValuesBits = 7.5;

/** True if a byte below the highest two of the elements has few values, so that byte planes may gain. */
export function hasFewLowBytes(bytes: Uint8Array, width: number): boolean {
  const count = bytes.length / width;
  const step = Math.max(1, Math.floor(count / countedElements));
  for (let plane = 0; plane < width - 2; plane++) {
    const seen = new Uint32Array(256);
    let total = 0;
    for (let i = 0; i < count && total < countedElements; i += step, total++)
      seen[bytes[i * width + plane]!]!++;
    const bits = seen.reduce((sum, times) => (times === 0 ? sum : sum - times * roughLog2(times / total)), 0);
    if (bits < fewValuesBits * total) return true;
  }
  return false;
}
