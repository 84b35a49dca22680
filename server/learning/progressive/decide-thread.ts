/**
 * The worker thread that decides one level and ends. The bounds of many samples take seconds to compute,
 * during which a thread does nothing else.
 */
import { parentPort } from "node:worker_threads";
import { stackOf } from "../../../shared/error-text.js";
import { StemmaError } from "../../../shared/errors.js";
import { decideLevel, type LevelAnswers, type LevelJob } from "./decide-level.js";

export type DecideThreadMessage =
  | { readonly answers: LevelAnswers }
  | { readonly done: number; readonly of: number }
  | { readonly error: { readonly code: string | undefined; readonly message: string } };

/** Samples between two progress messages. */
const samplesPerProgress = 10;

parentPort?.once("message", (job: LevelJob) => {
  const post = (message: DecideThreadMessage): void => {
    parentPort?.postMessage(message);
  };
  decideLevel(job, (done, of) => {
    if (done % samplesPerProgress === 0 || done === of) post({ done, of });
  }).then(
    (answers) => {
      post({ answers });
    },
    (error: unknown) => {
      post({
        error:
          error instanceof StemmaError
            ? { code: String(error.code), message: error.message }
            : {
                code: undefined,
                message: stackOf(error),
              },
      });
    },
  );
});
