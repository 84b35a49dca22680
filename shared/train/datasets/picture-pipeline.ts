/**
 * The way of a picture into a model, rebuilt from the provenance record of its training (ME8): the size and the colours
 * of its inputs. It gives the bits that the training saw. Pure.
 */
import * as z from "zod";
import { decodePicture } from "./image-folder.js";
import { valuesOf } from "./pixels.js";

const side = z.number().int().min(1).max(4096);

/** The schema of a picture pipeline, as `stemma model pipeline` writes it. */
export const picturePipelineSchema = z.strictObject({
  kind: z.literal("stemma-pictures"),
  format: z.literal(1),
  height: side,
  width: side,
  colours: z.enum(["rgb", "grey"]),
});
export type PicturePipeline = z.infer<typeof picturePipelineSchema>;

const descriptionSchema = z.object({
  reader: z.literal("image-folder"),
  parameters: z.looseObject({ colours: z.enum(["rgb", "grey"]).default("rgb") }),
  transformations: z.array(z.unknown()).min(1),
});
/** The record has the size in this sentence: the parameters may leave it to the first picture. */
const sizePattern = /^mean over the area that each of (\d{1,4}) \u00d7 (\d{1,4}) pixels covers/;

/** @returns undefined where the description is not one of pictures in folders */
export function picturePipelineOf(description: unknown): PicturePipeline | undefined {
  const parsed = descriptionSchema.safeParse(description);
  const size = parsed.data?.transformations
    .map((each) => (typeof each === "string" ? sizePattern.exec(each) : null))
    .find(Boolean);
  if (parsed.data === undefined || !size) return undefined;
  const { colours } = parsed.data.parameters;
  const pipeline = {
    kind: "stemma-pictures",
    format: 1,
    height: Number(size[1]),
    width: Number(size[2]),
    colours,
  };
  return picturePipelineSchema.safeParse(pipeline).data;
}

/**
 * The input of one picture (PNG, JPEG): height × width × 3 numbers, or × 1 in grey.
 * @throws DATASET_MALFORMED naming the file
 */
export function inputOfPicture(pipeline: PicturePipeline, bytes: Uint8Array, where: string): Float32Array {
  const { height, width, colours } = pipeline;
  return valuesOf(decodePicture(bytes, where), { height, width, channels: colours === "rgb" ? 3 : 1 });
}
