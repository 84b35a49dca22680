/**
 * Splits a retrieval into runs. A run is the list of steps of one decoding job, small enough to be held in
 * memory. Pure.
 */
import { linksOf } from "../delta/links.js";
import type { RetrievalStep } from "./chains.js";
import type { DecodingStep } from "./decoding/decode-steps.js";
import { rawEncodingCode } from "./pack-entry.js";
import type { TensorEntry } from "./stored-tensors.js";

export type Run = readonly RetrievalStep<TensorEntry>[];

/** Stored and decoded bytes that one job may hold at a time. A larger tensor gets a job of its own. */
const maxRunBytes = 64 * 1024 * 1024;
/** The first job is short: the bytes for the next one are read while it runs. */
const firstRunBytes = 4 * 1024 * 1024;

export function runsOf(steps: Run): readonly Run[] {
  const runs: Run[] = [];
  for (let from = 0, to = 0; from < steps.length; from = to) {
    const limit = runs.length === 0 ? firstRunBytes : maxRunBytes;
    for (let bytes = 0; to < steps.length && bytes < limit; to++) {
      const { encodingCode, storedBytes, byteLength } = (steps[to] as Run[number]).entry;
      // A raw tensor is needed by the next step anyway.
      if (encodingCode !== rawEncodingCode) bytes += storedBytes + byteLength;
    }
    runs.push(steps.slice(from, to));
  }
  return runs;
}

export function decodingStepOf({ id, entry, lastUseOf }: Run[number], stored: Uint8Array): DecodingStep {
  const { header, encodingCode: code, byteLength } = entry;
  return { id, header, code, byteLength, stored, lastUseOf, ...linksOf(entry) };
}
