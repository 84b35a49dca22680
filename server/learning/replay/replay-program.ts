/**
 * Runs the user's own program that made a version once more (MM9): the recorded program, which the owner of this
 * server approved, with the recorded job, base and samples, within the limits that it has on a device. Nothing is run
 * that only somebody sent.
 */
import { defined } from "../../../shared/defined.js";
import { silentLog } from "../../../shared/adapters/node-ports.js";
import { messageOf } from "../../../shared/error-text.js";
import { isStemmaError, type StemmaError } from "../../../shared/errors.js";
import { fileError } from "../../../shared/files/file-error.js";
import { nodeFiles } from "../../../shared/files/node-files.js";
import { decodeArchitecture } from "../../../shared/model/architecture.js";
import { decodeNames } from "../../../shared/model/names.js";
import { printable } from "../../../shared/printable.js";
import { hashFile } from "../../../shared/programs/hash-file.js";
import {
  makeJobFolders,
  writeBase,
  writeSamples,
  writeTrainerJob,
  type JobFolders,
} from "../../../shared/programs/job-folder.js";
import { endLeftProcess } from "../../../shared/programs/left-process.js";
import {
  decodeProgram,
  placeProgram,
  programAttachment,
  type Program,
} from "../../../shared/programs/program-bundle.js";
import { progressOf } from "../../../shared/programs/program-progress.js";
import { machineFacts } from "../../../shared/programs/program-record.js";
import { readOutput, type TrainerOutput } from "../../../shared/programs/read-output.js";
import type { ProgramKind } from "../../../shared/programs/run-command.js";
import {
  decodeRecords,
  firstDivergence,
  summarize,
} from "../../../shared/determinism/reproduce/random-profile.js";
import { readStoredProfile } from "../../../shared/programs/stored-profile.js";
import {
  folderToRunIn,
  isFolderToRunIn,
  runWatched,
  type WatchedRun,
} from "../../../shared/programs/watched-run.js";
import { whoMayChange } from "../../../shared/programs/who-may-change.js";
import type { MachineFacts } from "../../../shared/provenance/provenance.js";
import type { OpenedProvenance } from "../../../shared/provenance/openings.js";
import { layoutIdOf, layOutAsBase } from "../../../shared/layouts/base-layout.js";
import { slotFilesOf } from "../../../shared/layouts/slot-files.js";
import { modelSourceOfSafetensors } from "../../../shared/save/model-source.js";
import type { TensorSource } from "../../../shared/tensor/tensor.js";
import { loadDataset } from "../../../shared/train/datasets/registry.js";
import type { VersionSummary } from "../../storage/repository/answers/version-answers.js";
import type { FleetRepository } from "../../storage/repository/fleet-repository.js";
import { readLeaves } from "../../storage/repository/state/references.js";
import { findBase } from "../../services/data/find-base.js";
import { dataAt, locateData } from "../../services/data/locate-data.js";
import { readApprovedPrograms } from "./approved-programs.js";
import { judgeProgram } from "./judge-program.js";
import { compareWithStored, type Judgement } from "./judge-replay.js";
import type { ProgramStory } from "./program-story.js";
import { storedParts } from "./recorded-proof.js";
import type { Unreplayable } from "./story.js";
import type { Replay, TrainedAgain } from "./train-again.js";

const replayedKind: ProgramKind = {
  title: "recorded program",
  setting: "trainer",
  outcome: "Nothing was proved",
  afterwards: "replay it again",
};

interface Told {
  readonly story: ProgramStory;
  readonly opened: OpenedProvenance;
}

/**
 * @param workFolder a folder of the caller's own, which removes it
 * @throws what recovering the base throws; DISK_FULL; TRAINING_STOPPED when aborted
 */
export async function replayProgram(
  replay: Replay,
  { story, opened }: Told,
  workFolder: string,
): Promise<Judgement> {
  const cannot = (why: Unreplayable): Judgement => ({ verdict: "unreplayable", ...why });
  const { context, repository, summary } = replay;
  const { clock } = context.home.ports;
  const ready = await approvedProgram(replay, story);
  if ("reason" in ready) return cannot(ready);
  const base = await findBase(repository, story.base, undefined);
  if (base === undefined)
    return cannot({
      reason: "base-missing",
      text: `its base ${story.base.slice(0, 12)} is not here, and its program began from it.`,
    });
  const profile = await profileOf(replay, story, ready);
  if (profile !== undefined && "reason" in profile) return cannot(profile);
  await endLeftProcess(workFolder);
  const runFolder = folderToRunIn(workFolder, profile !== undefined);
  const prepared = await prepareJob(replay, story, { base, workFolder: runFolder }).catch(
    (error: unknown) => {
      throw fileError(error, "prepare", workFolder);
    },
  );
  if ("reason" in prepared) return cannot(prepared);
  const { folders, dataFrom, kept } = prepared;
  const startedMs = clock.monotonic();
  let output: TrainerOutput;
  let watched: WatchedRun;
  try {
    watched = await runAgain(replay, story, { ...ready, profile, folders, workFolder, runFolder });
    output = await readOutput(folders.output, undefined, kept);
  } catch (error) {
    return cannot(whyNotRun(error, replay, story));
  }
  const workMs = Math.round(clock.monotonic() - startedMs);
  try {
    const repeated = compareDraws(profile, watched);
    if ("reason" in repeated) return cannot(repeated);
    const tensors = await tensorsOf(repository, base, output);
    if ("reason" in tensors) return cannot(tensors);
    const parts = { ...(await storedParts(repository, summary.record)), opened };
    return judgeProgram({
      story,
      program: ready.program,
      here: ready.here,
      librariesHere: watched.libraries,
      mayHaveOtherAddresses:
        profile !== undefined && !(repeated.hasFixedAddresses && isFolderToRunIn(runFolder)),
      parts,
      output: output.metrics,
      difference: await compareWithStored(repository.objects, summary.record, tensors),
      isOtherForm: base.record.architecture !== summary.record.architecture,
      ran: { workMs, ...defined({ dataFrom }) },
    });
  } finally {
    await output.model.close();
  }
}

interface ReadyProgram {
  readonly program: Program;
  /** The interpreter's path; undefined where the program is an executable of its own. */
  readonly interpreter: string | undefined;
  /** The facts of this machine. */
  readonly here: MachineFacts;
}

/** The recorded program, as far as it is here and somebody who may decide that said that it may be run. */
async function approvedProgram(
  { context: { home }, repository: { objects }, summary }: Replay,
  { program: { bundle } }: ProgramStory,
): Promise<ReadyProgram | Unreplayable> {
  const id = bundle.slice(0, 12);
  const { attachments = [] } = summary.record.objects;
  const isOwn = attachments.some(({ name, hash }) => name === programAttachment && hash === bundle);
  if (!isOwn || !objects.has(bundle))
    return {
      reason: "program-missing",
      text: `the program ${id} that it states is not ${isOwn ? "stored here" : "among its own files"}.`,
    };
  const approved = (await readApprovedPrograms(home.ports.files, home.path)).find(
    (each) => each.program === bundle,
  );
  const refused = (why: string): Unreplayable => ({
    reason: "program-not-approved",
    text:
      `${why}. Look at what would run, then approve it on this machine: stemma replay program approve ` +
      `${summary.versionId.slice(0, 12)} --dry-run.`,
  });
  if (approved === undefined) return refused(`the program ${id} that made it is not approved here`);
  const program = decoded(await objects.read("attachment", bundle));
  if ("reason" in program) return program;
  const { interpreter } = approved;
  if (interpreter === null) return { program, interpreter: undefined, here: machineFacts(undefined) };
  const problem = await whoMayChange(interpreter.path, process.getuid?.()).catch(() => undefined);
  if (problem !== undefined)
    return refused(`${problem.path}, which its interpreter is below, ${problem.text}`);
  const now = await hashFile(interpreter.path).catch(() => undefined);
  if (now !== interpreter.sha256)
    return refused(
      `the interpreter ${interpreter.path} is another one than was approved with the program ${id}`,
    );
  return { program, interpreter: interpreter.path, here: machineFacts(now) };
}

function decoded(bytes: Uint8Array): Program | Unreplayable {
  try {
    return decodeProgram(bytes);
  } catch (error) {
    if (isStemmaError(error, "PROGRAM_INVALID")) return { reason: "unsupported", text: messageOf(error) };
    throw error;
  }
}

/** The records of what the program drew on its device; undefined where its owner does not have them kept. */
async function profileOf(
  { repository: { objects }, summary: { record } }: Replay,
  { program: { randomness } }: ProgramStory,
  { program: { recordsRandomness = false } }: ReadyProgram,
): Promise<Buffer | Unreplayable | undefined> {
  if (recordsRandomness !== (randomness !== undefined))
    return {
      reason: "unsupported",
      text: recordsRandomness
        ? "its program runs with its randomness recorded, and its record names no profile of that."
        : "its record names a profile of randomness, which its program is not run with.",
    };
  if (randomness === undefined) return undefined;
  const found = await readStoredProfile(objects, record.uses?.data ?? [], randomness);
  return typeof found === "string"
    ? { reason: "data-missing", text: `the profile of its randomness ${printable(found)}.` }
    : found;
}

/** A run that drew otherwise says nothing of the model, whatever it left. */
function compareDraws(
  profile: Buffer | undefined,
  { recording }: WatchedRun,
): { readonly hasFixedAddresses: boolean } | Unreplayable {
  if (profile === undefined) return { hasFixedAddresses: true };
  const recorded = decodeRecords(profile, "the profile");
  const replayed = recording?.records ?? [];
  const place = firstDivergence(recorded, replayed);
  if (place === undefined)
    return {
      hasFixedAddresses: [recorded, replayed].every((records) => summarize(records).hasFixedAddresses),
    };
  return {
    reason: "failed",
    text:
      `its program did not draw here what its profile has, first at ${printable(place)}. So what it left is not ` +
      "compared: the profile is of another run, or the program depends on more than what it draws.",
  };
}

interface Prepared {
  readonly folders: JobFolders;
  readonly dataFrom: TrainedAgain["dataFrom"] | undefined;
  /** Name of the base's file, where it is one that is kept as it is. */
  readonly kept: string | undefined;
}

/** Makes the folder of the job again; its job.json must have the very bytes that the device's had. */
async function prepareJob(
  replay: Replay,
  story: ProgramStory,
  { base, workFolder }: { readonly base: VersionSummary; readonly workFolder: string },
): Promise<Prepared | Unreplayable> {
  const { context, repository, summary } = replay;
  const files = nodeFiles();
  const folders = await makeJobFolders(workFolder, context.home.ports.random, ["base", "samples"]);
  const layoutId = layoutIdOf(base.record);
  const layout = layoutId && (await repository.objects.read("attachment", layoutId));
  const slot = slotFilesOf(await repository.recover(base.versionId), layout);
  const paths = await writeBase(files, folders, slot);
  const data = await placeSamples(replay, story, folders);
  if (data !== undefined && "reason" in data) return data;
  const { parameters, seed, invocation, program } = story;
  const job = { ...program.limits, line: summary.record.line, invocation, seed, parameters };
  const hash = await writeTrainerJob(folders, job, {
    base: { versionId: story.base, ...paths },
    samples: data?.samples ?? null,
  });
  if (hash !== program.job)
    return {
      reason: "job-differs",
      text:
        "the job that its record gives is not the one that its program was given, so nothing was run. What it states " +
        "of line, parameters, seed, base, samples or limits is not so.",
    };
  return { folders, dataFrom: data?.dataFrom, kept: slot.find(({ isKept }) => isKept === true)?.name };
}

async function placeSamples(
  { context, repository, summary, dataAt: place }: Replay,
  { data: sought }: ProgramStory,
  folders: JobFolders,
): Promise<
  { readonly samples: object; readonly dataFrom: TrainedAgain["dataFrom"] } | Unreplayable | undefined
> {
  if (sought === undefined) return undefined;
  const data =
    place === undefined
      ? await locateData(context, {
          fleet: repository.fleet,
          ...sought,
          uses: summary.record.uses?.data ?? [],
        })
      : await dataAt(context, place, sought);
  if (data.from === "nowhere") return { reason: "data-missing", text: data.text };
  try {
    const files = nodeFiles();
    const { set } = await loadDataset({ ...data.dataset, hash: sought.hash }, files);
    return { samples: await writeSamples(files, folders, set), dataFrom: data.from };
  } catch (error) {
    if (!isStemmaError(error) || error.code === "DISK_FULL") throw error;
    return { reason: "data-missing", text: messageOf(error) };
  } finally {
    await data.release();
  }
}

interface RunToRepeat extends ReadyProgram {
  readonly profile: Buffer | undefined;
  readonly folders: JobFolders;
  readonly workFolder: string;
  readonly runFolder: string;
}

async function runAgain(
  { context: { home }, summary, signal, onProgress }: Replay,
  { program: { limits, libraries } }: ProgramStory,
  { program, interpreter, profile, folders, workFolder, runFolder }: RunToRepeat,
): Promise<WatchedRun> {
  const { clock, files, log = silentLog() } = home.ports;
  const exec = await placeProgram(program, folders.program, interpreter);
  // What the device allowed, and never so much that the server's own disk is full.
  const maxOutputBytes = Math.min(limits.maxOutputBytes, Math.floor((await files.freeBytes(home.path)) / 2));
  const randomness = profile && { mode: "replay" as const, records: profile };
  return await runWatched(
    {
      line: summary.record.line,
      kind: replayedKind,
      program: { exec, environment: program.variables },
      workFolder,
      folders,
      limits: { ...limits, maxOutputBytes },
    },
    // As on the device, where it ran with the list whenever it ran with the recorder.
    {
      folder: runFolder,
      listsLibraries: libraries !== undefined || profile !== undefined,
      ...defined({ randomness }),
    },
    {
      clock,
      log,
      signal: signal ?? new AbortController().signal,
      takesLine: (text) => {
        const progress = progressOf(text);
        if (progress !== undefined) onProgress?.(progress);
        return progress !== undefined;
      },
    },
  );
}

/** Says why a run says nothing about the model. @throws DISK_FULL; TRAINING_STOPPED when aborted */
function whyNotRun(error: unknown, { signal }: Replay, { program: { limits } }: ProgramStory): Unreplayable {
  if (!isStemmaError(error) || error.code === "DISK_FULL" || signal?.aborted === true) throw error;
  const { code } = error;
  if (code === "TRAINER_TIMED_OUT")
    return {
      reason: "too-long",
      text: `its program did not end here within the ${limits.timeoutSeconds} seconds that it had on the device.`,
    };
  if (code === "RECORDER_UNAVAILABLE") return { reason: "unsupported", text: printable(messageOf(error)) };
  return {
    reason: "failed",
    text: `its program did not do here what it did on the device: ${failureOf(error)}`,
  };
}

/** A program writes what it likes: nothing of that may control a terminal. */
function failureOf(error: StemmaError): string {
  const { code, signal, stderr } = error.details;
  if (error.code !== "TRAINER_FAILED" || typeof stderr !== "string")
    return printable(messageOf(error)).slice(0, 1000);
  const how = typeof signal === "string" ? signal : `status ${Number(code)}`;
  return `it ended with ${how}.${stderr === "" ? "" : ` It wrote: ${printable(stderr.slice(-400))}`}`;
}

/** The tensors that it left, by path; its form is that of its base. */
async function tensorsOf(
  { objects }: Pick<FleetRepository, "objects">,
  { record }: Pick<VersionSummary, "record">,
  { model: { file, path } }: TrainerOutput,
): Promise<ReadonlyMap<string, TensorSource> | Unreplayable> {
  try {
    const { architecture: id, names } = record.objects;
    const leaves = await readLeaves(objects, record);
    const form = id && {
      architecture: decodeArchitecture(await objects.read("architecture", id)),
      names: decodeNames(await objects.read("names", names), leaves.length),
    };
    const layoutId = layoutIdOf(record);
    const layout = layoutId && (await objects.read("attachment", layoutId));
    const laidOut = form && layout && (await layOutAsBase(file, path, { described: form, layout }));
    const model = await modelSourceOfSafetensors(
      laidOut?.part.file ?? file,
      path,
      defined({ architecture: form }),
    );
    return new Map(model.leaves.map((leaf, i) => [leaf.path, model.sources[i] as TensorSource]));
  } catch (error) {
    if (!isStemmaError(error)) throw error;
    return {
      reason: "failed",
      text: `its program left a model that is not of its base: ${printable(messageOf(error))}`,
    };
  }
}
