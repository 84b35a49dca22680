/** The script of the thread that tensor-coder.ts starts: one codec, calls answered in order. */
import { loadDeltaCodec } from "../../delta/load.js";
import { answerCalls } from "../../threads/worker-calls.js";
import type { CoderCall, CoderResult } from "./tensor-coder.js";

const codec = await loadDeltaCodec();

answerCalls<CoderCall, CoderResult>(
  (call) => {
    switch (call.call) {
      case "encode":
        return codec.encodeTensor(call.tensor, call.tensor.bytes, call.references, call.options);
      case "estimate":
        return codec.estimate(call.tensor, call.tensor.bytes, call.references);
      case "decode":
        return codec.decodeTensor(call.header, call, call.references, call.declaredBytes);
    }
  },
  (result) =>
    result instanceof Uint8Array
      ? [result]
      : "bytes" in result && result.bytes instanceof Uint8Array
        ? [result.bytes]
        : [],
);
