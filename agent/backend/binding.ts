/**
 * Makes the binding of @tensorflow/tfjs-node-gpu from its own sources, which are beside the native runner, with a
 * compiler that the machine has; or takes one that was made elsewhere. Nothing is downloaded.
 */
import { execFile } from "node:child_process";
import { copyFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { messageOf } from "../../shared/error-text.js";
import type { Files } from "../../shared/ports.js";
import { plainEnvironment } from "../../shared/adapters/run-program.js";
import { libraryNotFound, noCompiler, noHeaders, notCompiled, otherArchitecture } from "./backend-errors.js";
import { libraryNames, withLibrary } from "./library.js";

const compileTimeoutMs = 600_000;

export interface CompileOptions {
  /** Folder of the native runner, with `binding/` and `include/`. */
  readonly runner: string;
  /** Folder of the libraries, with their headers in `include/`. */
  readonly library: string;
  /** The compiler for C++17. */
  readonly compiler: string;
  readonly target: string;
}

/** @throws BACKEND_UNAVAILABLE */
export async function compileBinding(
  files: Files,
  { runner, library, compiler, target }: CompileOptions,
): Promise<void> {
  const headers = join(library, "include");
  if ((await files.stat(join(headers, "tensorflow/c/c_api.h"))) === undefined) throw noHeaders(library);
  const args = [
    ..."-O2 -std=c++17 -fPIC -shared -fno-exceptions -fno-rtti -w -DNAPI_VERSION=8".split(" "),
    ..."-DNODE_GYP_MODULE_NAME=tfjs_binding -DBUILDING_NODE_EXTENSION".split(" "),
    ...[join(runner, "include"), headers, runner].map((folder) => `-I${folder}`),
    ...["tfjs_backend.cc", "tfjs_binding.cc"].map((name) => join(runner, "binding", name)),
    ...["-o", target, "-s", "-Wl,--no-as-needed", `-L${library}`],
    ...libraryNames.map((name) => `-l:${name}`),
    // The place of the library's folder in the linked one.
    "-Wl,-rpath,$ORIGIN/../../deps/lib",
  ];
  try {
    await promisify(execFile)(compiler, args, {
      env: { ...plainEnvironment, PATH: process.env["PATH"] ?? plainEnvironment.PATH },
      timeout: compileTimeoutMs,
    });
  } catch (cause) {
    const { code, stderr = "" } = cause as { readonly code?: unknown; readonly stderr?: string };
    if (code === "ENOENT") throw noCompiler(compiler, cause);
    const errors = stderr.split("\n").filter((line) => /error|cannot find|undefined/i.test(line));
    throw notCompiled((errors[0] ?? messageOf(cause)).slice(0, 400));
  }
}

/** Takes a binding from elsewhere: the library must have what it needs. @throws BACKEND_UNAVAILABLE */
export async function takeBinding(
  files: Files,
  binding: string,
  { library, arch, target }: { readonly library: string; readonly arch: string; readonly target: string },
): Promise<void> {
  await withLibrary(files, binding, async (found) => {
    if (found.arch !== arch) throw otherArchitecture(binding, found.arch, arch);
    for (const name of found.needed)
      if (name.startsWith("libtensorflow") && (await files.stat(join(library, name))) === undefined)
        throw libraryNotFound(binding, name, library);
  });
  await copyFile(binding, target);
}
