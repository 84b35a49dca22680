/**
 * Encodes the tensors of a stream one after the other, so that only one and what it is coded against are in
 * memory. The same tensors, references and codec give the same stream, so a transfer can resume after the
 * sender has restarted. A tensor that would not get shorter is sent raw from the store.
 */
import { encodingCodes, type References } from "../../delta/encoded.js";
import { linksTo, listReferences, maxReferences, neededLinks, type Links } from "../../delta/links.js";
import { StemmaError } from "../../errors.js";
import type { ObjectReader } from "../../objects/object-store.js";
import { readStoredTensor } from "../../objects/tensor-stream.js";
import type { Hash, Tensor } from "../../tensor/tensor.js";
import { encodingReferences } from "../encoding-links.js";
import {
  encodingsPerManifestPart,
  maxWireCodedTensorBytes,
  maxWireMixedBytes,
  otherReferencesPerManifestPart,
} from "../limits.js";
import type { Encoding } from "../messages.js";
import type { StreamObject } from "../transfer/stream.js";
import type { CodingSpool } from "./coding-spool.js";
import { encodeOptionsOf } from "./encodings.js";
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
  /** Newest format of tensor coding to write (encodings.ts): later ones take longer and save more bytes. */
  readonly format: number;
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
  let others = 0;
  let mixedBytes = 0;
  const referenced = new Set([...work.references.values()].flatMap((links) => listReferences(links)));
  for (const tensor of work.tensors) {
    if (work.signal?.aborted === true)
      throw new StemmaError("INTERRUPTED", "The transfer ended while its tensors were being encoded.");
    if (encodings.length % encodingsPerManifestPart === 0) others = 0;
    const maxOthers = otherReferencesPerManifestPart - others;
    const rawBytes = work.objects.stat(tensor)?.byteLength ?? 0;
    // The receiver checks the same (MixedTensors).
    const mayBeMixed = mixedBytes + rawBytes <= maxWireMixedBytes && !referenced.has(tensor);
    const { object, encoding } = await codeTensor(work, { tensor, maxOthers, mayBeMixed }, spool);
    if (encoding.code === encodingCodes.mixed) mixedBytes += rawBytes;
    others += encoding.references?.length ?? 0;
    objects.push(object);
    encodings.push(encoding);
    byteLength += encoding.byteLength;
  }
  return { objects, encodings, byteLength };
}

interface TensorToCode {
  readonly tensor: Hash;
  /** References beyond two that may still be named. */
  readonly maxOthers: number;
  readonly mayBeMixed: boolean;
}

async function codeTensor(
  work: CodingWork,
  { tensor: id, maxOthers, mayBeMixed }: TensorToCode,
  spool: CodingSpool,
): Promise<{ readonly object: StreamObject; readonly encoding: Encoding }> {
  // The tensor is not verified here: the receiver hashes what it gets.
  const source = work.objects.openTensor(id, { verify: false });
  const raw: { readonly object: StreamObject; readonly encoding: Encoding } = {
    object: source,
    encoding: { code: encodingCodes.raw, byteLength: source.byteLength },
  };
  if (!mayBeCoded(work, source.byteLength)) return raw;
  const { ids, tensors } = await readReferences(work, id, 2 + maxOthers);
  const options = encodeOptionsOf(work.format);
  const { code, bytes, against } = await work.coder.encode(
    await readStoredTensor(source),
    tensors,
    mayBeMixed ? options : { ...options, mixed: false, derived: options.derived ?? true },
  );
  if (code === encodingCodes.raw) return raw;
  const links = neededLinks(ids, against) ?? {};
  const encoding = { code, byteLength: bytes.length, ...encodingReferences(links) };
  return { object: await spool.append(bytes), encoding };
}

function mayBeCoded({ maxTensorBytes }: CodingWork, byteLength: number): boolean {
  return byteLength > 0 && byteLength <= Math.min(maxTensorBytes, maxWireCodedTensorBytes);
}

/**
 * The verified tensors to code against: those before the first that is missing or too large.
 */
async function readReferences(
  work: CodingWork,
  tensor: Hash,
  maxCount = maxReferences,
): Promise<{ readonly ids: Links<Hash>; readonly tensors: References }> {
  const ids: Hash[] = [];
  const tensors: Tensor[] = [];
  for (const id of listReferences(work.references.get(tensor) ?? {}).slice(0, maxCount)) {
    const byteLength = work.objects.stat(id)?.byteLength;
    if (byteLength === undefined || !mayBeCoded(work, byteLength)) break;
    ids.push(id);
    tensors.push(await readStoredTensor(work.objects.openTensor(id)));
  }
  return { ids: linksTo(ids), tensors: linksTo(tensors) };
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
  const { tensors } = await readReferences(work, id);
  const { bytes } = await work.coder.estimate(
    await readStoredTensor(work.objects.openTensor(id, { verify: false })),
    tensors,
  );
  return Math.min(bytes, byteLength);
}
