/**
 * Decodes tensors that are coded against each other, from bytes in memory. Pure; runs in a thread or without
 * one.
 */
import { encodingCodes } from "../../delta/encoded.js";
import type { Links } from "../../delta/links.js";
import type { Hash, Tensor, TensorHeader } from "../../tensor/tensor.js";
import { StemmaError } from "../../errors.js";
import { rawEncodingCode } from "../pack-entry.js";
import type { TensorDecoder } from "./tensor-decoder.js";

/** One tensor to decode: its stored bytes, and what they are coded against. */
export interface DecodingStep extends Links<Hash> {
  readonly id: Hash;
  readonly header: TensorHeader;
  readonly code: number;
  readonly byteLength: number;
  readonly stored: Uint8Array;
  /** Tensors that no later step needs. */
  readonly lastUseOf: readonly Hash[];
}

export interface DecodingJob {
  /** The steps in order: the tensors that a step needs are in earlier steps or in `references`. */
  readonly steps: readonly DecodingStep[];
  readonly references: ReadonlyMap<Hash, Tensor>;
  /** The tensors whose bytes are returned. */
  readonly wanted: ReadonlySet<Hash>;
  /** True if stored bytes that fill their buffer may be moved to a thread instead of copied. */
  readonly canMoveStored: boolean;
}

export interface DecodedSteps {
  readonly bytes: ReadonlyMap<Hash, Uint8Array>;
  /** A tensor whose stored bytes were not written by any codec; nothing after it was decoded. */
  readonly malformed?: Hash;
}

/** Raw tensors are returned as they are stored, not copied. @throws PACK_FORMAT_UNKNOWN naming the tensor */
export function decodeSteps(
  decoder: TensorDecoder,
  { steps, references, wanted }: Omit<DecodingJob, "canMoveStored">,
): DecodedSteps {
  const held = new Map(references);
  const bytes = new Map<Hash, Uint8Array>();
  for (const step of steps) {
    const decoded = decodeStep(decoder, step, held);
    if (decoded === undefined) return { bytes, malformed: step.id };
    for (const done of step.lastUseOf) held.delete(done);
    held.set(step.id, { ...step.header, bytes: decoded });
    if (wanted.has(step.id)) bytes.set(step.id, decoded);
  }
  return { bytes };
}

function decodeStep(
  decoder: TensorDecoder,
  { id, header, code, byteLength, stored, base, previous, others }: DecodingStep,
  held: ReadonlyMap<Hash, Tensor>,
): Uint8Array | undefined {
  if (code === rawEncodingCode) return stored.length === byteLength ? stored : undefined;
  const references = {
    base: base === undefined ? undefined : held.get(base),
    previous: previous === undefined ? undefined : held.get(previous),
    ...(others === undefined ? {} : { others: heldOthers(others, held) }),
  };
  try {
    return decoder.decode(header, { code, bytes: stored }, references, byteLength);
  } catch (error) {
    if (error instanceof StemmaError && error.code === "PACK_FORMAT_UNKNOWN")
      throw new StemmaError("PACK_FORMAT_UNKNOWN", `The tensor ${id} cannot be read: ${error.message}`, {
        id,
        cause: error,
      });
    return undefined;
  }
}

/** Returns the other references; undefined where one is missing, since the order of the others counts. */
function heldOthers(ids: readonly Hash[], held: ReadonlyMap<Hash, Tensor>): readonly Tensor[] | undefined {
  const others = ids.map((id) => held.get(id));
  return others.includes(undefined) ? undefined : (others as readonly Tensor[]);
}

/** The time of a byte in mixed bits as a multiple of other encodings', roughly. */
const mixedWeight = 128;

/** Bytes that codecs have to write for a job, those in mixed bits by their weight, as a measure of its cost. */
export function codedBytesOf({ steps }: DecodingJob): number {
  return steps.reduce((sum, { code, byteLength }) => {
    if (code === rawEncodingCode) return sum;
    return sum + (code === encodingCodes.mixed ? mixedWeight * byteLength : byteLength);
  }, 0);
}
