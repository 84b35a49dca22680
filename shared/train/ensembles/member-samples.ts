/** The samples that a member of an ensemble is trained on. Pure. */
import type { Stream } from "../../random/streams.js";
import { sampleLength, type SamplePart, type SampleSet } from "../datasets/dataset.js";

/** Draws `count` samples of a part with replacement, in the order of the part. Draws the same whenever it is called. */
export function drawSamples(set: SampleSet, count: number, stream: Stream): SampleSet {
  stream.seek(0);
  const drawn = Uint32Array.from({ length: count }, () => stream.integer(set.train.count)).sort();
  return { ...set, train: chosenRows(set, set.train, drawn) };
}

function chosenRows(set: SampleSet, { inputs, targets, weights }: SamplePart, rows: Uint32Array): SamplePart {
  const length = sampleLength(set);
  const part = {
    count: rows.length,
    inputs: new Float32Array(rows.length * length),
    targets: new Float32Array(rows.length * set.targetSize),
    ...(weights && { weights: Float32Array.from(rows, (row) => weights[row] as number) }),
  };
  rows.forEach((row, index) => {
    part.inputs.set(inputs.subarray(row * length, (row + 1) * length), index * length);
    part.targets.set(
      targets.subarray(row * set.targetSize, (row + 1) * set.targetSize),
      index * set.targetSize,
    );
  });
  return part;
}

/** Draws `count` of `features` columns without replacement, rising. Draws the same whenever it is called. */
export function drawColumns(features: number, count: number, stream: Stream): readonly number[] {
  stream.seek(0);
  return [...stream.permutation(features).subarray(0, count)].sort((a, b) => a - b);
}

/** The set with these columns of its inputs only. */
export function withColumns(set: SampleSet, columns: readonly number[]): SampleSet {
  const length = sampleLength(set);
  const part = ({ count, inputs, targets, weights }: SamplePart): SamplePart => {
    const chosen = new Float32Array(count * columns.length);
    for (let row = 0; row < count; row++)
      columns.forEach((column, index) => {
        chosen[row * columns.length + index] = inputs[row * length + column] as number;
      });
    return { count, inputs: chosen, targets, weights };
  };
  return {
    ...set,
    inputShape: [columns.length],
    train: part(set.train),
    validation: part(set.validation),
    heldOut: part(set.heldOut),
  };
}
