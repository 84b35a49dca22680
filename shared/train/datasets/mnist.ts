/**
 * Handwritten digits as gzipped IDX files (MNIST's 10,000 test images). The base model learns from the first
 * 5,000; each vehicle has a slice of the remaining ones, recorded by its own camera.
 */
import { createHash } from "node:crypto";
import { join } from "node:path";
import { gunzipSync } from "node:zlib";
import { messageOf } from "../../error-text.js";
import { StemmaError } from "../../errors.js";
import type { DatasetReader } from "./dataset.js";
import { imageSet } from "./image-parts.js";
import { ParameterReader } from "./sample-set.js";

const imageFile = "t10k-images-idx3-ubyte.gz";
const labelFile = "t10k-labels-idx1-ubyte.gz";
const maxUnpackedBytes = 256 * 1024 * 1024;
const baseCount = 5000;

interface IdxArray {
  readonly dimensions: readonly number[];
  readonly values: Uint8Array;
}

/**
 * Parses a gzipped IDX file of unsigned bytes: 0, 0, type 8, rank, dimensions (u32, big-endian), values.
 * @param where names the file in error messages
 * @throws DATASET_MALFORMED
 */
export function parseIdx(packed: Uint8Array, rank: number, where: string): IdxArray {
  const refuse = (problem: string, cause?: unknown): never => {
    throw new StemmaError(
      "DATASET_MALFORMED",
      `${where} is not a gzipped IDX file of rank ${rank}: ${problem}. Replace it by the original file.`,
      { file: where, cause },
    );
  };
  let bytes: Buffer;
  try {
    bytes = gunzipSync(packed, { maxOutputLength: maxUnpackedBytes });
  } catch (cause) {
    return refuse(messageOf(cause), cause);
  }
  const headerBytes = 4 + 4 * rank;
  if (bytes.length < headerBytes) return refuse(`it ends after ${bytes.length} bytes`);
  if (bytes.readUInt32BE(0) !== 0x0800 + rank)
    return refuse(`it begins with 0x${bytes.readUInt32BE(0).toString(16).padStart(8, "0")}`);
  const dimensions = Array.from({ length: rank }, (_, index) => bytes.readUInt32BE(4 + 4 * index));
  const count = dimensions.reduce((product, dimension) => product * dimension, 1);
  if (count !== bytes.length - headerBytes)
    return refuse(
      `its dimensions ${dimensions.join(" × ")} need ${count} bytes, it has ${bytes.length - headerBytes}`,
    );
  return { dimensions, values: new Uint8Array(bytes.subarray(headerBytes)) };
}

/**
 * Parameters: `vehicle` (0, the default, for the first 5,000 images; n for slice (n − 1) mod `slices` of the
 * others), `limit` (maximum number of images), `camera` (default: the vehicle's number; 0 for none).
 */
export const mnist: DatasetReader = {
  name: "mnist",
  needsLocation: true,
  async read(reference, files) {
    const parameters = new ParameterReader("mnist", reference.parameters);
    const vehicle = parameters.whole("vehicle", 0, 0, 2 ** 31);
    const slices = parameters.whole("slices", 8, 1, 500);
    const limit = parameters.whole("limit", baseCount, 8, 1_000_000);
    const camera = parameters.whole("camera", vehicle, 0, 2 ** 31);
    parameters.end();
    const folder = reference.location ?? ".";
    const packed = [
      await files.read(join(folder, imageFile)),
      await files.read(join(folder, labelFile)),
    ] as const;
    const images = parseIdx(packed[0], 3, join(folder, imageFile));
    const labels = parseIdx(packed[1], 1, join(folder, labelFile));
    const [total = 0, height = 0, width = 0] = images.dimensions;
    if (
      labels.values.length !== total ||
      total < baseCount ||
      height * width === 0 ||
      labels.values.some((label) => label > 9)
    )
      throw new StemmaError(
        "DATASET_MALFORMED",
        `${folder} has ${total} images of ${width} × ${height} pixels and ${labels.values.length} labels, which are not MNIST's test images. Replace both files by the original ones.`,
        { folder },
      );
    const perSlice = Math.floor((total - baseCount) / slices);
    const start = vehicle === 0 ? 0 : baseCount + ((vehicle - 1) % slices) * perSlice;
    const count = Math.min(limit, vehicle === 0 ? baseCount : perSlice);
    const length = width * height;
    const pixels = Float32Array.from(
      images.values.subarray(start * length, (start + count) * length),
      (value) => value / 255,
    );
    const sources = [imageFile, labelFile].map((file, index) => ({
      file,
      bytes: packed[index as 0 | 1].length,
      sha256: createHash("sha256")
        .update(packed[index as 0 | 1])
        .digest("hex"),
    }));
    return imageSet(
      { width, height, classes: 10, pixels, labels: labels.values.subarray(start, start + count) },
      camera,
      { reader: "mnist", location: folder, format: "IDX, gzipped", sources, vehicle, from: start, count },
    );
  },
};
