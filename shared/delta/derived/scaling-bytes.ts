/**
 * The scales and zero points of a quantisation in an encoding: what does not follow from numbers or a reference.
 *
 * Bytes: with the rule `stored` code u8 and sized bytes of the scales ‖ with that rule of zero points, of these as I32.
 */
import type { Tensor, TensorHeader } from "../../tensor/tensor.js";
import type { ByteReader, ByteWriter } from "../bytes.js";
import { encodingMalformed } from "../encoding-malformed.js";
import type { Derivation } from "./derivation.js";
import { innerCode, type DecodeInner, type EncodeInner } from "./inner-encodings.js";
import { referenceScales } from "./find-quantisation.js";
import { tensorOf, valuesOf } from "./float-numbers.js";
import {
  extremesOf,
  groupsOf,
  isScale,
  scalesByRule,
  zerosByRule,
  type Quantisation,
  type Scaling,
} from "./quantisation.js";

/** Largest zero point, with either sign. */
const maxZero = 65_536;

export function writeScaling(
  out: ByteWriter,
  { scaleRule, scaleType, zeroRule }: Quantisation,
  { scales, zeros }: Scaling,
  encodeInner: EncodeInner,
): void {
  const write = (tensor: Tensor): void => {
    const { code, bytes } = encodeInner(tensor, undefined);
    out.u8(code);
    out.sized(bytes);
  };
  if (scaleRule === "stored")
    write(tensorOf(scaleType, [scales.length], new Uint32Array(scales.slice().buffer)));
  if (zeroRule === "stored")
    write({ dtype: "I32", shape: [zeros.length], bytes: new Uint8Array(Int32Array.from(zeros).buffer) });
}

/**
 * @param source what is quantised
 * @throws DELTA_MALFORMED for a scale that is zero or not a number
 */
export function readScaling(
  reader: ByteReader,
  { source, header, quantisation, reference }: ScaledTensor,
  decodeInner: DecodeInner,
): Scaling {
  const { scaleRule, scaleType, zeroRule, toCodes } = quantisation;
  const runs = groupsOf(toCodes ? source.shape : header.shape, quantisation)!;
  const read = (part: TensorHeader): Uint8Array =>
    decodeInner(part, { code: innerCode(reader), bytes: reader.sized() }, undefined);
  const byRule = (): Pick<Scaling, "scales" | "zeros"> => {
    const values = toCodes ? (valuesOf(source) as Float32Array) : new Float32Array();
    const extremes = extremesOf(values, toCodes ? runs : { ...runs, length: 1 });
    const scales = own ?? scalesByRule(extremes, quantisation, header.dtype);
    return { scales, zeros: zerosByRule(extremes, scales, quantisation) };
  };
  const shape = [runs.count];
  const own =
    scaleRule === "stored"
      ? (valuesOf({ dtype: scaleType, shape, bytes: read({ dtype: scaleType, shape }) }) as Float32Array)
      : scaleRule === "reference"
        ? reference && referenceScales(reference, runs.count)
        : undefined;
  if (own === undefined ? scaleRule === "reference" : !own.every(isScale))
    throw encodingMalformed("a scale is missing, zero or not a number");
  const { scales, zeros } = byRule();
  if (zeroRule !== "stored") return { scales, zeros };
  const stored = new Int32Array(new Uint8Array(read({ dtype: "I32", shape })).buffer);
  if (stored.some((zero) => Math.abs(zero) > maxZero))
    throw encodingMalformed("a zero point is out of range");
  return { scales, zeros: Float64Array.from(stored) };
}

export interface ScaledTensor {
  readonly source: Tensor;
  readonly header: TensorHeader;
  readonly quantisation: NonNullable<Derivation["quantisation"]>;
  readonly reference: Tensor | undefined;
}
