/** Makes a split sample set from images and labels, through a camera. Pure; both image readers use it. */
import { applyCamera, cameraOf } from "./camera.js";
import type { SampleSet } from "./dataset.js";
import { checkedSet, partOf, splitByTime, type Row } from "./sample-set.js";

export interface LabelledImages {
  readonly width: number;
  readonly height: number;
  readonly classes: number;
  /** The pixels from 0 to 1, one image of width × height numbers after the other. */
  readonly pixels: Float32Array;
  readonly labels: Uint8Array;
}

/**
 * Makes inputs [height, width, 1] and splits them in the order of the images.
 * @param cameraNumber see cameraOf
 * @throws DATASET_EMPTY, DATASET_MALFORMED
 */
export function imageSet(
  images: LabelledImages,
  cameraNumber: number,
  description: Readonly<Record<string, unknown>>,
): SampleSet {
  const { width, height, classes, pixels, labels } = images;
  const length = width * height;
  const camera = cameraOf(cameraNumber);
  const rows: Row[] = Array.from(labels, (label, index) => ({
    input: applyCamera(camera, {
      width,
      height,
      pixels: pixels.subarray(index * length, (index + 1) * length),
    }),
    target: [label],
  }));
  const { trainEnd, validationEnd } = splitByTime(rows.length);
  return checkedSet({
    task: "classification",
    inputShape: [height, width, 1],
    targetSize: 1,
    classes,
    train: partOf(rows.slice(0, trainEnd), length, 1),
    validation: partOf(rows.slice(trainEnd, validationEnd), length, 1),
    heldOut: partOf(rows.slice(validationEnd), length, 1),
    description: {
      ...description,
      columns: [
        { name: "picture", role: "input" },
        { name: "label", role: "target" },
      ],
      transformations: cameraNumber === 0 ? [] : [{ camera: cameraNumber, ...camera }],
      split: { by: "order", validationThousandths: 150, heldOutThousandths: 250 },
    },
  });
}
