/**
 * Encodes the tensors of a stream one after the other, so that only one and what it is coded against are in
 * memory. The same tensors, references and codec give the same stream, so a transfer can resume after the
 * sender has restarted. A tensor that would not get shorter is sent raw from the store.
 */
import { encodingCodes } from "../../delta/encoded.js";
import { StemmaError } from "../../errors.js";
import type { ObjectReader } from "../../objects/object-store.js";
import { tensorOfSource, type Hash, type Tensor } from "../../tensor/tensor.js";
import { maxWireCodedTensorBytes } from "../limits.js";
import type { Encoding } from "../messages.js";
import type { StreamObject } from "../transfer/stream.js";
import type { CodingSpool } from "./coding-spool.js";
import type { TensorReferences } from "./references.js";
import type { TensorCoder } from "./tensor-coder.js";

export interface CodingWork {
  /** The stream's tensors in their order. */
  readonly tensors: readonly Hash[];
  readonly references: ReadonlyMap<Hash, TensorReferences>;
  readonly objects: Pick<ObjectReader, "has" | "stat" | "openTensor">;
  readonly coder: TensorCoder;
  /** Larger tensors are sent raw; never more than the protocol allows. */
  readonly maxTensorBytes: number;
  /** Whether to look for low-rank predictions, which takes longer and saves more bytes. */
  readonly lowRank: boolean;
  readonly signal?: AbortSignal | undefined;
}

export interface CodedStream {
  readonly objects: readonly StreamObject[];
  readonly encodings: readonly Encoding[];
  readonly byteLength: number;
}

/**
 * @throws OBJECT_MISSING for a missing tensor; INTERRUPTED after the signal; DISK_FULL; what the coder throws
 */
export async function codeStream(work: CodingWork, spool: CodingSpool): Promise<CodedStream> {
  const objects: StreamObject[] = [];
  const encodings: Encoding[] = [];
  let byteLength = 0;
  for (const tensor of work.tensors) {
    if (work.signal?.aborted === true)
      throw new StemmaError("INTERRUPTED", "The transfer ended while its tensors were being encoded.");
    const { object, encoding } = await codeTensor(work, tensor, spool);
    objects.push(object);
    encodings.push(encoding);
    byteLength += encoding.byteLength;
  }
  return { objects, encodings, byteLength };
}

async function codeTensor(
  work: CodingWork,
  id: Hash,
  spool: CodingSpool,
): Promise<{ readonly object: StreamObject; readonly encoding: Encoding }> {
  // Not verified here: the receiver hashes what it gets.
  const source = work.objects.openTensor(id, { verify: false });
  const raw = { object: source, encoding: { code: encodingCodes.raw, byteLength: source.byteLength } };
  if (!mayBeCoded(work, source.byteLength)) return raw;
  const found = work.references.get(id) ?? {};
  const base = await readReference(work, found.base);
  const previous = base === undefined ? undefined : await readReference(work, found.previous);
  const { lowRank } = work;
  const { code, bytes, against } = await work.coder.encode(
    await tensorOfSource(source),
    { base, previous },
    { lowRank, general: lowRank },
  );
  if (code === encodingCodes.raw) return raw;
  const encoding = {
    code,
    byteLength: bytes.length,
    ...(against.base && { against: found.base }),
    ...(against.previous && { previous: found.previous }),
  };
  return { object: await spool.append(bytes), encoding };
}

function mayBeCoded({ maxTensorBytes }: CodingWork, byteLength: number): boolean {
  return byteLength > 0 && byteLength <= Math.min(maxTensorBytes, maxWireCodedTensorBytes);
}

/**
 * A verified tensor to code against. Undefined where it is missing or too large.
 */
async function readReference(work: CodingWork, id: Hash | undefined): Promise<Tensor | undefined> {
  const byteLength = id === undefined ? undefined : work.objects.stat(id)?.byteLength;
  if (id === undefined || byteLength === undefined || !mayBeCoded(work, byteLength)) return undefined;
  return await tensorOfSource(work.objects.openTensor(id));
}

/**
 * Estimates the length of the coded stream from samples of its largest tensors, because reading all of a
 * large model would cost as much as encoding it.
 * @param maxSampleBytes raw bytes to read at most
 */
export async function estimateStream(
  work: CodingWork,
  maxSampleBytes = 32 * 1024 * 1024,
): Promise<{ readonly rawBytes: number; readonly codedBytes: number }> {
  const sizes = work.tensors
    .map((id) => ({ id, byteLength: work.objects.stat(id)?.byteLength ?? 0 }))
    .sort((a, b) => b.byteLength - a.byteLength);
  let seen = 0;
  let coded = 0;
  const rawBytes = sizes.reduce((sum, { byteLength }) => sum + byteLength, 0);
  for (const { id, byteLength } of sizes) {
    if (seen > 0 && seen + byteLength > maxSampleBytes) continue;
    seen += byteLength;
    coded += mayBeCoded(work, byteLength) ? await estimateTensor(work, id, byteLength) : byteLength;
  }
  return { rawBytes, codedBytes: seen === 0 ? rawBytes : Math.ceil((coded / seen) * rawBytes) };
}

async function estimateTensor(work: CodingWork, id: Hash, byteLength: number): Promise<number> {
  const found = work.references.get(id) ?? {};
  const base = await readReference(work, found.base);
  const previous = base === undefined ? undefined : await readReference(work, found.previous);
  const { bytes } = await work.coder.estimate(
    await tensorOfSource(work.objects.openTensor(id, { verify: false })),
    { base, previous },
  );
  return Math.min(bytes, byteLength);
}
