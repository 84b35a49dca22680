/** Facts as JSON text: what the journal uses unless told otherwise. */
import type { FactCodec } from "./journal.js";

const decoder = new TextDecoder("utf-8", { fatal: true });
const encoder = new TextEncoder();

/** `decode(encode(fact))` gives back every fact that is plain JSON (no undefined, NaN or Infinity in it). */
export function jsonCodec<F>(): FactCodec<F> {
  return {
    encode: (fact) => encoder.encode(JSON.stringify(fact)),
    decode: (bytes) => JSON.parse(decoder.decode(bytes)) as F,
  };
}
