/** The script of the threads that decoding-threads.ts starts. */
import { answerCalls } from "../../threads/worker-calls.js";
import { decodeSteps, type DecodedSteps, type DecodingJob } from "./decode-steps.js";
import { tensorDecoder } from "./tensor-decoder.js";

const decoder = await tensorDecoder();

answerCalls<DecodingJob, DecodedSteps>(
  (job) => decodeSteps(decoder, job),
  ({ bytes }) => [...bytes.values()],
);
