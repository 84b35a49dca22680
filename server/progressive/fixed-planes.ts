/**
 * A layout of float32 weights whose first byte says something: every output channel's numbers share the
 * exponent of the largest, and each is written as sign and magnitude in that unit, highest byte first. The
 * first byte of IEEE's own order is the sign and 7 of 8 exponent bits, intervals a factor of 4 wide; here it
 * places a weight within 1/128 of the power of two above its channel's largest. Lossless: after three such bytes
 * come the bits of each number below them, of which there are as many as the number is binary orders below the
 * largest, so that the whole is shorter than raw without any entropy coder. Pure bytes and integers.
 */
import { StemmaError } from "../../shared/errors.js";
import { sizeOf } from "./bounds.js";
import type { WeightBounds } from "./weight-bounds.js";

/** Byte planes ahead of the rest. */
export const fixedPlaneCount = 3;
const magnitudeBits = 23;

export interface FixedPlanes {
  readonly shape: readonly number[];
  /** Of each group the largest biased exponent (1 … 254); element i belongs to group i mod groups. */
  readonly exponents: Uint8Array;
  /** Byte planes, highest first: sign and the 23 highest bits of the magnitude, one byte of each element a plane. */
  readonly planes: readonly [Uint8Array, Uint8Array, Uint8Array];
  /** Bits below the planes, element by element, first bit lowest: those of the mantissa that are left; where the planes are all nought, one bit whether the number is nought, and if it is not its 31 bits without sign. */
  readonly rest: Uint8Array;
}

/** Channels of a kernel: its last axis, or the one before where that is 1 (depthwise kernels). */
export function groupsOf(shape: readonly number[]): number {
  if (shape.length < 2) return 1;
  return shape.at(-1)! > 1 ? shape.at(-1)! : shape.at(-2)!;
}

class BitWriter {
  #bytes = new Uint8Array(1024);
  #at = 0;
  put(value: number, bits: number): void {
    for (let bit = 0; bit < bits; bit++, this.#at++) {
      if (this.#at >> 3 >= this.#bytes.length) { const more = new Uint8Array(2 * this.#bytes.length); more.set(this.#bytes); this.#bytes = more; }
      if (((value >>> bit) & 1) === 1) this.#bytes[this.#at >> 3]! |= 1 << (this.#at & 7);
    }
  }
  finish(): Uint8Array { return this.#bytes.slice(0, Math.ceil(this.#at / 8)); }
}

class BitReader {
  #at = 0;
  constructor(private readonly bytes: Uint8Array) {}
  take(bits: number): number {
    if (this.#at + bits > 8 * this.bytes.length) throw malformed("its last bits are missing");
    let value = 0;
    for (let bit = 0; bit < bits; bit++, this.#at++) value |= ((this.bytes[this.#at >> 3]! >> (this.#at & 7)) & 1) << bit;
    return value >>> 0;
  }
  /** No more than padding may be left. */
  end(): void { if (8 * this.bytes.length - this.#at >= 8 || this.take(8 * this.bytes.length - this.#at) !== 0) throw malformed("bits follow its last element"); }
}

function malformed(reason: string): StemmaError<"DELTA_MALFORMED"> {
  return new StemmaError("DELTA_MALFORMED", `A tensor in fixed planes is damaged: ${reason}. Fetch it again, or recover it from a backup.`);
}

const exponentOf = (word: number): number => Math.max(1, (word >>> 23) & 0xff);
/** The 24 bits of the mantissa, the hidden one included. */
const mantissaOf = (word: number): number => ((word >>> 23) & 0xff) === 0 ? word & 0x7fffff : (word & 0x7fffff) | 0x800000;

/** @returns undefined where a number has no place in it: NaN, infinity, denormals beside numbers not much larger */
export function encodeFixedPlanes(shape: readonly number[], bytes: Uint8Array): FixedPlanes | undefined {
  const count = sizeOf(shape), groups = groupsOf(shape), view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength), exponents = new Uint8Array(groups).fill(1);
  for (let i = 0; i < count; i++) {
    const exponent = exponentOf(view.getUint32(4 * i, true));
    if (exponent === 255) return undefined;
    if (exponent > exponents[i % groups]!) exponents[i % groups] = exponent;
  }
  const planes = [new Uint8Array(count), new Uint8Array(count), new Uint8Array(count)] as const, rest = new BitWriter();
  for (let i = 0; i < count; i++) {
    const word = view.getUint32(4 * i, true), mantissa = mantissaOf(word), below = exponents[i % groups]! - exponentOf(word) + 1;
    const top = below > magnitudeBits ? 0 : mantissa >>> below;
    if (top !== 0 && mantissa < 0x800000) return undefined;
    planes[0][i] = (word >>> 31 << 7) | (top >>> 16); planes[1][i] = (top >>> 8) & 0xff; planes[2][i] = top & 0xff;
    if (top !== 0) rest.put(mantissa & (2 ** below - 1), below);
    else if ((word & 0x7fffffff) === 0) rest.put(0, 1);
    else { rest.put(1, 1); rest.put(word & 0x7fffffff, 31); }
  }
  return { shape, exponents, planes, rest: rest.finish() };
}

/** The tensor's bytes. @throws DELTA_MALFORMED */
export function decodeFixedPlanes({ shape, exponents, planes, rest }: FixedPlanes): Uint8Array {
  const count = sizeOf(shape);
  checkSizes(shape, exponents, planes);
  const bytes = new Uint8Array(4 * count), view = new DataView(bytes.buffer), bits = new BitReader(rest);
  for (let i = 0; i < count; i++) {
    const sign = (planes[0][i]! >>> 7) * 0x80000000, top = topOf(planes, i, fixedPlaneCount);
    let magnitude: number;
    if (top === 0) magnitude = bits.take(1) === 0 ? 0 : bits.take(31);
    else {
      // The mantissa's first bit stands where the number's exponent puts it.
      const below = Math.clz32(top) - 8, exponent = exponents[i % exponents.length]! - below + 1;
      if (exponent < 1 || below < 1) throw malformed("an element is larger than its group");
      magnitude = exponent * 0x800000 + (((top << below) | bits.take(below)) & 0x7fffff);
    }
    view.setUint32(4 * i, sign + magnitude, true);
  }
  bits.end();
  return bytes;
}

/** @throws DELTA_MALFORMED */
function checkSizes(shape: readonly number[], exponents: Uint8Array, planes: FixedPlanes["planes"]): void {
  const count = sizeOf(shape);
  if (exponents.length !== groupsOf(shape) || exponents.some((exponent) => exponent < 1 || exponent > 254)) throw malformed("its exponents are none");
  if (planes.some(({ length }) => length !== count)) throw malformed("a plane is not as long as the tensor");
}

/** Magnitude by the first `known` planes. */
function topOf(planes: FixedPlanes["planes"], i: number, known: number): number {
  let top = planes[0][i]! & 0x7f;
  for (let plane = 1; plane < known; plane++) top = (top << 8) | planes[plane as 1 | 2][i]!;
  return top;
}

/** What the exponents and the first `known` planes (1 … 3) say of the weights. @throws DELTA_MALFORMED */
export function fixedBounds({ shape, exponents, planes }: Pick<FixedPlanes, "shape" | "exponents" | "planes">, known: number): WeightBounds {
  checkSizes(shape, exponents, planes);
  const count = sizeOf(shape), mid = new Float64Array(count), radius = new Float64Array(count);
  // A magnitude counts steps of 2^(exponent − 149), of which the unknown planes hold the lowest bits; a power of two is exact.
  const steps = Float64Array.from(exponents, (exponent) => 2 ** (exponent - 149 + 8 * (fixedPlaneCount - known)));
  for (let i = 0; i < count; i++) {
    const step = steps[i % steps.length]!, middle = (topOf(planes, i, known) + 0.5) * step;
    mid[i] = planes[0][i]! >= 128 ? -middle : middle;
    radius[i] = step / 2;
  }
  return { shape, mid, radius, finite: true };
}

/** Bytes of the layout's parts: exponents and first plane, second, third, the rest. */
export function fixedSizes({ exponents, planes, rest }: FixedPlanes): readonly [number, number, number, number] {
  return [exponents.length + planes[0].length, planes[1].length, planes[2].length, rest.length];
}
