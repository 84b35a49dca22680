/** Compares the tensors of two safetensors files, one pair at a time. */
import type { TensorComparison } from "../../../shared/determinism/reproduce/criteria.js";
import { exactDifference } from "../../../shared/determinism/compare-probes.js";
import { regularFiles } from "../../../shared/files/regular-files.js";
import type { SafetensorsEntry } from "../../../shared/tensor/safetensors-header.js";
import { readSafetensors, type SafetensorsFile } from "../../../shared/tensor/safetensors-reader.js";
import { tensorOfSource } from "../../../shared/tensor/tensor.js";

/** @throws FILE_MISSING, FILE_NOT_REGULAR, SAFETENSORS_MALFORMED, SAFETENSORS_TRUNCATED */
export async function compareTensorFiles(a: string, b: string): Promise<TensorComparison> {
  const files = regularFiles();
  const [left, right] = [await files.open(a, "read"), await files.open(b, "read")];
  try {
    return await compareOpened(await readSafetensors(left, a), await readSafetensors(right, b));
  } finally {
    await Promise.all([left.close(), right.close()]);
  }
}

async function compareOpened(a: SafetensorsFile, b: SafetensorsFile): Promise<TensorComparison> {
  const [left, right] = [a, b].map(({ tensors }) => new Map(tensors.map((each) => [each.name, each])));
  const names = new Set([...left!.keys(), ...right!.keys()]);
  let differing = 0;
  let first: string | undefined;
  let largest: number | undefined;
  for (const name of names) {
    const found = await difference(a, b, [left!.get(name), right!.get(name)]);
    if (found === undefined) continue;
    differing++;
    first ??= `${name} (${found.text})`;
    if (found.largest !== undefined) largest = Math.max(largest ?? 0, found.largest);
  }
  return {
    compared: names.size,
    differing,
    ...(first === undefined ? {} : { first }),
    ...(largest === undefined ? {} : { largest }),
  };
}

interface TensorDifference {
  readonly text: string;
  readonly largest?: number;
}

const shapeOf = ({ dtype, shape }: SafetensorsEntry): string => `${dtype} [${shape.join(", ")}]`;

async function difference(
  a: SafetensorsFile,
  b: SafetensorsFile,
  [one, other]: readonly [SafetensorsEntry | undefined, SafetensorsEntry | undefined],
): Promise<TensorDifference | undefined> {
  if (one === undefined || other === undefined) return { text: `only in ${other === undefined ? "A" : "B"}` };
  if (shapeOf(one) !== shapeOf(other)) return { text: `${shapeOf(one)} and ${shapeOf(other)}` };
  const [left, right] = [await tensorOfSource(a.source(one)), await tensorOfSource(b.source(other))];
  if (Buffer.compare(left.bytes, right.bytes) === 0) return undefined;
  if (one.dtype !== "F32") return { text: "other bits" };
  const [x, y] = [left, right].map(({ bytes }) => new Float32Array(bytes.slice().buffer));
  const { largest, differing, of } = exactDifference(x!, y!);
  return { text: `${differing} of ${of} numbers`, ...(Number.isFinite(largest) ? { largest } : {}) };
}
