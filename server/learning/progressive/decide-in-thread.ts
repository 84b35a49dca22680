/** Decides each level in a worker thread, so that the server's main thread stays responsive. */
import { Worker } from "node:worker_threads";
import { isErrorCode, isStemmaError, StemmaError } from "../../../shared/errors.js";
import type { DecideLevel, LevelAnswers } from "./decide-level.js";
import type { DecideThreadMessage } from "./decide-thread.js";
import { evaluationStopped, threadEnded } from "./progressive-errors.js";

/**
 * Returns a port that decides levels in a worker thread until the signal aborts.
 *
 * @throws INTERRUPTED when the signal aborts
 */
export function decideInThread(signal?: AbortSignal): DecideLevel {
  return async (job, onSample) => {
    if (signal?.aborted === true) throw interruption(signal);
    const worker = new Worker(new URL("decide-thread.js", import.meta.url));
    const finished = new AbortController();
    try {
      return await new Promise<LevelAnswers>((resolve, reject) => {
        worker.on("message", (message: DecideThreadMessage) => {
          if ("answers" in message) resolve(message.answers);
          else if ("done" in message) void onSample?.(message.done, message.of);
          else
            reject(
              message.error.code !== undefined && isErrorCode(message.error.code)
                ? new StemmaError(message.error.code, message.error.message)
                : new Error(message.error.message),
            );
        });
        worker.on("error", reject);
        worker.on("exit", () => {
          reject(threadEnded());
        });
        signal?.addEventListener(
          "abort",
          () => {
            reject(interruption(signal));
          },
          { once: true, signal: finished.signal },
        );
        worker.postMessage(job);
      });
    } finally {
      finished.abort();
      await worker.terminate();
    }
  };
}

function interruption({ reason }: AbortSignal): StemmaError {
  return isStemmaError(reason) ? reason : evaluationStopped(reason);
}
