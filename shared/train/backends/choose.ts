/**
 * Which backend trains, and why not the other. A pure function of what is known about a device; knows
 * no backend.
 */
import type { BackendChoice, BackendName } from "../training.js";

export interface BackendFacts {
  /** What the device's profile asks for; absent: whatever trains here. */
  readonly preferred?: BackendName;
  /** Folder of a libtensorflow that the native backend was linked to, when it was. */
  readonly linkedLibrary?: string;
}

/**
 * Today always wasm: the native backend cannot be linked yet. The reason is for the person who reads the log.
 */
export function chooseBackend({ preferred, linkedLibrary }: BackendFacts): BackendChoice {
  if (preferred === "wasm") return { backend: "wasm", reason: "the profile asks for wasm" };
  const why =
    linkedLibrary === undefined
      ? "@tensorflow/tfjs-node-gpu is installed but not linked to a libtensorflow"
      : `a libtensorflow is at ${linkedLibrary}, but this version of Stemma cannot train on it yet`;
  return {
    backend: "wasm",
    reason: `${preferred === "native" ? "the profile asks for native, but " : ""}${why}`,
  };
}
