/** Plans in a thread of its own, so that who serves goes on; hands the graph over in pieces. */
import { Worker } from "node:worker_threads";
import { isErrorCode, StemmaError } from "../../shared/errors.js";
import type { StorageGraphInput } from "../planner/storage-graph.js";
import type { PlanResult, PlanRequest } from "./make-plan.js";
import type { FromPlanWorker, ToPlanWorker } from "./plan-worker.js";

const edgesPerMessage = 4000;

/** @throws BUDGET_UNREACHABLE, STORAGE_GRAPH_INVALID, the signal's reason */
export async function planInWorker(
  { vertices, edges, snapshots }: StorageGraphInput,
  question: PlanRequest,
  {
    signal,
    onProgress,
  }: { readonly signal?: AbortSignal; readonly onProgress?: (line: string) => void } = {},
): Promise<PlanResult> {
  signal?.throwIfAborted();
  const worker = new Worker(new URL("plan-worker.js", import.meta.url));
  const answered = new Promise<PlanResult>((resolve, reject) => {
    worker.on("message", (message: FromPlanWorker) => {
      if ("progress" in message) onProgress?.(message.progress);
      else if ("answer" in message) resolve(message.answer);
      else reject(errorOf(message.error));
    });
    worker.on("error", reject);
    worker.on("exit", () => {
      reject(
        new StemmaError(
          "INTERNAL",
          "The thread that plans the storage ended without a plan. Plan again, with a shorter time or fewer versions if memory is short.",
        ),
      );
    });
    signal?.addEventListener(
      "abort",
      () => {
        reject(signal.reason as Error);
      },
      { once: true },
    );
  });
  answered.catch(() => undefined);
  const say = (message: ToPlanWorker): void => {
    worker.postMessage(message);
  };
  try {
    for (let at = 0; at < edges.length && signal?.aborted !== true; at += edgesPerMessage) {
      say({ edges: edges.slice(at, at + edgesPerMessage) });
      await new Promise(setImmediate);
    }
    say({ vertices, snapshots, question });
    return await answered;
  } finally {
    await worker.terminate();
  }
}

function errorOf({ code, message, details }: Extract<FromPlanWorker, { error: unknown }>["error"]): Error {
  return code !== undefined && isErrorCode(code)
    ? new StemmaError(code, message, details)
    : new Error(message);
}
