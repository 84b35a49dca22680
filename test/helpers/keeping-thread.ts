/** The script of a thread that keeps the bytes of its last call, and answers how many are left of those before. */
import { answerCalls } from "../../shared/threads/worker-calls.js";

let last: Uint8Array | undefined;
answerCalls<{ readonly bytes: Uint8Array; readonly isReturned: boolean }, number | Uint8Array>(
  ({ bytes, isReturned }) => {
    const left = last?.byteLength ?? 0;
    last = bytes;
    return isReturned ? bytes : left;
  },
  (result) => (typeof result === "number" ? [] : [result]),
);
