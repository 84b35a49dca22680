/**
 * Element types of tensors: those of safetensors, with the codes that tensor ids use (docs/formats.md,
 * "Tensors"). Stored bits are never interpreted.
 */
import { StemmaError } from "../errors.js";

/** Name → code in a tensor id, bits of an element. */
const table = {
  BOOL: [1, 8],
  U8: [2, 8],
  I8: [3, 8],
  U16: [4, 16],
  I16: [5, 16],
  U32: [6, 32],
  I32: [7, 32],
  U64: [8, 64],
  I64: [9, 64],
  F16: [16, 16],
  BF16: [17, 16],
  F32: [18, 32],
  F64: [19, 64],
  F8_E4M3: [32, 8],
  F8_E5M2: [33, 8],
  F8_E8M0: [34, 8],
  F4: [35, 4],
  F6_E2M3: [36, 6],
  F6_E3M2: [37, 6],
  C64: [48, 64],
} as const satisfies Record<string, readonly [code: number, bits: number]>;

export type DType = keyof typeof table;
export const dtypes = Object.keys(table) as DType[];

const byCode = new Map<number, DType>(dtypes.map((name) => [table[name][0], name]));

export function isDType(name: string): name is DType {
  return Object.hasOwn(table, name);
}
/** The u8 written into tensor ids. */
export function dtypeCode(dtype: DType): number {
  return table[dtype][0];
}
export function dtypeBits(dtype: DType): number {
  return table[dtype][1];
}
/** @throws DTYPE_UNKNOWN */
export function dtypeOfCode(code: number): DType {
  const dtype = byCode.get(code);
  if (dtype === undefined)
    throw new StemmaError(
      "DTYPE_UNKNOWN",
      `No element type has the code ${code}; the data may come from a newer Stemma. Update this one and try again.`,
      { code },
    );
  return dtype;
}

/** Largest number of dimensions and of bytes a tensor may claim; checked before anything is allocated. */
export const maxRank = 32;
export const maxTensorBytes = 2 ** 40;

/**
 * Bytes of a tensor: ceil(bits × elements / 8), refused where that is not a whole number of bytes.
 * @throws SHAPE_INVALID for negative, fractional or overflowing dimensions, or a fractional byte count
 */
export function tensorByteLength(dtype: DType, shape: readonly number[]): number {
  if (shape.length > maxRank)
    throw new StemmaError(
      "SHAPE_INVALID",
      `A tensor of rank ${shape.length} is beyond the limit of ${maxRank} dimensions. Reshape it before saving.`,
      { shape },
    );
  let elements = 1;
  for (const dimension of shape) {
    if (!Number.isSafeInteger(dimension) || dimension < 0)
      throw new StemmaError(
        "SHAPE_INVALID",
        `The shape [${shape.join(", ")}] has the dimension ${dimension}, which is not a whole number ≥ 0. Check the file it came from.`,
        { shape },
      );
    elements *= dimension;
    if (elements > Number.MAX_SAFE_INTEGER / 64)
      throw new StemmaError(
        "SHAPE_INVALID",
        `The shape [${shape.join(", ")}] has more elements than Stemma can count. Check the file it came from.`,
        { shape },
      );
  }
  if (shape.includes(0)) return 0;
  const bits = elements * dtypeBits(dtype);
  if (bits % 8 !== 0)
    throw new StemmaError(
      "SHAPE_INVALID",
      `${elements} elements of ${dtype} are ${bits} bits, not a whole number of bytes. Pad the tensor to whole bytes before saving.`,
      { dtype, shape },
    );
  if (bits / 8 > maxTensorBytes)
    throw new StemmaError(
      "TENSOR_TOO_LARGE",
      `A tensor of ${bits / 8} bytes is beyond the limit of ${maxTensorBytes}. Split it before saving.`,
      { dtype, shape },
    );
  return bits / 8;
}
