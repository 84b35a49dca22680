/** Pictures (PNG, JPEG) in a folder for each class, all scaled to one size. */
import { join } from "node:path";
import { StemmaError } from "../../errors.js";
import { FilesHash, listClassFolders, readBounded, type ClassFile } from "./class-folders.js";
import { maxSampleValues, type DatasetFiles, type DatasetReader, type SampleSet } from "./dataset.js";
import { decodeJpeg, isJpeg } from "./jpeg-file.js";
import { valuesOf, type DecodedPicture, type PictureSize } from "./pixels.js";
import { decodePng, isPng } from "./png-file.js";
import { partsWithout, rowSplitOf, splitRows } from "./row-split.js";
import { checkedSet, ParameterReader, partOf } from "./sample-set.js";

const maxFileBytes = 64 * 1024 * 1024;
const maxSide = 4096;

/** @throws DATASET_MALFORMED naming the file */
export function decodePicture(bytes: Uint8Array, where: string): DecodedPicture {
  const kind = isJpeg(bytes) ? "JPEG" : isPng(bytes) ? "PNG" : "PNG or JPEG";
  const refuse = (problem: string, cause?: unknown): never => {
    throw new StemmaError(
      "DATASET_MALFORMED",
      `${where} is not a ${kind} picture that can be read: ${problem}. Replace or remove it.`,
      { file: where, cause },
    );
  };
  if (bytes.length === 0) refuse("it is empty");
  return kind === "JPEG"
    ? decodeJpeg(bytes, refuse)
    : kind === "PNG"
      ? decodePng(bytes, refuse)
      : refuse("it begins as neither of them does, whatever its name says");
}

interface Picture {
  readonly label: number;
  readonly values: Float32Array;
}

/** Parameters: docs/reference/data.md, "Pictures". The location is a folder. */
export const imageFolder: DatasetReader = {
  name: "image-folder",
  needsLocation: true,
  async read(reference, files) {
    const parameters = new ParameterReader("image-folder", reference.parameters);
    const classNames = parameters.has("classNames")
      ? parameters.texts("classNames", [], /^[^/\\\0]{1,255}$/, 10_000)
      : undefined;
    const size: PictureSize = {
      height: parameters.whole("height", 0, 0, maxSide),
      width: parameters.whole("width", 0, 0, maxSide),
      channels: parameters.oneOf("colours", "rgb", ["rgb", "grey"] as const) === "rgb" ? 3 : 1,
    };
    const split = rowSplitOf("image-folder", parameters);
    parameters.end();
    const folder = reference.location ?? ".";
    const found = await listClassFolders(folder, files, {
      reader: "image-folder",
      classNames,
      fits: (name) => /\.(png|jpe?g)$/i.test(name),
    });
    const read = await readPictures(folder, found.files, { files, size });
    const parts = splitRows(read.pictures, split);
    const { height, width, channels } = read.size;
    const part = (chosen: readonly Picture[]): SampleSet["train"] =>
      partOf(
        chosen.map(({ values, label }) => ({ input: values, target: [label] })),
        height * width * channels,
        1,
      );
    return checkedSet({
      task: "classification",
      inputShape: [height, width, channels],
      targetSize: 1,
      classes: found.classes.length,
      train: part(parts.train),
      validation: part(parts.validation),
      heldOut: part(parts.heldOut),
      withoutParts: partsWithout(split),
      description: {
        reader: "image-folder",
        location: folder,
        format: "PNG and JPEG pictures in a folder for each class",
        sources: [read.source],
        columns: [
          { name: "picture", role: "input", kind: "number" },
          { name: "class", role: "target", kind: "category", words: found.classes },
        ],
        transformations: [
          `mean over the area that each of ${height} × ${width} pixels covers; transparent pixels are black`,
          ...(channels === 1 ? ["(299 red + 587 green + 114 blue) ÷ 1000"] : []),
          "number → number ÷ 255",
          ...(read.longer > 0 ? [`bytes behind the end of ${read.longer} pictures are not read`] : []),
        ],
        split,
      },
    });
  },
};

interface ReadOptions {
  readonly files: DatasetFiles;
  /** 0: as the first picture. */
  readonly size: PictureSize;
}

interface ReadPictures {
  readonly pictures: readonly Picture[];
  readonly size: PictureSize;
  readonly source: Readonly<Record<string, unknown>>;
  /** Pictures with more bytes behind their end. */
  readonly longer: number;
}

async function readPictures(
  folder: string,
  list: readonly ClassFile[],
  { files, size: wanted }: ReadOptions,
): Promise<ReadPictures> {
  const hash = new FilesHash();
  const pictures: Picture[] = [];
  let size = wanted;
  let longer = 0;
  for (const { path, label } of list) {
    const where = join(folder, path);
    const bytes = await readBounded(where, files, maxFileBytes);
    hash.add(path, bytes);
    const pixels = decodePicture(bytes, where);
    if (pictures.length === 0) {
      size = { ...wanted, height: wanted.height || pixels.height, width: wanted.width || pixels.width };
      requireRoom(folder, list.length, size);
    }
    if (pixels.behindEnd > 0) longer++;
    pictures.push({ label, values: valuesOf(pixels, size) });
  }
  return { pictures, size, source: hash.summary(), longer };
}

/** @throws DATASET_MALFORMED before all pictures are read */
function requireRoom(folder: string, count: number, { height, width, channels }: PictureSize): void {
  if (count * height * width * channels > maxSampleValues)
    throw new StemmaError(
      "DATASET_MALFORMED",
      `${count} pictures of ${height} × ${width} pixels in ${folder} are more than a training can hold. Set a smaller ` +
        "size (height, width), or use fewer.",
      { folder },
    );
}
