/**
 * Decodes tensors that are coded one against the other, from bytes in memory. Pure; runs in a thread or
 * without one.
 */
import type { Hash, Tensor, TensorHeader } from "../../tensor/tensor.js";
import { StemmaError } from "../../errors.js";
import { rawEncodingCode } from "../pack-format.js";
import type { TensorDecoder } from "./tensor-decoder.js";

/** One tensor: its stored bytes, and what they are coded against. */
export interface DecodingStep {
  readonly id: Hash;
  readonly header: TensorHeader;
  readonly code: number;
  readonly byteLength: number;
  readonly stored: Uint8Array;
  readonly base?: Hash;
  readonly previous?: Hash;
  /** Tensors that no later step needs. */
  readonly lastUseOf: readonly Hash[];
}

export interface DecodingJob {
  /** In their order: what one is coded against is among those before it, or among the references. */
  readonly steps: readonly DecodingStep[];
  readonly references: ReadonlyMap<Hash, Tensor>;
  /** Whose bytes are handed out. */
  readonly wanted: ReadonlySet<Hash>;
  /** Stored bytes that are a whole buffer may be moved away. */
  readonly isStoredGiven: boolean;
}

/** `malformed`: a tensor whose stored bytes are none that a codec wrote; nothing after it was decoded. */
export interface DecodedSteps {
  readonly bytes: ReadonlyMap<Hash, Uint8Array>;
  readonly malformed?: Hash;
}

/** What is raw is handed out as it is stored, not copied. @throws PACK_FORMAT_UNKNOWN naming the tensor */
export function decodeSteps(
  decoder: TensorDecoder,
  { steps, references, wanted }: Omit<DecodingJob, "isStoredGiven">,
): DecodedSteps {
  const held = new Map(references),
    bytes = new Map<Hash, Uint8Array>();
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
  { id, header, code, byteLength, stored, base, previous }: DecodingStep,
  held: ReadonlyMap<Hash, Tensor>,
): Uint8Array | undefined {
  if (code === rawEncodingCode) return stored.length === byteLength ? stored : undefined;
  const from = base === undefined ? undefined : held.get(base),
    before = previous === undefined ? undefined : held.get(previous);
  try {
    return decoder.decode(
      header,
      code,
      stored,
      { ...(from && { base: from }), ...(before && { previous: before }) },
      byteLength,
    );
  } catch (error) {
    if (error instanceof StemmaError && error.code === "PACK_FORMAT_UNKNOWN")
      throw new StemmaError("PACK_FORMAT_UNKNOWN", `The tensor ${id} cannot be read: ${error.message}`, {
        id,
        cause: error,
      });
    return undefined;
  }
}

/** Bytes that come out of a codec: what a job costs. */
export function codedBytesOf({ steps }: DecodingJob): number {
  return steps.reduce((sum, { code, byteLength }) => sum + (code === rawEncodingCode ? 0 : byteLength), 0);
}
