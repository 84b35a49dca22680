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

/** Samples between two words of how far it is. */
const everySamples = 10;

parentPort?.once("message", (job: LevelJob) => {
  const say = (message: FromDecideThread): void => {
    parentPort?.postMessage(message);
  };
  decideLevel(job, (done, of) => {
    if (done % everySamples === 0 || done === of) say({ done, of });
  }).then(
    (answers) => {
      say({ answers });
    },
    (error: unknown) => {
      say({
        error:
          error instanceof StemmaError
            ? { code: error.code, message: error.message }
            : {
                code: undefined,
                message: error instanceof Error ? (error.stack ?? error.message) : String(error),
              },
      });
    },
  );
});
