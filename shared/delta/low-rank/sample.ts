/** Evenly spaced rows and columns of a matrix and of what it is predicted from. Pure. */
import type { NumberKind } from "../numbers.js";
import type { Decomposition, MatrixSource } from "./decompose.js";

/** Rows times columns of a sample. */
const sampleNumbers = 2 ** 14;
const minRows = 48;

/** A tensor as a matrix, of which nothing is known yet. */
export type SampledMatrix = Omit<MatrixSource, "typicalOctave">;

/** A tensor of the sampled rows and columns. */
export interface Sample {
  readonly rows: Int32Array;
  readonly columns: Int32Array;
  readonly source: SampledMatrix;
  /** The inverse of its share of the matrix's numbers. */
  readonly each: number;
}

/** The sampled rows' and columns' numbers of every component, component by component. */
export interface SampledSides {
  readonly left: Float32Array;
  readonly right: Float32Array;
}

export function takeSample({ line, bytes, rows, columns }: SampledMatrix): Sample {
  const share = Math.sqrt(Math.min(1, sampleNumbers / (rows * columns)));
  const sampledRows = Math.min(rows, Math.max(Math.min(rows, minRows), Math.ceil(rows * share)));
  const sampledColumns = Math.min(columns, Math.max(1, Math.floor(sampleNumbers / sampledRows)));
  const rowList = evenly(
    rows,
    Math.min(rows, Math.max(sampledRows, Math.floor(sampleNumbers / sampledColumns))),
  );
  const columnList = evenly(columns, sampledColumns);
  const pick = (from: Uint8Array): Uint8Array =>
    pickNumbers(from, line.kind, { rowList, columnList, columns });
  const { base, previous } = line.references;
  return {
    rows: rowList,
    columns: columnList,
    each: (rows * columns) / (rowList.length * columnList.length),
    source: {
      rows: rowList.length,
      columns: columnList.length,
      bytes: pick(bytes),
      line: {
        ...line,
        references: { base: pick(base!), previous: previous === undefined ? undefined : pick(previous) },
      },
    },
  };
}

function evenly(all: number, count: number): Int32Array {
  return Int32Array.from({ length: count }, (_, i) => Math.floor((i * all) / count));
}

interface Picked {
  readonly rowList: Int32Array;
  readonly columnList: Int32Array;
  readonly columns: number;
}

function pickNumbers(
  from: Uint8Array,
  { bytes: width }: NumberKind,
  { rowList, columnList, columns }: Picked,
): Uint8Array {
  const out = new Uint8Array(rowList.length * columnList.length * width);
  const isComplete = columnList.length === columns;
  let at = 0;
  for (let i = 0; i < rowList.length; i++) {
    const row = rowList[i]! * columns;
    if (isComplete) {
      out.set(from.subarray(row * width, (row + columns) * width), at);
      at += columns * width;
      continue;
    }
    for (let j = 0; j < columnList.length; j++) {
      const start = (row + columnList[j]!) * width;
      for (let byte = 0; byte < width; byte++) out[at++] = from[start + byte]!;
    }
  }
  return out;
}

export function sampleSides({ left, right }: Decomposition, { rows, columns }: Sample): SampledSides {
  const pick = ({ width, values }: Decomposition["left"], list: Int32Array): Float32Array => {
    const out = new Float32Array(width * list.length);
    for (let i = 0; i < list.length; i++)
      for (let k = 0, from = list[i]! * width; k < width; k++, from++)
        out[k * list.length + i] = values[from]!;
    return out;
  };
  return { left: pick(left, rows), right: pick(right, columns) };
}
