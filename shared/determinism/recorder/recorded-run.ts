/** The files and variables by which a program runs with the recorder, and the records that it leaves. */
import { lstat, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { formatBytes } from "../../cli/output.js";
import { StemmaError } from "../../errors.js";
import { openRegularFile } from "../../files/regular-file.js";
import {
  decodeRecords,
  maxProfileBytes,
  maxRecordedBytes,
  type RandomRecord,
} from "../reproduce/random-profile.js";
import type { Recorder } from "./build-recorder.js";

export interface Recording {
  readonly bytes: Buffer;
  readonly records: readonly RandomRecord[];
}

export interface PreparedRecording {
  readonly variables: Readonly<Record<string, string>>;
  /** The file that gets the records of the run. */
  readonly taken: string;
  readonly state: string;
  /** The recorder ends the program when it has written more. */
  readonly maxBytes: number;
}

/** The bytes of `struct state` in recorder.c. */
const stateBytes = 8 + 4096 * 16;

/** The command that starts a program with the recorder. */
export function recordedCommand(
  { library, launcher }: Recorder,
  command: readonly string[],
): readonly string[] {
  return [launcher, library, ...command];
}

/**
 * Writes what a run needs into a folder of the caller's own.
 * @param given the records to replay; undefined: it records
 * @param maxBytes of the records
 */
export async function prepareRecording(
  folder: string,
  given: Uint8Array | undefined,
  maxBytes = maxRecordedBytes,
): Promise<PreparedRecording> {
  const at = (name: string): string => join(folder, name);
  const [from, taken, state] = [at("given"), at("taken"), at("state")];
  for (const path of [from, taken, state]) await rm(path, { force: true });
  await writeFile(from, given ?? "", { mode: 0o600 });
  // There before the program runs, it is nothing that the program writes.
  const shared = Buffer.alloc(stateBytes);
  shared.writeUInt32LE(maxBytes, 4);
  await writeFile(state, shared, { mode: 0o600 });
  const variables = {
    // The environment has the same length in both modes.
    SRECORDER_MODE: given === undefined ? "record" : "replay",
    SRECORDER_GIVEN: from,
    SRECORDER_TAKEN: taken,
    SRECORDER_STATE: state,
    SRECORDER_PATH: "0000000000000001",
  };
  return { variables, taken, state, maxBytes };
}

/**
 * Reads the records of a run that ended well.
 * @throws RANDOM_PROFILE_INVALID; RECORDER_UNAVAILABLE where the loader did not take the recorder;
 * TRAINER_OUTPUT_TOO_LARGE
 */
export async function readRecording({
  taken,
  maxBytes,
}: Pick<PreparedRecording, "taken" | "maxBytes">): Promise<Recording> {
  const size = (await lstat(taken).catch(() => undefined))?.size ?? 0;
  if (size > maxProfileBytes) throw tooMuch(maxBytes);
  const bytes = await readLeftFile(taken, maxProfileBytes);
  if (bytes.length === 0)
    throw new StemmaError(
      "RECORDER_UNAVAILABLE",
      "The program ran without the recorder: the loader did not take it, so nothing is known of its randomness. It " +
        "may be for another C library than glibc.",
    );
  return { bytes, records: decodeRecords(bytes, "What the program left") };
}

const tooMuch = (maxBytes: number): StemmaError =>
  new StemmaError(
    "TRAINER_OUTPUT_TOO_LARGE",
    `The program drew so much randomness that its records went past ${formatBytes(maxBytes)}, too much for a profile; ` +
      "it was ended, and nothing was saved. Have it draw a seed alone, or do not record its randomness.",
    { maxBytes },
  );

/** @throws TRAINER_OUTPUT_TOO_LARGE, DISK_FULL where the recorder ended the program */
export async function throwIfRecordingFailed({
  state,
  maxBytes,
}: Pick<PreparedRecording, "state" | "maxBytes">): Promise<void> {
  const shared = await readLeftFile(state, stateBytes);
  const failure = shared.length < 4 ? 0 : shared.readUInt32LE(0);
  if (failure === 2) throw tooMuch(maxBytes);
  if (failure === 1)
    throw new StemmaError("DISK_FULL", "The records of randomness could not be written; the run was ended.");
}

/**
 * Reads a file that a program was to write. It may have put anything there instead: a pipe, on which a reader waits for
 * ever, or a file without an end.
 * @returns nothing where there is no such file, or it is longer
 */
export async function readLeftFile(path: string, maxBytes: number): Promise<Buffer> {
  const opened = await openRegularFile(path, { followLinks: false }).catch(() => undefined);
  if (opened === undefined) return Buffer.alloc(0);
  const { file, size } = opened;
  try {
    if (size > maxBytes) return Buffer.alloc(0);
    const bytes = Buffer.alloc(size);
    return bytes.subarray(0, await file.read(bytes, 0));
  } finally {
    await file.close();
  }
}
