/**
 * Converts GGUF's blocks of 32 numbers in bytes, each with its scale before its codes, to floats and back. It
 * follows the formulas of ggml's reference, with every operation rounded to float32. Every machine computes
 * the same bytes. Pure.
 */
import type { DType } from "../../tensor/dtype.js";
import type { Tensor, TensorHeader } from "../../tensor/tensor.js";
import { canScale, cast, tensorOf, valuesOf, wordsOf } from "./float-numbers.js";
import { pick } from "./positions.js";

/** The forms of blocks by their numbers in an encoding. */
export const blockForms = ["Q4_0", "Q4_1", "Q8_0"] as const;
export type BlockForm = (typeof blockForms)[number];

const blockNumbers = 32;
/** Bytes of a block: one or two float16 numbers, then the codes. */
const blockBytes: Readonly<Record<BlockForm, number>> = { Q4_0: 18, Q4_1: 20, Q8_0: 34 };
/** Blocks that are compared, and the share of their bytes that must come out. */
const comparedBlocks = 16;
const minEqualShare = 0.9;

function elementsOf({ shape }: TensorHeader): number {
  return shape.reduce((product, size) => product * size, 1);
}

/** True if one is the bytes of blocks and the other floats, as many as these blocks have. */
export function fitBlocks(child: TensorHeader, source: TensorHeader, form: BlockForm): boolean {
  const [floats, blocks] = child.dtype === "U8" ? [source, child] : [child, source];
  return (
    blocks.dtype === "U8" &&
    canScale(floats.dtype) &&
    elementsOf(floats) * blockBytes[form] === elementsOf(blocks) * blockNumbers
  );
}

/** The form under which most bytes of a few blocks, or numbers in them, are the child's; undefined: none. */
export function findBlocks(child: Tensor, source: Tensor): BlockForm | undefined {
  return blockForms.find((form) => {
    if (!fitBlocks(child, source, form)) return false;
    const isCoded = child.dtype === "U8";
    const elements = (own: boolean): number => (own ? blockBytes[form] : blockNumbers);
    const count = elementsOf(child) / elements(isCoded);
    const compared = Math.min(count, comparedBlocks);
    const sampled = (tensor: Tensor, each: number): Tensor =>
      pick(
        tensor,
        Int32Array.from(
          { length: compared * each },
          (_, i) => Math.floor((Math.floor(i / each) * count) / compared) * each + (i % each),
        ),
      );
    const own = sampled(child, elements(isCoded));
    const found = inBlocks(sampled(source, elements(!isCoded)), form, own).bytes;
    let equal = 0;
    for (let i = 0; i < found.length; i++) if (found[i] === own.bytes[i]) equal++;
    return compared > 0 && equal >= minEqualShare * found.length;
  });
}

/** The blocks of floats, or the floats of blocks: whichever the header has. `fitBlocks` holds. */
export function inBlocks(source: Tensor, form: BlockForm, { dtype, shape }: TensorHeader): Tensor {
  return dtype === "U8"
    ? { dtype, shape, bytes: blocksOf(valuesOf(source) as Float32Array, form) }
    : floatsOf(source.bytes, form, { dtype, shape });
}

const round = Math.fround;
const halfDType: DType = "F16";

/** The bytes of a float16 number. */
function halfBytes(value: number): Uint8Array {
  return tensorOf(halfDType, [1], wordsOf(Float32Array.of(value))).bytes;
}

function blocksOf(values: Float32Array, form: BlockForm): Uint8Array {
  const each = blockBytes[form];
  const out = new Uint8Array((values.length / blockNumbers) * each);
  const write = { Q4_0: writeQ4Zero, Q4_1: writeQ4One, Q8_0: writeQ8 }[form];
  for (let start = 0, at = 0; start < values.length; start += blockNumbers, at += each)
    write(values.subarray(start, start + blockNumbers), out.subarray(at, at + each));
  return out;
}

/** 1 / scale in float32; 0 of 0. */
function inverseOf(scale: number): number {
  return scale === 0 ? 0 : round(1 / scale);
}

/** Scale by the number of largest magnitude, which gets code 0; two codes a byte, of the block's halves. */
function writeQ4Zero(values: Float32Array, out: Uint8Array): void {
  let extreme = 0;
  for (const value of values) if (Math.abs(value) > Math.abs(extreme)) extreme = value;
  const scale = round(extreme / -8);
  const inverse = inverseOf(scale);
  out.set(halfBytes(scale));
  writeNibbles(values, out.subarray(2), (value) => round(round(value * inverse) + 8.5));
}

/** Scale by the distance of the smallest and the largest number; the smallest is sent too and gets code 0. */
function writeQ4One(values: Float32Array, out: Uint8Array): void {
  let [smallest, largest] = [Infinity, -Infinity];
  for (const value of values) {
    if (value < smallest) smallest = value;
    if (value > largest) largest = value;
  }
  const scale = round(round(largest - smallest) / 15);
  const inverse = inverseOf(scale);
  out.set(halfBytes(scale));
  out.set(halfBytes(smallest), 2);
  writeNibbles(values, out.subarray(4), (value) => round(round(round(value - smallest) * inverse) + 0.5));
}

/** Towards zero, at most 15; the first half of the block in the low bits. */
function writeNibbles(values: Float32Array, out: Uint8Array, levelOf: (value: number) => number): void {
  const code = (value: number): number => Math.min(15, levelOf(value) | 0) & 15;
  for (let i = 0; i < blockNumbers / 2; i++)
    out[i] = code(values[i]!) | (code(values[i + blockNumbers / 2]!) << 4);
}

/** Scale by the largest magnitude; to nearest, ties away from zero. */
function writeQ8(values: Float32Array, out: Uint8Array): void {
  let largest = 0;
  for (const value of values) largest = Math.max(largest, Math.abs(value));
  const scale = round(largest / 127);
  const inverse = inverseOf(scale);
  out.set(halfBytes(scale));
  values.forEach((value, i) => {
    const ratio = round(value * inverse);
    out[2 + i] = ratio < 0 ? -Math.floor(0.5 - ratio) : Math.floor(ratio + 0.5);
  });
}

function floatsOf(bytes: Uint8Array, form: BlockForm, { dtype, shape }: TensorHeader): Tensor {
  const each = blockBytes[form];
  const headBytes = form === "Q4_1" ? 4 : 2;
  const values = new Float32Array((bytes.length / each) * blockNumbers);
  for (let at = 0, start = 0; at < bytes.length; at += each, start += blockNumbers) {
    const head = { dtype: halfDType, shape: [headBytes / 2], bytes: bytes.slice(at, at + headBytes) };
    const [scale, smallest] = valuesOf(head) as Float32Array;
    for (let i = 0; i < blockNumbers; i++) {
      const own = bytes[at + headBytes + (form === "Q8_0" ? i : i % (blockNumbers / 2))]!;
      const nibble = i < blockNumbers / 2 ? own & 15 : own >> 4;
      const code = form === "Q8_0" ? (own << 24) >> 24 : form === "Q4_0" ? nibble - 8 : nibble;
      values[start + i] = round(code * scale!) + (form === "Q4_1" ? smallest! : 0);
    }
  }
  const words = new Uint8Array(wordsOf(values).buffer);
  return cast({ dtype: "F32", shape, bytes: words }, dtype);
}
