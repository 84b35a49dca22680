/** Reads and writes the files of probes: summaries, and all tensors beside them. */
import { createReadStream } from "node:fs";
import { stat } from "node:fs/promises";
import {
  exactDifference,
  type ExactDifference,
  type ProbeDifference,
} from "../../shared/determinism/compare-probes.js";
import { figuresOf } from "../../shared/determinism/figures.js";
import {
  decodeProbe,
  encodeProbe,
  maxSummaryBytes,
  type ProbeSummary,
} from "../../shared/determinism/probe-summary.js";
import { StemmaError } from "../../shared/errors.js";
import { writeDurably } from "../../shared/files/durable-write.js";
import { nodeFiles } from "../../shared/files/node-files.js";
import { regularFiles } from "../../shared/files/regular-files.js";
import { readSafetensors } from "../../shared/tensor/safetensors-reader.js";
import { tensorOfSource } from "../../shared/tensor/tensor.js";
import { writeStreamDurably } from "./stream-file.js";
import { readSmallFile } from "./text-file.js";

/** `here.json` has its tensors in `here.safetensors`. */
export function tensorsPath(summary: string): string {
  return `${summary.replace(/\.json$/, "")}.safetensors`;
}

/** @throws FILE_MISSING, FILE_NOT_REGULAR, CANONICAL_JSON_INVALID where it is not a whole summary, USAGE: too large */
export async function readProbe(path: string): Promise<ProbeSummary> {
  return decodeProbe(await readSmallFile(path, maxSummaryBytes), path);
}

export async function writeProbe(
  path: string,
  summary: ProbeSummary,
  tensors: string | undefined,
): Promise<void> {
  if (tensors !== undefined) {
    const stream = { chunks: createReadStream(tensors), report: Promise.resolve() };
    await writeStreamDurably(stream, tensorsPath(path), { overwrite: true }, () => {});
  }
  await writeDurably(nodeFiles(), path, encodeProbe(summary));
}

/**
 * The exact difference where both summaries have their tensors beside them.
 * @throws FILE_CHANGED where a file's tensor is not the one that its summary describes
 */
export async function readExactDifference(
  difference: ProbeDifference,
  paths: readonly [a: string, b: string],
): Promise<ExactDifference | undefined> {
  const { a, b, tensor } = difference;
  if (a?.dtype !== "F32" || b?.dtype !== "F32" || a.shape.join() !== b.shape.join()) return undefined;
  const values: Float32Array[] = [];
  for (const [path, figures] of [[paths[0], a] as const, [paths[1], b] as const]) {
    const beside = tensorsPath(path);
    if ((await stat(beside).catch(() => undefined)) === undefined) return undefined;
    const found = await readTensor(beside, tensor);
    if (found === undefined || figuresOf(found, figures.shape).digest !== figures.digest)
      throw new StemmaError(
        "FILE_CHANGED",
        `${beside} does not have the tensors of ${path}: ${tensor} is another one. Probe again with --tensors, ` +
          "or move the file away to compare the summaries alone.",
        { path: beside },
      );
    values.push(found);
  }
  return exactDifference(values[0] as Float32Array, values[1] as Float32Array);
}

async function readTensor(path: string, name: string): Promise<Float32Array | undefined> {
  const file = await regularFiles().open(path, "read");
  try {
    const opened = await readSafetensors(file, path);
    const entry = opened.tensors.find((each) => each.name === name && each.dtype === "F32");
    if (entry === undefined) return undefined;
    const { bytes } = await tensorOfSource(opened.source(entry));
    return new Float32Array(bytes.slice().buffer);
  } finally {
    await file.close();
  }
}
