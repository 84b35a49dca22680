/**
 * Handwritten digits as gzipped IDX files (MNIST's 10,000 test images). The base model learns from the first
 * 5,000; each vehicle has a slice of the remaining ones, recorded by its own camera.
 */
import { createHash } from "node:crypto";
import { join } from "node:path";
import { StemmaError } from "../../errors.js";
import type { DatasetReader } from "./dataset.js";
import { parseIdx, type IdxArray } from "./idx-file.js";
import { imageSet } from "./image-parts.js";
import { ParameterReader } from "./sample-set.js";

const imageFile = "t10k-images-idx3-ubyte.gz";
const labelFile = "t10k-labels-idx1-ubyte.gz";
const baseCount = 5000;

/** Unsigned bytes of this many dimensions. @throws DATASET_MALFORMED */
function bytesOf(packed: Uint8Array, rank: number, where: string): IdxArray {
  const array = parseIdx(packed, where);
  if (array.type === "uint8" && array.dimensions.length === rank) return array;
  throw new StemmaError(
    "DATASET_MALFORMED",
    `${where} has ${array.dimensions.length} dimensions of ${array.type}, and MNIST's file has ${rank} of uint8. ` +
      "Replace it by the original file.",
    { file: where },
  );
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
    const images = bytesOf(packed[0], 3, join(folder, imageFile));
    const labels = bytesOf(packed[1], 1, join(folder, labelFile));
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
      {
        width,
        height,
        classes: 10,
        pixels,
        labels: Uint8Array.from(labels.values.subarray(start, start + count)),
      },
      camera,
      { reader: "mnist", location: folder, format: "IDX, gzipped", sources, vehicle, from: start, count },
    );
  },
};
