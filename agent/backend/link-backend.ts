/**
 * Links a libtensorflow of this machine to an agent's home, checks what is linked, and removes it. The folder `native/`
 * holds a copy of the native runner, the binding, and a link to the *folder* of the libraries, since they find others
 * relative to themselves.
 */
import { copyFile, mkdir, readFile, symlink, writeFile } from "node:fs/promises";
import { availableParallelism } from "node:os";
import { join } from "node:path";
import { writeDurably } from "../../shared/files/durable-write.js";
import type { Files } from "../../shared/ports.js";
import { sha256 } from "../../shared/tensor/hash.js";
import type { Hash } from "../../shared/tensor/tensor.js";
import { engineThreads } from "../../shared/train/backends/capability.js";
import { builtInRunnerFolder } from "../../shared/train/engine-folder.js";
import {
  bindingPath,
  nativeVariables,
  runnerFiles,
  runnerId,
  runsDisagree,
  type NativeClass,
  type RunnerManifest,
} from "../../shared/train/native/native-class.js";
import type { ProbeReport } from "../../shared/train/native/probe.js";
import { jobFormat } from "../../shared/train/training.js";
import {
  isChanged,
  notLinked,
  onlyLinux,
  otherBits,
  otherVersion,
  outOfTolerance,
  runnerMissing,
} from "./backend-errors.js";
import { compileBinding, takeBinding } from "./binding.js";
import { checkLibrary, describeLibraries, findLibrary, type LibraryFile } from "./library.js";
import { nativeFolder, readLink, type Link } from "./link-file.js";
import { gpuFacts, instructionSet } from "./machine-facts.js";
import { probeLibrary } from "./probe-library.js";

/** The largest difference to the cpu backend, against the largest number; 6e-7 was measured. */
const tolerance = 1e-4;

export interface BackendPorts {
  readonly files: Files;
  readonly home: string;
  /** MiB that the probe's process may write to. */
  readonly memoryLimitMb: number;
  /** Told, for a person, what is done now. */
  readonly onStep: (text: string) => void;
}

export interface LinkRequest {
  readonly libtensorflow: string;
  /** A binding that was made elsewhere; absent: one is compiled. */
  readonly binding?: string | undefined;
  readonly compiler: string;
  /** The largest number of threads. */
  readonly threads: number;
  readonly stemma: string;
  readonly nowMs: number;
}

/** @throws BACKEND_UNAVAILABLE saying what to do; what was linked before stays then */
export async function linkBackend(ports: BackendPorts, request: LinkRequest): Promise<Link> {
  const { files, home, onStep } = ports;
  if (process.platform !== "linux") throw onlyLinux(process.platform);
  const library = await findLibrary(files, request.libtensorflow);
  onStep(`checking ${library}`);
  await checkLibrary(files, library, { arch: process.arch, owner: process.getuid?.() });
  const folder = `${nativeFolder(home)}.tmp`;
  await files.remove(folder);
  try {
    await prepareFolder(ports, folder, library, request);
    const libraries = await describeLibraries(files, library);
    const threads = engineThreads(request.threads, availableParallelism());
    const link = await probeFolder(ports, folder, { library, libraries, threads, request });
    await files.remove(nativeFolder(home));
    await files.rename(folder, nativeFolder(home));
    await files.syncFolder(home);
    return link;
  } catch (error) {
    await files.remove(folder);
    throw error;
  }
}

/** Makes the folder up to what the probe finds out. */
async function prepareFolder(
  { files, onStep }: BackendPorts,
  folder: string,
  library: string,
  { binding, compiler }: LinkRequest,
): Promise<void> {
  const runner = builtInRunnerFolder();
  const target = join(folder, bindingPath);
  await mkdir(join(folder, "lib/napi-v8"), { recursive: true });
  await mkdir(join(folder, "deps"));
  await symlink(library, join(folder, "deps/lib"));
  try {
    await copyFile(join(runner, "engine.mjs"), join(folder, "engine.mjs"));
  } catch (cause) {
    throw runnerMissing(runner, cause);
  }
  if (binding === undefined) {
    onStep(`compiling the binding with ${compiler}`);
    await compileBinding(files, { runner, library, compiler, target });
  } else await takeBinding(files, binding, { library, arch: process.arch, target });
}

interface Prepared {
  readonly library: string;
  readonly libraries: readonly LibraryFile[];
  readonly threads: number;
  readonly request: LinkRequest;
}

/** Probes twice, and writes what was found. */
async function probeFolder(
  { files, memoryLimitMb, onStep }: BackendPorts,
  folder: string,
  { library, libraries, threads, request }: Prepared,
): Promise<Link> {
  const variables = nativeVariables(threads);
  const unprobed: NativeClass = {
    tensorflow: "unknown",
    library: hashOfLibraries(libraries),
    arch: process.arch,
    instructionSet: await instructionSet(files),
    threads,
    oneDnn: variables["TF_ENABLE_ONEDNN_OPTS"] as string,
    deterministicOps: variables["TF_DETERMINISTIC_OPS"] as string,
    referenceTraining: runsDisagree,
  };
  await writeManifest(files, folder, unprobed);
  onStep("probing it: operations, gradients and a reference training, twice");
  const first = await probeLibrary(folder, memoryLimitMb);
  const second = await probeLibrary(folder, memoryLimitMb);
  for (const report of [first, second]) requireSound(report);
  const { tensorflow, usesGpu, worst, compared, loadOrder, backendOrder, notes } = first;
  const agree = first.referenceTraining === second.referenceTraining;
  const exactness: NativeClass = {
    ...unprobed,
    tensorflow,
    ...(usesGpu ? await gpuFacts(files, loadOrder) : {}),
    referenceTraining: agree ? first.referenceTraining : runsDisagree,
  };
  await writeManifest(files, folder, exactness);
  const link: Omit<Link, "class"> = {
    format: 1,
    runner: await idOfRunner(folder),
    folder: library,
    libraries: [...libraries],
    binding: {
      sha256: sha256(await readFile(join(folder, bindingPath))),
      from: request.binding === undefined ? "compiled" : "taken",
    },
    versions: JSON.parse(
      await readFile(join(builtInRunnerFolder(), "libraries.json"), "utf8"),
    ) as Link["versions"],
    probe: {
      worst,
      compared,
      peakBytes: Math.max(first.peakBytes, second.peakBytes),
      loadOrder: [...loadOrder],
      backendOrder: [...backendOrder],
      notes: [...notes],
    },
    linkedAtMs: request.nowMs,
    stemma: request.stemma,
  };
  await writeDurably(files, join(folder, "link.json"), jsonBytes(link));
  return { ...link, class: exactness };
}

/** @throws BACKEND_UNAVAILABLE */
function requireSound({ tensorflow, worst }: ProbeReport): void {
  const [major, minor] = tensorflow.split(".").map(Number);
  if (major !== 2 || minor === undefined || minor < 12) throw otherVersion(tensorflow);
  if (!(worst.error <= tolerance)) throw outOfTolerance(worst.operation, worst.error, tolerance);
}

/**
 * Checks that what is linked is still what was linked, and that it still gives the same bits.
 * @throws BACKEND_UNAVAILABLE, ENGINE_HASH_MISMATCH, MACHINE_INEXACT
 */
export async function checkBackend(ports: BackendPorts): Promise<Link> {
  const { files, home, memoryLimitMb, onStep } = ports;
  const folder = nativeFolder(home);
  const link = await readLink(files, folder);
  if (link === undefined) throw notLinked();
  onStep(`checking ${link.folder}`);
  const library = await findLibrary(files, join(folder, "deps/lib"));
  if (library !== link.folder) throw isChanged(`The folder of the libraries (${library})`);
  await checkLibrary(files, library, { arch: process.arch, owner: process.getuid?.() });
  const now = await describeLibraries(files, library);
  for (const { name, sha256: hash } of now)
    if (link.libraries.find((each) => each.name === name)?.sha256 !== hash)
      throw isChanged(join(library, name));
  if (sha256(await readFile(join(folder, bindingPath))) !== link.binding.sha256)
    throw isChanged("The binding");
  if ((await idOfRunner(folder)) !== link.runner) throw isChanged("The runner");
  if ((await instructionSet(files)) !== link.class.instructionSet)
    throw isChanged("This machine's processor");
  onStep("probing it");
  const report = await probeLibrary(folder, memoryLimitMb);
  requireSound(report);
  const { referenceTraining } = link.class;
  if (referenceTraining !== runsDisagree && report.referenceTraining !== referenceTraining)
    throw otherBits(referenceTraining, report.referenceTraining);
  return link;
}

/** @returns false where nothing was linked */
export async function unlinkBackend({ files, home }: Pick<BackendPorts, "files" | "home">): Promise<boolean> {
  const folder = nativeFolder(home);
  const wasLinked = (await files.stat(folder)) !== undefined;
  await files.remove(folder);
  await files.remove(`${folder}.tmp`);
  if (wasLinked) await files.syncFolder(home);
  return wasLinked;
}

const hashOfLibraries = (libraries: readonly LibraryFile[]): Hash =>
  sha256("stemma-libtensorflow-1\0", ...libraries.map(({ name, sha256: hash }) => `${name}\0${hash}\n`));

async function idOfRunner(folder: string): Promise<Hash> {
  const files = runnerFiles.map(async (name) => ({ name, bytes: await readFile(join(folder, name)) }));
  return runnerId(await Promise.all(files));
}

async function writeManifest(files: Files, folder: string, exactness: NativeClass): Promise<void> {
  const manifest: RunnerManifest = {
    job: jobFormat,
    knownAnswer: exactness.referenceTraining,
    class: exactness,
  };
  await writeFile(join(folder, "engine.json"), jsonBytes(manifest));
  await files.syncFolder(folder);
}

const jsonBytes = (value: unknown): Uint8Array =>
  new TextEncoder().encode(`${JSON.stringify(value, undefined, 2)}\n`);
