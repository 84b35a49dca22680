/** Runs the planner in a worker thread, so that the server is not blocked. Sends the graph to it in parts. */
import { Worker } from "node:worker_threads";
import { isErrorCode, StemmaError } from "../../../shared/errors.js";
import type { StorageGraphInput } from "../planner/storage-graph.js";
import type { PlanResult, PlanRequest } from "./make-plan.js";
import { numberSnapshots } from "./numbered-snapshots.js";
import type { FromPlanWorker, ToPlanWorker } from "./plan-worker.js";

const edgesPerMessage = 4000;

/** @throws BUDGET_UNREACHABLE, STORAGE_GRAPH_INVALID, the signal's reason */
export async function planInWorker(
  { vertices, edges, snapshots }: StorageGraphInput,
  request: PlanRequest,
  {
    signal,
    onProgress,
  }: { readonly signal?: AbortSignal; readonly onProgress?: (line: string) => void } = {},
): Promise<PlanResult> {
  signal?.throwIfAborted();
  const worker = new Worker(new URL("plan-worker.js", import.meta.url));
  let stop = (): void => undefined;
  const result = new Promise<PlanResult>((resolve, reject) => {
    worker.on("message", (message: FromPlanWorker) => {
      if ("progress" in message) onProgress?.(message.progress);
      else if ("result" in message) resolve(message.result);
      else reject(errorOf(message.error));
    });
    worker.on("error", reject);
    worker.on("exit", () => {
      reject(
        new StemmaError(
          "INTERNAL",
          "The planning thread ended without a plan. Plan again; if memory is short, with a shorter time or fewer versions.",
        ),
      );
    });
    stop = () => {
      reject(signal?.reason as Error);
    };
    signal?.addEventListener("abort", stop, { once: true });
  });
  result.catch(() => undefined);
  const send = (message: ToPlanWorker): void => {
    worker.postMessage(message);
  };
  try {
    for (let start = 0; start < edges.length && signal?.aborted !== true; start += edgesPerMessage) {
      send({ edges: edges.slice(start, start + edgesPerMessage) });
      await new Promise(setImmediate);
    }
    send({ vertices, snapshots: numberSnapshots(vertices, snapshots), request });
    return await result;
  } finally {
    // The signal may be that of many plans.
    signal?.removeEventListener("abort", stop);
    await worker.terminate();
  }
}

function errorOf({ code, message, details }: Extract<FromPlanWorker, { error: unknown }>["error"]): Error {
  return code !== undefined && isErrorCode(code)
    ? new StemmaError(code, message, details)
    : new Error(message);
}
