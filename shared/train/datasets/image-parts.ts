/** From pictures and labels to a split sample set, through a camera. Pure; both image readers use it. */
import { cameraOf, seenThrough } from "./camera.js";
import type { SampleSet } from "./dataset.js";
import { checkedSet, partOf, splitByTime, type Row } from "./sample-set.js";

export interface Pictures {
  readonly width: number;
  readonly height: number;
  readonly classes: number;
  /** Float32 in 0 … 1, one picture after the other. */
  readonly pixels: Float32Array;
  readonly labels: Uint8Array;
}

/** Inputs [height, width, 1]; the pictures' order is their time. @throws DATASET_EMPTY, DATASET_MALFORMED */
export function imageSet(
  pictures: Pictures,
  camera: number,
  description: Readonly<Record<string, unknown>>,
): SampleSet {
  const { width, height, classes, pixels, labels } = pictures;
  const length = width * height;
  const seen = cameraOf(camera);
  const rows: Row[] = Array.from(labels, (label, index) => ({
    input: seenThrough(seen, pixels.subarray(index * length, (index + 1) * length), width, height),
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
      transformations: camera === 0 ? [] : [{ camera, ...seen }],
      split: { by: "order", validationThousandths: 150, heldOutThousandths: 250 },
    },
  });
}
