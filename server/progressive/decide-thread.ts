/**
 * The thread in which a level is decided: bounds of many samples are computed for seconds without a pause.
 * One level, then it ends.
 */
import { parentPort } from "node:worker_threads";
import { StemmaError } from "../../shared/errors.js";
import { decideLevel, type LevelAnswers, type LevelJob } from "./decide-level.js";

export type FromDecideThread =
  | { readonly answers: LevelAnswers }
  | { readonly done: number; readonly of: number }
  | { readonly error: { readonly code: string | undefined; readonly message: string } };

/** Samples between two progress messages. */
const samplesPerProgress = 10;

parentPort?.once("message", (job: LevelJob) => {
  const post = (message: FromDecideThread): void => {
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
                message: error instanceof Error ? (error.stack ?? error.message) : String(error),
              },
      });
    },
  );
});
