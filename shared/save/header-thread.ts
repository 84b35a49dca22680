/** The thread that open-safetensors.ts starts: parses one header, then hands out its tensors in pieces. */
import { parseSafetensorsHeader, type SafetensorsEntry } from "../tensor/safetensors-header.js";
import { answerCalls } from "../threads/worker-calls.js";
import { arrangeHeader, type ArrangedHeader } from "./arrange-header.js";

export type HeaderCall =
  | { readonly bytes: Uint8Array; readonly dataBytes: number; readonly where: string }
  | { readonly from: number; readonly to: number };
/** The answer to the header's bytes; then tensors are asked for by their positions. */
export type HeaderAnswer =
  | (Omit<ArrangedHeader, "tensors"> & { readonly count: number })
  | { readonly tensors: readonly SafetensorsEntry[] };

let tensors: readonly SafetensorsEntry[] = [];

answerCalls<HeaderCall, HeaderAnswer>(
  (call) => {
    if ("from" in call) return { tensors: tensors.slice(call.from, call.to) };
    const { tensors: all, ...rest } = arrangeHeader(
      parseSafetensorsHeader(call.bytes, call.dataBytes, call.where),
    );
    tensors = all;
    return { ...rest, count: all.length };
  },
  () => [],
);
