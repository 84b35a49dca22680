/**
 * Reads IDX files, the format of MNIST and data sets like it. They have two zeros, the type of the numbers, the number
 * of dimensions, each dimension (u32), then the numbers row by row, all big-endian. They may be gzipped. Pure.
 */
import { gunzipSync } from "node:zlib";
import { messageOf } from "../../error-text.js";
import { StemmaError } from "../../errors.js";
import { maxSampleValues } from "./dataset.js";

const maxUnpackedBytes = 256 * 1024 * 1024;
const maxDimensions = 8;

interface NumberType {
  readonly name: string;
  readonly bytes: number;
  readonly read: (bytes: Buffer, at: number) => number;
}

const numberTypes = new Map<number, NumberType>([
  [0x08, { name: "uint8", bytes: 1, read: (bytes, at) => bytes.readUInt8(at) }],
  [0x09, { name: "int8", bytes: 1, read: (bytes, at) => bytes.readInt8(at) }],
  [0x0b, { name: "int16", bytes: 2, read: (bytes, at) => bytes.readInt16BE(at) }],
  [0x0c, { name: "int32", bytes: 4, read: (bytes, at) => bytes.readInt32BE(at) }],
  [0x0d, { name: "float32", bytes: 4, read: (bytes, at) => bytes.readFloatBE(at) }],
  [0x0e, { name: "float64", bytes: 8, read: (bytes, at) => bytes.readDoubleBE(at) }],
]);

export interface IdxArray {
  /** uint8, int8, int16, int32, float32 or float64. */
  readonly type: string;
  /** The dimensions, at least one. */
  readonly dimensions: readonly number[];
  /** The values, rounded to float32. */
  readonly values: Float32Array;
}

/**
 * @param where names the file in error messages
 * @throws DATASET_MALFORMED
 */
export function parseIdx(packed: Uint8Array, where: string): IdxArray {
  const refuse = (problem: string, cause?: unknown): never => {
    throw new StemmaError(
      "DATASET_MALFORMED",
      `${where} is not an IDX file: ${problem}. Replace it by the original file.`,
      { file: where, cause },
    );
  };
  const bytes = unpack(packed, refuse);
  if (bytes.length < 4) return refuse(`it ends after ${bytes.length} bytes`);
  const type = numberTypes.get(bytes.readUInt8(2));
  const rank = bytes.readUInt8(3);
  if (bytes.readUInt16BE(0) !== 0 || type === undefined || rank < 1 || rank > maxDimensions)
    return refuse(`it begins with 0x${bytes.readUInt32BE(0).toString(16).padStart(8, "0")}`);
  const headerBytes = 4 + 4 * rank;
  if (bytes.length < headerBytes) return refuse(`it ends after ${bytes.length} bytes`);
  const dimensions = Array.from({ length: rank }, (_, index) => bytes.readUInt32BE(4 + 4 * index));
  const count = dimensions.reduce((product, dimension) => product * dimension, 1);
  if (count * type.bytes !== bytes.length - headerBytes)
    return refuse(
      `its dimensions ${dimensions.join(" × ")} need ${count * type.bytes} bytes, it has ` +
        `${bytes.length - headerBytes}`,
    );
  if (count > maxSampleValues)
    throw new StemmaError(
      "DATASET_MALFORMED",
      `${where} has ${count} numbers, more than the ${maxSampleValues} that a training can hold. Split the file.`,
      { file: where },
    );
  const values = new Float32Array(count);
  for (let index = 0; index < count; index++)
    values[index] = type.read(bytes, headerBytes + index * type.bytes);
  return { type: type.name, dimensions, values };
}

function unpack(packed: Uint8Array, refuse: (problem: string, cause?: unknown) => never): Buffer {
  const isGzipped = packed[0] === 0x1f && packed[1] === 0x8b;
  if (!isGzipped) {
    if (packed.length > maxUnpackedBytes)
      refuse(`it has ${packed.length} bytes, more than ${maxUnpackedBytes}`);
    return Buffer.from(packed.buffer, packed.byteOffset, packed.byteLength);
  }
  try {
    return gunzipSync(packed, { maxOutputLength: maxUnpackedBytes });
  } catch (cause) {
    return refuse(messageOf(cause), cause);
  }
}
