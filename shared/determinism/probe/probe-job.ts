/** A probe as data: what its process is told in job.json, and the names of what it leaves. */
import type { Hash } from "../../tensor/tensor.js";

export const probeBackends = ["wasm", "cpu", "native"] as const;
export type ProbeBackend = (typeof probeBackends)[number];
/** Numbers of threads for which the kernels cut their work. */
export const probeThreads = [1, 2, 4] as const;

/** The job. Paths are absolute. */
export interface ProbeJob {
  /** Folder of architecture.json and, where the weights are a model's own, model.safetensors. */
  readonly model: string;
  readonly weights: "own" | "drawn";
  readonly seed: string;
  readonly batch: number;
  readonly size: number;
  readonly backend: ProbeBackend;
  /** Number of threads; absent: 1, or as many as the libtensorflow was linked for. */
  readonly threads?: number | undefined;
  readonly memoryLimitMb: number;
  /** Folder of the engine, whose kernels run. */
  readonly engine: string;
  readonly engineId: Hash;
  /** Folder of a linked libtensorflow, for the backend native. */
  readonly linked?: string | undefined;
  /** True to write every tensor beside the summary. */
  readonly tensors: boolean;
}

export const summaryFile = "probe.json";
export const tensorsFile = "probe.safetensors";
