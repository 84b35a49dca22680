/**
 * Compiles the recorder with the compiler of this machine when it is first used, and keeps it in the user's cache
 * by the hash of its source and compiler. Nothing is downloaded.
 */
import { execFile } from "node:child_process";
import { mkdir, mkdtemp, readFile, rename, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { recorderSources } from "../../../shared/determinism/recorder/recorder-sources.js";
import { userFolder } from "../../../shared/adapters/user-folder.js";
import { messageOf } from "../../../shared/error-text.js";
import { StemmaError } from "../../../shared/errors.js";
import { fileError } from "../../../shared/files/file-error.js";
import { nodeFiles } from "../../../shared/files/node-files.js";
import { sha256 } from "../../../shared/tensor/hash.js";

export interface Recorder {
  readonly library: string;
  readonly launcher: string;
}

/** Fortified calls would go around the ones that the library takes the place of. */
const flags = ["-O2", "-std=gnu11", "-U_FORTIFY_SOURCE"];
const compileMs = 120_000;

/** @throws RECORDER_UNAVAILABLE with what to do; FILE_FAILED, DISK_FULL */
export async function buildRecorder(signal: AbortSignal, cache = cacheFolder()): Promise<Recorder> {
  if (process.platform !== "linux" || !["x64", "arm64"].includes(process.arch))
    throw unavailable(
      `It needs Linux on x86-64 or arm64, and this is ${process.platform} on ${process.arch}. Record there`,
    );
  const sources = recorderSources();
  const compiler = await findCompiler();
  const texts = await Promise.all(Object.values(sources).map((path) => readFile(path)));
  const key = sha256(...texts, compiler.version, flags.join(" ")).slice(0, 32);
  const folder = join(cache, key);
  const made = (at: string): Recorder => ({ library: join(at, "recorder.so"), launcher: join(at, "launch") });
  if ((await stat(folder).catch(() => undefined)) !== undefined) return made(folder);
  try {
    await mkdir(cache, { recursive: true, mode: 0o700 });
    const temporary = await mkdtemp(join(cache, "new-"));
    try {
      const { library, launcher } = made(temporary);
      const compile = (words: readonly string[]): Promise<void> => run(compiler.name, words, signal);
      await compile([...flags, "-fPIC", "-shared", "-o", library, sources.library, "-ldl", "-pthread"]);
      await compile([...flags, "-o", launcher, sources.launcher]);
      for (const path of [library, launcher]) await syncFile(path);
      await rename(temporary, folder);
    } catch (error) {
      await rm(temporary, { recursive: true, force: true });
      // Another process may have made the same meanwhile.
      if ((await stat(folder).catch(() => undefined)) === undefined) throw error;
    }
  } catch (error) {
    throw fileError(error, "make", folder);
  }
  return made(folder);
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
