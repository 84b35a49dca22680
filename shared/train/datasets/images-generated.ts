/**
 * Drawn images of ten signs, for use without measured data: strokes on 28 × 28 pixels, moved, scaled and
 * thickened at random, with noise. Uses + − × ÷ and square roots only, so a seed gives the same images on
 * every machine.
 */
import { Streams, type Stream } from "../../random/streams.js";
import type { DatasetReader } from "./dataset.js";
import { imageSet, type LabelledImages } from "./image-parts.js";
import { ParameterReader } from "./sample-set.js";

const side = 28;
/** The strokes of each sign as lists of corners on a grid of 0 … 4 by 0 … 6; null starts a new stroke. */
const signs: readonly (readonly (readonly [number, number] | null)[])[] = [
  [
    [1, 0],
    [3, 0],
    [4, 2],
    [4, 4],
    [3, 6],
    [1, 6],
    [0, 4],
    [0, 2],
    [1, 0],
  ],
  [[1, 1], [2, 0], [2, 6], null, [1, 6], [3, 6]],
  [
    [0, 1],
    [2, 0],
    [4, 1],
    [4, 2],
    [0, 6],
    [4, 6],
  ],
  [
    [0, 0],
    [4, 0],
    [2, 3],
    [4, 4],
    [3, 6],
    [0, 6],
  ],
  [
    [3, 6],
    [3, 0],
    [0, 4],
    [4, 4],
  ],
  [
    [4, 0],
    [0, 0],
    [0, 3],
    [3, 3],
    [4, 4],
    [3, 6],
    [0, 6],
  ],
  [
    [3, 0],
    [0, 3],
    [0, 5],
    [2, 6],
    [4, 5],
    [3, 3],
    [0, 4],
  ],
  [[0, 0], [4, 0], [1, 6], null, [1, 3], [4, 3]],
  [
    [2, 3],
    [0, 1],
    [2, 0],
    [4, 1],
    [2, 3],
    [0, 5],
    [2, 6],
    [4, 5],
    [2, 3],
  ],
  [
    [4, 3],
    [1, 3],
    [0, 1],
    [2, 0],
    [4, 1],
    [4, 3],
    [3, 6],
  ],
];

type Segment = readonly [x0: number, y0: number, x1: number, y1: number];

/** The lines of a sign, in pixels, moved and distorted at random. */
function segmentsOf(label: number, stream: Stream): Segment[] {
  const scale = stream.uniformBetween(2.5, 3.3);
  const shear = stream.uniformBetween(-0.2, 0.2);
  const left = 14 - 2 * scale + stream.uniformBetween(-2.5, 2.5);
  const top = 14 - 3 * scale + stream.uniformBetween(-2.5, 2.5);
  const points = (signs[label] ?? []).map((point) => {
    if (point === null) return null;
    const y = point[1] + stream.uniformBetween(-0.3, 0.3);
    return [
      left + (point[0] + stream.uniformBetween(-0.3, 0.3) - shear * (y - 3)) * scale,
      top + y * scale,
    ] as const;
  });
  return points.flatMap((point, index) => {
    const next = points[index + 1];
    return point === null || next === null || next === undefined
      ? []
      : [[point[0], point[1], next[0], next[1]] as const];
  });
}

/** The distance of a point from a line segment. */
function distanceTo([x0, y0, x1, y1]: Segment, x: number, y: number): number {
  const dx = x1 - x0;
  const dy = y1 - y0;
  const along = Math.min(1, Math.max(0, ((x - x0) * dx + (y - y0) * dy) / (dx * dx + dy * dy || 1)));
  const offX = x0 + along * dx - x;
  const offY = y0 + along * dy - y;
  return Math.sqrt(offX * offX + offY * offY);
}

/** Draws one sign into `target`, side × side pixels from 0 to 1. */
function drawSign(label: number, stream: Stream, target: Float32Array): void {
  const segments = segmentsOf(label, stream);
  const halfWidth = stream.uniformBetween(0.7, 1.5);
  for (let y = 0; y < side; y++) {
    for (let x = 0; x < side; x++) {
      let nearest = Infinity;
      for (const segment of segments) nearest = Math.min(nearest, distanceTo(segment, x, y));
      const ink = Math.min(1, Math.max(0, halfWidth + 0.5 - nearest));
      target[y * side + x] = Math.min(1, Math.max(0, ink * 0.9 + stream.uniformBetween(-0.08, 0.12)));
    }
  }
}

/** Generates `count` images; the same (seed, count) gives the same bits on every machine. */
export function generateImages(seed: string, count: number): LabelledImages {
  const stream = new Streams(seed, 0).stream("pictures");
  const pixels = new Float32Array(count * side * side);
  const labels = new Uint8Array(count);
  for (let index = 0; index < count; index++) {
    labels[index] = stream.integer(10);
    drawSign(
      labels[index] as number,
      stream,
      pixels.subarray(index * side * side, (index + 1) * side * side),
    );
  }
  return { width: side, height: side, classes: 10, pixels, labels };
}

/**
 * Parameters: `vehicle` (0, the default, for the laboratory; each number has its own images), `count`,
 * `camera` (default: the vehicle's number; 0 for none).
 */
export const imagesGenerated: DatasetReader = {
  name: "images-generated",
  needsLocation: false,
  read(reference) {
    const parameters = new ParameterReader("images-generated", reference.parameters);
    const vehicle = parameters.whole("vehicle", 0, 0, 2 ** 31);
    const count = parameters.whole("count", vehicle === 0 ? 2500 : 625, 8, 100_000);
    const camera = parameters.whole("camera", vehicle, 0, 2 ** 31);
    parameters.end();
    return imageSet(generateImages(String(vehicle), count), camera, {
      reader: "images-generated",
      generator: { version: 1, vehicle, count },
    });
  },
};
