/**
 * Says what is known of the native backend on this machine, for people who read why wasm trains. This release cannot
 * train on it, whatever is installed.
 */
import { existsSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import type { BackendName } from "../training.js";

const packageName = "@tensorflow/tfjs-node-gpu";
const trains = "this release trains on wasm alone";

/** Says what was looked at, and what was found there. */
function lookForNativeBackend(): string {
  let folder: string;
  try {
    folder = dirname(createRequire(import.meta.url).resolve(`${packageName}/package.json`));
  } catch {
    return `${packageName} is not installed`;
  }
  // Where the package's own installation puts it, which is off here (docs/adr/0008-install-scripts-off.md).
  const library = join(folder, "deps/lib");
  return existsSync(library)
    ? `${packageName} has a libtensorflow in ${library}`
    : `${packageName} is installed without a libtensorflow (its deps/lib is missing)`;
}

/** The backend that trains on this machine, and why. @param preferred what the device's profile asks for */
export function describeTrainingBackend(preferred?: BackendName): string {
  if (preferred === "wasm") return "wasm: the profile asks for wasm";
  const asked = preferred === "native" ? "the profile asks for native, but " : "";
  return `wasm: ${asked}${trains}; ${lookForNativeBackend()}`;
}
