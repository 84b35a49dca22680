/** Errors of the native backend: a library that does not fit, a binding that cannot be made, a probe that failed. */
import { errorOf, StemmaError } from "../../shared/errors.js";

export const backendUnavailable = errorOf("BACKEND_UNAVAILABLE");

// The library.
export const noLibrary = (folder: string, names: readonly string[]): StemmaError =>
  backendUnavailable(
    `Neither ${folder} nor ${folder}/tensorflow has ${names.join(" and ")}. Name the folder of an installed TensorFlow: \`python3 -c "import tensorflow as t; print(t.__path__[0])"\` prints it.`,
    { folder },
  );
export const notElf = (path: string, problem: string): StemmaError =>
  backendUnavailable(
    `${path} is not a shared library that can be used: ${problem}. Install TensorFlow for Linux again.`,
    { path },
  );
export const otherArchitecture = (path: string, found: string, here: string): StemmaError =>
  backendUnavailable(`${path} is for ${found}, and this machine is ${here}. Take a TensorFlow for ${here}.`, {
    path,
    found,
  });
export const symbolsMissing = (folder: string, missing: readonly string[]): StemmaError =>
  backendUnavailable(
    `The TensorFlow in ${folder} lacks ${missing.length} functions that the binding calls: ${missing.slice(0, 5).join(", ")}${missing.length > 5 ? " …" : ""}. Take TensorFlow 2.12 or later.`,
    { folder, missing },
  );
export const otherVersion = (version: string): StemmaError =>
  backendUnavailable(
    `The library says that it is TensorFlow ${version}, and the binding is for 2.x from 2.12 on. Take such a release.`,
    { version },
  );
export const changeableByOthers = (path: string, problem: string): StemmaError =>
  backendUnavailable(
    `${path} ${problem}, so others could change what the agent runs. Correct its owner and rights (chown, chmod o-w), and link again.`,
    { path },
  );

// The binding.
export const noHeaders = (folder: string): StemmaError =>
  backendUnavailable(
    `The TensorFlow in ${folder} has no C headers (include/tensorflow/c/c_api.h), which the binding is compiled with. Take a complete wheel, or make the binding on a machine that has one and name it with --binding.`,
    { folder },
  );
export const noCompiler = (compiler: string, cause: unknown): StemmaError =>
  backendUnavailable(
    `There is no compiler "${compiler}" for C++17 (CXX names another one). Install one (apt install g++), or link on another machine of this architecture and bring its binding: --binding FILE.`,
    { cause },
  );
export const notCompiled = (output: string): StemmaError =>
  backendUnavailable(
    `The binding of @tensorflow/tfjs-node-gpu could not be compiled: ${output}. Take a compiler for C++17 and a complete TensorFlow wheel, or name a binding with --binding FILE.`,
  );
export const libraryNotFound = (binding: string, name: string, folder: string): StemmaError =>
  backendUnavailable(
    `The binding ${binding} needs ${name}, which ${folder} does not have. Make one for this library: link without --binding, with a compiler at hand.`,
    { name },
  );

// The linked folder.
export const notLinked = (): StemmaError =>
  backendUnavailable(
    "No libtensorflow is linked here. Link one: stemma agent backend link --libtensorflow DIR.",
  );
export const linkDamaged = (path: string, cause: unknown): StemmaError =>
  backendUnavailable(
    `What is linked cannot be read (${path}). Link it again: stemma agent backend link --libtensorflow DIR.`,
    { cause, path },
  );
export const isChanged = (what: string): StemmaError =>
  new StemmaError(
    "ENGINE_HASH_MISMATCH",
    `${what} is not what was linked. Nothing trains on it. Link it again, which gives it an exactness class of its own: stemma agent backend link --libtensorflow DIR.`,
    { what },
  );
export const otherBits = (recorded: string, actual: string): StemmaError =>
  new StemmaError(
    "MACHINE_INEXACT",
    `The linked library gives other bits than when it was linked: its reference training is ${actual.slice(0, 12)}, and was ${recorded.slice(0, 12)}. A driver or the processor changed, or runs do not agree. Link it again.`,
    { recorded, actual },
  );

// The probe.
export const outOfTolerance = (operation: string, error: number, tolerance: number): StemmaError =>
  backendUnavailable(
    `The library computes something else than TensorFlow.js: ${operation} differs by ${error.toExponential(1)} of its largest number, and ${tolerance} is allowed. Take another release of TensorFlow, or of the driver.`,
    { operation, error },
  );
export const onlyLinux = (platform: string): StemmaError =>
  backendUnavailable(`A libtensorflow can be linked on Linux only, and this is ${platform}. Train on wasm.`);
export const runnerMissing = (folder: string, cause: unknown): StemmaError =>
  backendUnavailable(
    `The native runner in ${folder} is missing or incomplete. Install the agent again, or build it with \`npm run build\`.`,
    { cause },
  );
