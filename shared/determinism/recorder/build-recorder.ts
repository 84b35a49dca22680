/**
 * Compiles the recorder, and the list of libraries, with the compiler of this machine when they are first used, and
 * keeps them in the user's cache by the hash of source and compiler. Nothing is downloaded.
 */
import { execFile } from "node:child_process";
import { mkdir, mkdtemp, readdir, readFile, rename, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { recorderSources } from "./recorder-sources.js";
import { userFolder } from "../../adapters/user-folder.js";
import { messageOf } from "../../error-text.js";
import { StemmaError } from "../../errors.js";
import { fileError } from "../../files/file-error.js";
import { nodeFiles } from "../../files/node-files.js";
import { sha256 } from "../../tensor/hash.js";

export interface Recorder {
  readonly library: string;
  readonly launcher: string;
}

/** Fortified calls would go around the ones that the library takes the place of. */
const flags = ["-O2", "-std=gnu11", "-U_FORTIFY_SOURCE"];
const asLibrary = ["-fPIC", "-shared"];
/** The list of libraries is built without the C library: a program of another one can load it, too. */
const withoutLibrary = ["-fno-stack-protector", "-nostdlib"];
const compileMs = 120_000;
/** No build takes so long. */
const unfinishedMs = 10 * compileMs;

/** Sources that are compiled together: the name of each result, its source, and the arguments that it needs. */
type Compiled = readonly (readonly [
  name: string,
  source: string,
  before: readonly string[],
  after: string[],
])[];

/** @throws RECORDER_UNAVAILABLE with what to do; FILE_FAILED, DISK_FULL */
export async function buildRecorder(signal: AbortSignal, cache = cacheFolder()): Promise<Recorder> {
  if (process.platform !== "linux" || !["x64", "arm64"].includes(process.arch))
    throw unavailable(
      `It needs Linux on x86-64 or arm64, and this is ${process.platform} on ${process.arch}. Record there`,
    );
  const { library, launcher } = recorderSources();
  const folder = await compiled(
    [
      ["recorder.so", library, asLibrary, ["-ldl", "-pthread"]],
      ["launch", launcher, [], []],
    ],
    { signal, cache },
  );
  return { library: join(folder, "recorder.so"), launcher: join(folder, "launch") };
}

/** Builds the library that lists the libraries of a process. @throws as `buildRecorder` */
export async function buildLibraryList(signal: AbortSignal, cache = cacheFolder()): Promise<string> {
  if (process.platform !== "linux") throw unavailable("It needs Linux. Record there");
  const { libraries } = recorderSources();
  const folder = await compiled([["libraries.so", libraries, [...asLibrary, ...withoutLibrary], []]], {
    signal,
    cache,
  });
  return join(folder, "libraries.so");
}

/** The folder with the results, which is made where it is not there yet. */
async function compiled(
  parts: Compiled,
  { signal, cache }: { readonly signal: AbortSignal; readonly cache: string },
): Promise<string> {
  const compiler = await findCompiler();
  const texts = await Promise.all(parts.map(([, source]) => sourceText(source)));
  const used = parts.flatMap(([, , before, after]) => [...before, ...after]);
  const key = sha256(...texts, compiler.version, [...flags, ...used].join(" ")).slice(0, 32);
  const folder = join(cache, key);
  if ((await stat(folder).catch(() => undefined)) !== undefined) return folder;
  try {
    await mkdir(cache, { recursive: true, mode: 0o700 });
    await removeUnfinished(cache);
    const temporary = await mkdtemp(join(cache, "new-"));
    try {
      for (const [name, source, before, after] of parts) {
        const path = join(temporary, name);
        await run(compiler.name, [...flags, ...before, "-o", path, source, ...after], signal);
        await syncFile(path);
      }
      await rename(temporary, folder);
    } catch (error) {
      await rm(temporary, { recursive: true, force: true });
      // Another process may have made the same meanwhile.
      if ((await stat(folder).catch(() => undefined)) === undefined) throw error;
    }
  } catch (error) {
    throw fileError(error, "make", folder);
  }
  return folder;
}

/** Removes what builds left that were killed, where it may; others may run now. */
async function removeUnfinished(cache: string): Promise<void> {
  for (const name of await readdir(cache)) {
    const path = join(cache, name);
    const found = name.startsWith("new-") ? await stat(path).catch(() => undefined) : undefined;
    if (found !== undefined && Date.now() - found.mtimeMs > unfinishedMs)
      await rm(path, { recursive: true, force: true }).catch(() => undefined);
  }
}

/** A program in one file does not carry the sources. */
async function sourceText(path: string): Promise<Buffer> {
  try {
    return await readFile(path);
  } catch (cause) {
    throw unavailable("This build of Stemma does not have its sources. Install the package of Stemma", cause);
  }
}

/** A folder of this user alone: whoever could write there could put a library into a program. */
function cacheFolder(): string {
  const configured = process.env["XDG_CACHE_HOME"] ?? "";
  const user = userFolder();
  if (configured === "" && user === undefined)
    throw unavailable("This user has no folder of its own to compile it in. Name one in XDG_CACHE_HOME");
  return join(configured !== "" ? configured : join(user ?? "", ".cache"), "stemma-recorder");
}

async function syncFile(path: string): Promise<void> {
  const file = await nodeFiles().open(path, "update");
  await file.sync().finally(() => file.close());
}

async function findCompiler(): Promise<{ readonly name: string; readonly version: string }> {
  const names = process.env["CC"] === undefined ? ["cc", "gcc", "clang"] : [process.env["CC"]];
  for (const name of names) {
    const found = await promisify(execFile)(name, ["--version"], { timeout: compileMs }).catch(
      () => undefined,
    );
    if (found !== undefined) return { name, version: found.stdout };
  }
  throw unavailable(
    `It is compiled when it is first used, and there is no C compiler here (${names.join(", ")}). Install one, such ` +
      "as the package gcc with libc6-dev, or name it in CC",
  );
}

async function run(compiler: string, words: readonly string[], signal: AbortSignal): Promise<void> {
  try {
    await promisify(execFile)(compiler, [...words], { timeout: compileMs, signal });
  } catch (cause) {
    signal.throwIfAborted();
    const { stderr = "" } = cause as { readonly stderr?: string };
    const errors = stderr.split("\n").filter((line) => /error/i.test(line));
    throw unavailable(
      `${compiler} could not compile it: ${(errors[0] ?? messageOf(cause)).slice(0, 300)}. It needs a compiler for ` +
        "this machine and the headers of glibc (libc6-dev)",
      cause,
    );
  }
}

function unavailable(reason: string, cause?: unknown): StemmaError {
  return new StemmaError("RECORDER_UNAVAILABLE", `Randomness cannot be recorded here. ${reason}.`, { cause });
}
