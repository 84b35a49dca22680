/**
 * Quantised weights of TensorFlow.js, as its own decoder reads them (tfjs-core, io/io_utils.ts, "decodeWeight"): bit
 * for bit what a browser computes with. Pure.
 */
import type { DType } from "../tensor/dtype.js";
import { isJsonObject, type Json } from "../tensor/strict-json.js";

export interface Quantisation {
  readonly dtype: "uint8" | "uint16" | "float16";
  /** Bytes of a stored element. */
  readonly elementBytes: 1 | 2;
  readonly scale: number;
  readonly min: number;
}

/** @param fail continues "the weight …" */
export function quantisationOf(
  value: Json | undefined,
  dtype: DType,
  fail: (reason: string) => never,
): Quantisation | undefined {
  if (value === undefined) return undefined;
  if (!isJsonObject(value)) return fail("has a quantization that is not an object");
  const stored = value.get("dtype");
  if (stored !== "uint8" && stored !== "uint16" && stored !== "float16")
    return fail(`is quantised as ${JSON.stringify(stored ?? null)}, which is not known`);
  if (dtype !== "F32" && (dtype !== "I32" || stored === "float16"))
    return fail(`is quantised as ${stored}, which its type does not allow`);
  if (stored === "float16") return { dtype: stored, elementBytes: 2, scale: 1, min: 0 };
  const scale = value.get("scale");
  const min = value.get("min");
  if (typeof scale !== "number" || typeof min !== "number") return fail("is quantised without scale and min");
  return { dtype: stored, elementBytes: stored === "uint8" ? 1 : 2, scale, min };
}

/** Stored elements as little-endian F32 or I32. */
export function dequantise(
  stored: Uint8Array,
  dtype: DType,
  { dtype: form, elementBytes, scale, min }: Quantisation,
): Uint8Array {
  const count = stored.length / elementBytes;
  const from = new DataView(stored.buffer, stored.byteOffset, stored.length);
  const to = new DataView(new ArrayBuffer(count * 4));
  for (let i = 0; i < count; i++) {
    const value = elementBytes === 1 ? from.getUint8(i) : from.getUint16(i * 2, true);
    if (form === "float16") to.setUint32(i * 4, float32BitsOfHalf(value), true);
    else if (dtype === "F32") to.setFloat32(i * 4, value * scale + min, true);
    else to.setInt32(i * 4, Math.round(value * scale + min), true);
  }
  return new Uint8Array(to.buffer);
}

/** IEEE 754 binary16 → binary32, exactly; the bits of a NaN stay. */
function float32BitsOfHalf(half: number): number {
  const sign = (half & 0x8000) << 16;
  const exponent = (half >> 10) & 0x1f;
  const fraction = half & 0x3ff;
  if (exponent === 0x1f) return (sign | 0x7f800000 | (fraction << 13)) >>> 0;
  if (exponent !== 0) return (sign | ((exponent + 112) << 23) | (fraction << 13)) >>> 0;
  if (fraction === 0) return sign >>> 0;
  // A subnormal half is a normal float: its first set bit becomes the implicit one.
  const shift = Math.clz32(fraction) - 21;
  return (sign | ((113 - shift) << 23) | (((fraction << shift) & 0x3ff) << 13)) >>> 0;
}
