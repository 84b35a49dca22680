/** Facts as JSON text: the journal's default codec. */
import type { FactCodec } from "./journal.js";

const decoder = new TextDecoder("utf-8", { fatal: true });
const encoder = new TextEncoder();

/** For facts that are plain JSON (without undefined, NaN or Infinity). */
export function jsonCodec<F>(): FactCodec<F> {
  return {
    encode: (fact) => encoder.encode(JSON.stringify(fact)),
    decode: (bytes) => JSON.parse(decoder.decode(bytes)) as F,
  };
}
