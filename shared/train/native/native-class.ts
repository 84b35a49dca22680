/**
 * The exactness class of a linked libtensorflow: everything that must match for two machines to give the same bits, as
 * far as was measured. It is in the runner's engine.json, so the id that trainings report covers it. Pure.
 */
import { sha256 } from "../../tensor/hash.js";
import type { Hash } from "../../tensor/tensor.js";

/** The reference training of a machine whose runs disagree: nothing can be compared with it. */
export const runsDisagree = "differs from run to run";

export interface NativeClass {
  /** The version that the library states. */
  readonly tensorflow: string;
  /** Hash of both library files. */
  readonly library: Hash;
  readonly arch: string;
  /** The processor's instructions by which the library chooses its code. */
  readonly instructionSet: string;
  readonly threads: number;
  readonly oneDnn: string;
  readonly deterministicOps: string;
  readonly gpu?: string | undefined;
  readonly driver?: string | undefined;
  readonly cuda?: string | undefined;
  readonly cudnn?: string | undefined;
  /** Root of the reference training (../known-answer.ts), or `runsDisagree`. */
  readonly referenceTraining: string;
}

/** The file engine.json beside a linked runner. */
export interface RunnerManifest {
  /** The form of jobs that it reads. */
  readonly job: number;
  /** The reference training, which `../engine/main.ts` compares before it works. */
  readonly knownAnswer: string;
  readonly class: NativeClass;
}

/** The settings of TensorFlow's environment under which every native training runs. */
export function nativeVariables(threads: number): Readonly<Record<string, string>> {
  return {
    TF_NUM_INTRAOP_THREADS: String(threads),
    TF_NUM_INTEROP_THREADS: "1",
    OMP_NUM_THREADS: String(threads),
    TF_ENABLE_ONEDNN_OPTS: "1",
    // Nothing is chosen by timing, and no kernel that adds up in another order each time.
    TF_DETERMINISTIC_OPS: "1",
    TF_CUDNN_DETERMINISTIC: "1",
    TF_CUDNN_USE_AUTOTUNE: "0",
    CUBLAS_WORKSPACE_CONFIG: ":4096:8",
    // Products of 10 bits would miss the tolerance of the probe.
    NVIDIA_TF32_OVERRIDE: "0",
    // Else it takes all of a GPU's memory at its start.
    TF_FORCE_GPU_ALLOW_GROWTH: "true",
    TF_CPP_MIN_LOG_LEVEL: "1",
  };
}

/** Place of the binding in a linked folder: where @tensorflow/tfjs-node-gpu has it, as its run path expects. */
export const bindingPath = "lib/napi-v8/tfjs_binding.node";

/** The files that decide what a runner computes. The binding passes calls on and decides nothing. */
export const runnerFiles = ["engine.json", "engine.mjs"] as const;

/** The id that trainings with a runner report, where those of the engine report the engine's. */
export function runnerId(files: readonly { readonly name: string; readonly bytes: Uint8Array }[]): Hash {
  const lines = files.map(({ name, bytes }) => `${name}\0${sha256(bytes)}\n`).sort();
  return sha256("stemma-native-1\0", ...lines);
}
