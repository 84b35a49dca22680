/**
 * Estimates the length of a matrix in fixed planes. Every channel's exponent comes from the complete matrix,
 * bits and bytes from a sample. Pure.
 */
import type { Tensor } from "../tensor/tensor.js";
import { channelsOf, fixedPlaneCount, isFixedKind } from "./fixed-planes.js";
import { roughLog2 } from "./numbers.js";

/** Elements of a sample, in runs. */
const sampleElements = 16_384;
const runElements = 64;
const mantissaBits = 23;

function exponentOf(word: number): number {
  return Math.max(1, (word >>> 23) & 255);
}

/**
 * @returns undefined where it could not be stored in fixed planes (a NaN, an infinity, or in the sample a
 * denormal too large for its channel), or would not be shorter than raw
 */
export function estimateFixedPlanesBytes(tensor: Tensor): number | undefined {
  if (!isFixedKind(tensor)) return undefined;
  const { shape, bytes } = tensor;
  const count = bytes.length / 4;
  const channels = channelsOf(shape);
  const words = viewAsWords(bytes);
  const exponents = new Uint8Array(channels).fill(1);
  for (let i = 0, channel = 0; i < count; i++) {
    const exponent = exponentOf(words[i]!);
    if (exponent === 255) return undefined;
    if (exponent > exponents[channel]!) exponents[channel] = exponent;
    if (++channel === channels) channel = 0;
  }
  const histograms = Array.from(
    { length: fixedPlaneCount },
    () => [new Uint32Array(256), new Uint32Array(256)] as const,
  );
  let sampled = 0;
  let bits = 0;
  for (const from of runsOf(count)) {
    for (let i = from; i < Math.min(count, from + runElements); i++) {
      const word = words[i]!;
      const mantissa = (word & 0x7fffff) | ((word & 0x7f800000) === 0 ? 0 : 0x800000);
      const below = exponents[i % channels]! - exponentOf(word) + 1;
      const top = below > mantissaBits ? 0 : mantissa >>> below;
      const high = top >>> 16;
      const middle = (top >>> 8) & 255;
      if (top !== 0 && mantissa < 0x800000) return undefined;
      histograms[0]![0][((word >>> 31) << 7) | high]!++;
      histograms[1]![high === 0 ? 0 : 1][middle]!++;
      histograms[2]![top >>> 8 === 0 ? 0 : 1][top & 255]!++;
      bits += top !== 0 ? below : (word & 0x7fffffff) === 0 ? 1 : 32;
      sampled++;
    }
  }
  const planes = histograms.reduce(
    (sum, rows) =>
      sum +
      Math.min(
        sampled,
        rows.reduce((rowSum, row) => rowSum + entropyBytes(row), 0),
      ),
    0,
  );
  const size =
    Math.ceil(((planes + bits / 8) / sampled) * count) +
    Math.min(channels, Math.ceil(entropyBytes(countsOf(exponents)) + 32));
  return size < bytes.length ? size : undefined;
}

/** Bytes as 32-bit words, without a copy where they are aligned. */
function viewAsWords(bytes: Uint8Array): Uint32Array {
  return bytes.byteOffset % 4 === 0
    ? new Uint32Array(bytes.buffer, bytes.byteOffset, bytes.length / 4)
    : new Uint32Array(new Uint8Array(bytes).buffer);
}

/** Returns where the sample's runs begin; in a small matrix they cover everything. */
function runsOf(count: number): readonly number[] {
  if (count <= sampleElements)
    return Array.from({ length: Math.ceil(count / runElements) }, (_, i) => i * runElements);
  const runs = sampleElements / runElements;
  return Array.from({ length: runs }, (_, i) => Math.floor(((count - runElements) * i) / (runs - 1)));
}

function countsOf(bytes: Uint8Array): Uint32Array {
  const counts = new Uint32Array(256);
  for (const byte of bytes) counts[byte]!++;
  return counts;
}

/** Bytes that an ideal coder takes for symbols with these counts. */
function entropyBytes(counts: Uint32Array): number {
  const total = counts.reduce((sum, count) => sum + count, 0);
  return (
    counts.reduce(
      (sum, count) => (count === 0 ? sum : sum + count * (roughLog2(total) - roughLog2(count))),
      0,
    ) / 8
  );
}
