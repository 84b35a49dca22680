/** The thread of tensor-coder.ts: one codec, calls answered in their order. */
import { parentPort } from "node:worker_threads";
import type { DeltaCodec } from "../../delta/codec.js";
import { loadDeltaCodec } from "../../delta/load.js";
import { isStemmaError } from "../../errors.js";
import { movable, type CoderAnswer, type CoderCall } from "./tensor-coder.js";

const codec = await loadDeltaCodec();

parentPort?.on("message", (call: CoderCall) => {
  let answer: CoderAnswer;
  try { answer = { result: perform(codec, call) }; } catch (error) {
    answer = isStemmaError(error) ? { code: error.code, message: error.message, details: error.details } : { code: "", message: error instanceof Error ? error.message : String(error), details: {} };
  }
  const bytes = "result" in answer ? (answer.result instanceof Uint8Array ? answer.result : "bytes" in answer.result && answer.result.bytes instanceof Uint8Array ? answer.result.bytes : undefined) : undefined;
  parentPort?.postMessage(answer, bytes === undefined ? [] : movable([bytes]));
});

function perform(by: DeltaCodec, call: CoderCall): Extract<CoderAnswer, { readonly result: unknown }>["result"] {
  switch (call.call) {
    case "encode": return by.encodeTensor(call.tensor, call.tensor.bytes, call.references, call.options);
    case "estimate": return by.estimate(call.tensor, call.tensor.bytes, call.references);
    case "decode": return by.decodeTensor(call.header, call, call.references, call.declaredBytes);
  }
}
