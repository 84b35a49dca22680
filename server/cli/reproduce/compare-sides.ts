/** Reads two runs, each a folder, a file or a stored version, and compares them by all criteria. */
import { mkdtemp, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import {
  compareRuns,
  type RunComparison,
  type TensorComparison,
} from "../../../shared/determinism/reproduce/criteria.js";
import { isStemmaError, StemmaError } from "../../../shared/errors.js";
import type { PlainContext } from "../plain-command.js";
import { compareTensorFiles } from "./compare-tensors.js";
import { readRun, type ReadRun } from "./read-run.js";
import { describeVersion, readVersion } from "./read-version.js";

export async function compareReadRuns(a: ReadRun, b: ReadRun): Promise<RunComparison> {
  return compareRuns(a.record, b.record, await compareModels(a.model, b.model));
}

async function compareModels(
  a: string | undefined,
  b: string | undefined,
): Promise<TensorComparison | "A" | "B" | undefined> {
  if (a === undefined || b === undefined) return a !== undefined ? "A" : b !== undefined ? "B" : undefined;
  const found = await compareTensorFiles(a, b);
  // Two files without a tensor have nothing that could be equal.
  return found.compared === 0 ? undefined : found;
}

/** Compares the folders of two runs of one program. @throws NOT_FOUND where there is nothing to compare */
export async function comparePair(first: string, second: string): Promise<RunComparison> {
  const comparison = await compareReadRuns(await readRun(first, "first"), await readRun(second, "second"));
  if (comparison.verdict === "nothing")
    throw new StemmaError(
      "NOT_FOUND",
      "The program left nothing in $STEMMA_RUN by which two runs can be compared. docs/reproduce.md says what it may " +
        "write there: model.safetensors, predictions.csv, log.jsonl.",
    );
  return comparison;
}

/** A path that is there is a run's; anything else is the name of a version. @throws what reading them throws */
export async function compareSides(a: string, b: string, context: PlainContext): Promise<RunComparison> {
  const folder = await mkdtemp(join(tmpdir(), "stemma-compare-"));
  try {
    const versions = [await versionOf(a, context), await versionOf(b, context)] as const;
    const read = async (at: 0 | 1): Promise<ReadRun> => {
      const [own, other] = at === 0 ? versions : [versions[1], versions[0]];
      return own === undefined ? readRun(at === 0 ? a : b) : readVersion(own, folder, context, other);
    };
    return await compareReadRuns(await read(0), await read(1));
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

async function versionOf(
  argument: string,
  context: PlainContext,
): Promise<Awaited<ReturnType<typeof describeVersion>> | undefined> {
  if (argument.includes("/") || (await stat(argument).catch(() => undefined)) !== undefined) return undefined;
  try {
    return await describeVersion(argument, context);
  } catch (cause) {
    // A machine without a home has no version either.
    if (!isStemmaError(cause, "MODEL_NOT_FOUND") && !isStemmaError(cause, "NOT_FOUND")) throw cause;
    throw new StemmaError(
      "MODEL_NOT_FOUND",
      `${argument} is neither a file or folder here, nor a version of this fleet. Name a run's folder or a version.`,
      { cause },
    );
  }
}
