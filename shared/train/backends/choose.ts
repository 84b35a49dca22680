/**
 * Chooses the backend that trains on a device, with the reason. A pure function.
 */
import type { BackendChoice, BackendName } from "../training.js";

interface BackendFacts {
  /** The backend that the device's profile asks for; any when absent. */
  readonly preferred?: BackendName | undefined;
  /** Folder of the libtensorflow that the native backend is linked to; absent when it is not linked. */
  readonly linkedLibrary?: string;
}

/** Always wasm for now: the native backend cannot train yet. The reason is written for the log's reader. */
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
