/**
 * Runs a recorded program so that its libraries are listed and, where its owner wants that, what it draws is recorded
 * or replayed. A replay does the same as the device did, with paths of the same lengths, which move what a program has
 * in memory.
 */
import { mkdir, symlink } from "node:fs/promises";
import { join } from "node:path";
import { buildLibraryList, buildRecorder } from "../determinism/recorder/build-recorder.js";
import {
  prepareRecording,
  readLeftFile,
  readRecording,
  recordedCommand,
  throwIfRecordingFailed,
  type Recording,
} from "../determinism/recorder/recorded-run.js";
import { defined } from "../defined.js";
import { messageOf } from "../error-text.js";
import { isStemmaError, StemmaError } from "../errors.js";
import { fileError } from "../files/file-error.js";
import type { LoadedLibraries } from "../provenance/provenance.js";
import { decodeLists, librariesOf, maxListBytes } from "./program-libraries.js";
import { maxStoredRecords } from "./stored-profile.js";
import { runJob, type JobPorts, type ProgramJob, type RunnableProgram } from "./run-job.js";

export interface Watching {
  /** The folder for what it runs with: its work folder, or the folder below that it runs in. */
  readonly folder: string;
  /** True if its libraries are listed, where this machine can do that. */
  readonly listsLibraries: boolean;
  /** `records` are those of the run that is replayed; absent: nothing of what it draws is looked at. */
  readonly randomness?:
    { readonly mode: "record" } | { readonly mode: "replay"; readonly records: Uint8Array };
}

export interface WatchedRun {
  /** The libraries of its processes; undefined: not recorded. */
  readonly libraries?: readonly LoadedLibraries[];
  /** The draws of a run with the recorder. */
  readonly recording?: Recording;
}

/** Bytes of the path of the folder in which a program runs whose randomness is recorded, wherever the home is. */
const watchedPathLength = 200;

/** False where the home's path is so long that the folder has a path of another length than others have. */
export function isFolderToRunIn(folder: string): boolean {
  return Buffer.byteLength(folder) === watchedPathLength;
}

/** The folder in which a program runs; of a home whose own path is longer, the caller's folder. */
export function folderToRunIn(workFolder: string, recordsRandomness: boolean): string {
  const missing = watchedPathLength - Buffer.byteLength(workFolder) - 1;
  return recordsRandomness && missing > 0 ? join(workFolder, "r".repeat(missing)) : workFolder;
}

/**
 * @throws as `runJob`; RECORDER_UNAVAILABLE, RANDOM_PROFILE_INVALID, DISK_FULL where the randomness is recorded
 */
export async function runWatched(
  job: ProgramJob,
  { folder, listsLibraries, randomness }: Watching,
  ports: JobPorts,
): Promise<WatchedRun> {
  const { workFolder } = job;
  const [tools, records] = [join(folder, "tools"), join(folder, "records")];
  const lists = join(folder, "libraries");
  const canPreload = !dividesPaths.test(folder);
  if (!canPreload && randomness !== undefined) throw cannotPreload(workFolder);
  const recorder = randomness === undefined ? undefined : await buildRecorder(ports.signal);
  const list = listsLibraries && canPreload ? await libraryList(ports) : undefined;
  let watched: RunnableProgram;
  let recording: Awaited<ReturnType<typeof prepareRecording>> | undefined;
  try {
    for (const path of [tools, records]) await mkdir(path, { recursive: true, mode: 0o700 });
    const link = async (path: string, name: string): Promise<string> => {
      await symlink(path, join(tools, name));
      return join(tools, name);
    };
    watched = list === undefined ? job.program : listing(job.program, await link(list, "list.so"), lists);
    if (recorder !== undefined) {
      const given = randomness?.mode === "replay" ? randomness.records : undefined;
      recording = await prepareRecording(records, given, maxStoredRecords);
      const linked = {
        library: await link(recorder.library, "recorder.so"),
        launcher: await link(recorder.launcher, "launch"),
      };
      watched = {
        exec: recordedCommand(linked, watched.exec),
        environment: { ...watched.environment, ...recording.variables },
      };
    }
  } catch (error) {
    throw fileError(error, "prepare", folder);
  }
  let pid = 0;
  try {
    await runJob(
      { ...job, program: watched, ...(recording === undefined ? {} : { alsoFilled: [records] }) },
      { ...ports, onStarted: (started) => (pid = started) },
    );
  } finally {
    // The recorder's reason comes before that of the program, which it ended.
    if (recording !== undefined) await throwIfRecordingFailed(recording);
  }
  const text = (await readLeftFile(lists, maxListBytes)).toString();
  const isOwn = (path: string): boolean => path.startsWith(`${tools}/`);
  return defined({
    libraries: await librariesOf(decodeLists(text), { pid, isOwn }),
    recording: recording && (await readRecording(recording)),
  });
}

/** The loader ends a path in LD_PRELOAD at these, or puts something in their place. */
const dividesPaths = /[\s:$]/;

function cannotPreload(folder: string): StemmaError {
  return new StemmaError(
    "RECORDER_UNAVAILABLE",
    `Randomness cannot be recorded in ${folder}: the system loads no recorder from a path with a space, a colon or a ` +
      "dollar sign. Move the home to a path without them.",
    { folder },
  );
}

/** The library that lists others; undefined where it cannot be built: such a machine trains all the same. */
async function libraryList({ signal, log }: JobPorts): Promise<string | undefined> {
  try {
    return await buildLibraryList(signal);
  } catch (error) {
    if (signal.aborted || !isStemmaError(error)) throw error;
    log.debug("libraries-not-listed", { text: messageOf(error) });
    return undefined;
  }
}

function listing({ exec, environment }: RunnableProgram, library: string, lists: string): RunnableProgram {
  const { LD_PRELOAD: own } = environment;
  const preload = own === undefined || own === "" ? library : `${library}:${own}`;
  return { exec, environment: { ...environment, LD_PRELOAD: preload, SRECORDER_LIBRARIES: lists } };
}
