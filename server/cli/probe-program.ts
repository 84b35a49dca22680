/** Probes a program of the user's own: it runs its model and leaves the summary (docs/probe.md, "Your own program"). */
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { mergeRuns, whyIncomparable, type MergedRuns } from "../../shared/determinism/compare-probes.js";
import { decodeProbe, maxSummaryBytes, type ProbeSummary } from "../../shared/determinism/probe-summary.js";
import { isStemmaError, StemmaError } from "../../shared/errors.js";
import { openRegularFile } from "../../shared/files/regular-file.js";
import { rootOf } from "../../shared/layouts/file-of-layout.js";
import { modelSourceOfSafetensors } from "../../shared/save/model-source.js";
import type { Hash } from "../../shared/tensor/tensor.js";
import type { ModelDescription } from "../interface/api/models/version-schemas.js";
import type { PlainContext } from "./plain-command.js";
import { runFolderOf, runTraining, runVariable } from "./reproduce/run-training.js";
import { writeStreamDurably } from "./stream-file.js";
import { readSmallFile } from "./text-file.js";

interface ProbedProgram {
  readonly command: readonly string[];
  readonly runs: number;
  readonly timeoutSeconds: number;
  /** The version whose tensors the program gets; undefined where it has its own. */
  readonly version?: ModelDescription | undefined;
}

export interface ProgramProbe extends MergedRuns {
  /** The root of the tensors that the program got, by the names in their file; undefined where it has its own. */
  readonly given: Hash | undefined;
}

const summaryName = "probe.json";
const modelName = "model.safetensors";

/**
 * Runs the program several times, in the current folder, and compares what it found.
 * @throws TRAINER_FAILED, TRAINER_TIMED_OUT, TRAINER_OUTPUT_INVALID; what recovering the version throws
 */
export async function probeProgram(
  { command, runs, timeoutSeconds, version }: ProbedProgram,
  workFolder: string,
  context: PlainContext,
): Promise<ProgramProbe> {
  const { output, signal } = context;
  const input = join(workFolder, "input");
  await mkdir(input);
  const given = version && (await writeModel(version, join(input, modelName), context));
  const found: ProbeSummary[] = [];
  for (let run = 1; run <= runs; run++) {
    output.progress(`probing by ${command[0]}: run ${run} of ${runs}`);
    await runTraining(
      { command, timeoutSeconds, workFolder, variables: { STEMMA_INPUT: input } },
      { signal, onLine: () => undefined, onErrorLine: () => undefined },
    );
    found.push(await readSummary(join(runFolderOf(workFolder), summaryName)));
  }
  output.endProgress();
  const [first, ...others] = found as [ProbeSummary, ...ProbeSummary[]];
  const reasons = others.map((other) => whyIncomparable(first, other)).find(({ length }) => length > 0);
  if (reasons !== undefined)
    throw new StemmaError(
      "TRAINER_OUTPUT_INVALID",
      `Two runs of the program did not probe the same: ${reasons.join(", ")}. Let it seed what it draws before the ` +
        "probe, or load its weights and inputs from a file.",
      { reasons },
    );
  return { ...mergeRuns([first, ...others]), given };
}

/**
 * Writes the version's tensors: in the layout of the file from which it was imported, where it has one.
 * @returns their root, by the names in the file, which are not always those of the version's own root
 */
async function writeModel(
  { versionId }: ModelDescription,
  path: string,
  { operations, fleet, signal }: PlainContext,
): Promise<Hash> {
  const opened = await operations();
  const wanted = { fleet, model: versionId, form: "safetensors" } as const;
  const stream = await opened
    .recover({ ...wanted, layout: "original" }, { signal })
    .catch((error: unknown) => {
      if (!isStemmaError(error, "MODEL_PART_MISSING") && !isStemmaError(error, "MODEL_OPAQUE")) throw error;
      return opened.recover(wanted, { signal });
    });
  await writeStreamDurably(stream, path, { overwrite: true }, () => {});
  const { file } = await openRegularFile(path, { followLinks: false });
  try {
    return rootOf((await modelSourceOfSafetensors(file, path, { holdBytes: 0 })).leaves);
  } finally {
    await file.close();
  }
}

async function readSummary(path: string): Promise<ProbeSummary> {
  try {
    return decodeProbe(
      await readSmallFile(path, maxSummaryBytes),
      `the ${summaryName} that the program left`,
    );
  } catch (error) {
    if (!isStemmaError(error, "FILE_MISSING")) throw error;
    throw new StemmaError(
      "TRAINER_OUTPUT_INVALID",
      `The program left no ${summaryName} in the folder that ${runVariable} names. In Python, ` +
        "stemma.probe.probe(model, inputs) writes it.",
      { cause: error },
    );
  }
}
