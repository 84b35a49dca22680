/** Decides levels in a thread of their own, so that who serves goes on. */
import { Worker } from "node:worker_threads";
import { isErrorCode, isStemmaError, StemmaError } from "../../shared/errors.js";
import type { DecideLevel, LevelAnswers } from "./decide-level.js";
import type { FromDecideThread } from "./decide-thread.js";

/** @returns a port whose work ends with the signal. @throws INTERRUPTED then */
export function decideInThread(signal?: AbortSignal): DecideLevel {
  return async (job, onSample) => {
    if (signal?.aborted === true) throw stopped(signal);
    const worker = new Worker(new URL("decide-thread.js", import.meta.url));
    const onAbort = new AbortController();
    try {
      return await new Promise<LevelAnswers>((resolve, reject) => {
        worker.on("message", (message: FromDecideThread) => {
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
          reject(
            new StemmaError(
              "INTERNAL",
              "The thread that evaluates over bounds ended without an answer. Try fewer samples (--limit) if memory is short.",
            ),
          );
        });
        signal?.addEventListener(
          "abort",
          () => {
            reject(stopped(signal));
          },
          { once: true, signal: onAbort.signal },
        );
        worker.postMessage(job);
      });
    } finally {
      onAbort.abort();
      await worker.terminate();
    }
  };
}

function stopped({ reason }: AbortSignal): StemmaError {
  return isStemmaError(reason)
    ? reason
    : new StemmaError(
        "INTERRUPTED",
        "The evaluation was stopped. Nothing was saved; start it again when it may run.",
        { cause: reason },
      );
}
