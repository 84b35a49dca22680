/** `stemma reproduce record` and `replay`: the randomness of one run, kept in a profile and given again (CH4). */
import { cp, mkdir, mkdtemp, rename, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { describeRandomness, unseen } from "../../../shared/determinism/reproduce/profile-text.js";
import {
  decodeProfile,
  decodeRecords,
  encodeProfile,
  firstDivergence,
  maxProfileBytes,
  summarize,
} from "../../../shared/determinism/reproduce/random-profile.js";
import { StemmaError } from "../../../shared/errors.js";
import { writeDurably } from "../../../shared/files/durable-write.js";
import { fileError, systemCode } from "../../../shared/files/file-error.js";
import { nodeFiles } from "../../../shared/files/node-files.js";
import type { PlainContext, Printed } from "../plain-command.js";
import { refuseExisting } from "../stream-file.js";
import { readSmallFile } from "../text-file.js";
import { buildRecorder } from "../../../shared/determinism/recorder/build-recorder.js";
import { requireRecordable } from "../../../shared/determinism/recorder/recordable.js";
import { runFolderOf, runRecorded, type RunPorts } from "./run-training.js";

export interface RunChoices {
  readonly command: readonly string[];
  readonly run: string | undefined;
  readonly timeout: number;
}

export async function record(
  {
    force,
    profile = resolve("randomness.profile"),
    ...choices
  }: RunChoices & {
    readonly profile: string | undefined;
    readonly force: boolean;
  },
  context: PlainContext,
): Promise<Printed> {
  const { command, timeout: timeoutSeconds } = choices;
  await refuseExisting(profile, force);
  await requireRecordable(command);
  const recorder = await buildRecorder(context.signal);
  const summary = await withWork(choices.run, async (workFolder) => {
    const run = { command, timeoutSeconds, workFolder };
    const { bytes, records } = await runRecorded(run, recorder, undefined, portsOf(context));
    await writeProfile(profile, bytes);
    return summarize(records);
  });
  return {
    data: { profile, ...summary },
    names: [profile],
    text: context.output.wrap([
      `recorded in ${profile}`,
      ...describeRandomness(summary),
      `  ${unseen}`,
      "  The profile has every random byte that the program drew, also of keys: keep it as a secret (mode 0600).",
    ]),
  };
}

export async function replay(
  choices: RunChoices & { readonly profile: string },
  context: PlainContext,
): Promise<Printed> {
  const { profile, command, timeout: timeoutSeconds } = choices;
  const given = decodeProfile(await readSmallFile(profile, maxProfileBytes), profile);
  const recorded = decodeRecords(given, profile);
  await requireRecordable(command);
  const recorder = await buildRecorder(context.signal);
  const summary = await withWork(choices.run, async (workFolder) => {
    const run = { command, timeoutSeconds, workFolder };
    const { records } = await runRecorded(run, recorder, given, portsOf(context));
    const place = firstDivergence(recorded, records);
    if (place !== undefined)
      throw new StemmaError(
        "REPLAY_DIVERGED",
        `The program did not draw what its profile has, first at ${place}. Replay the same command on the same data; ` +
          "a program whose threads or processes run in another order may need one of each.",
        { place },
      );
    return summarize(records);
  });
  return {
    data: { profile, ...summary },
    names: [profile],
    text: context.output.wrap([
      `replayed ${profile}: the program drew what was recorded`,
      ...describeRandomness(summary),
      `  ${unseen}`,
    ]),
  };
}

const portsOf = ({ signal, output }: PlainContext): RunPorts => ({
  signal,
  onLine: (line) => {
    output.info(line);
  },
  onErrorLine: (line) => {
    output.info(line);
  },
});

/** A profile is readable by its owner alone: `nodeFiles` makes files with mode 0600. */
export async function writeProfile(path: string, records: Uint8Array): Promise<void> {
  await mkdir(dirname(path), { recursive: true });
  await writeDurably(nodeFiles(), path, encodeProfile(records));
}

/** A folder for a run, removed afterwards. @param keep where the run's files go once all is well */
export async function withWork<Result>(
  keep: string | undefined,
  use: (workFolder: string) => Promise<Result>,
): Promise<Result> {
  if (keep !== undefined) await refuseExisting(keep, false);
  const workFolder = await mkdtemp(join(tmpdir(), "stemma-reproduce-"));
  try {
    const result = await use(workFolder);
    if (keep !== undefined) await moveFolder(runFolderOf(workFolder), keep);
    return result;
  } finally {
    await rm(workFolder, { recursive: true, force: true });
  }
}

/** Moves a folder, also to another disk. */
export async function moveFolder(from: string, to: string): Promise<void> {
  try {
    await mkdir(dirname(to), { recursive: true });
    await rename(from, to).catch(async (error: unknown) => {
      if (systemCode(error) !== "EXDEV") throw error;
      await cp(from, `${to}.part`, { recursive: true });
      await rename(`${to}.part`, to);
    });
  } catch (error) {
    throw fileError(error, "move a run to", to);
  }
}
