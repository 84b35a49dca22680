/**
 * Accepts a tensor that arrives coded, only if it decodes to its id. It is decoded against tensors of the
 * store or earlier ones of the same pack; its index entry is described then. Does not access files.
 */
import type { References } from "../delta/encoded.js";
import { listReferences, mapLinks, maxReferences, neededCount, neededLinks } from "../delta/links.js";
import type { StemmaError } from "../errors.js";
import { tensorByteLength } from "../tensor/dtype.js";
import { isHash, tensorId } from "../tensor/hash.js";
import type { Hash, Tensor } from "../tensor/tensor.js";
import { Chains, isFault, linked, type ChainFault, type ChainState, type Links } from "./chains.js";
import type { DecodedCache } from "./decoded-cache.js";
import { planeChecksOf } from "./high-planes.js";
import { maxCodedTensorBytes, type CodedTensor } from "./object-store.js";
import { codedMismatch, codedTooLarge, codedTooLong, encodingUnknown, tooFewNamed } from "./object-errors.js";
import type { PackEntry } from "./pack-entry.js";
import { chainRefusal } from "./publication.js";
import type { DecodingJob } from "./decoding/decode-steps.js";
import { DecodingLost, decodingThreads } from "./decoding/decoding-threads.js";
import { tensorDecoder, type TensorDecoder } from "./decoding/tensor-decoder.js";
import type { ObjectIndex } from "./object-index.js";
import type { FoundDamage, StoredTensors, TensorEntry } from "./stored-tensors.js";
import { TensorReading } from "./tensor-reading.js";
import type { EntryDescription, UnsealedEntry } from "./unsealed-entry.js";

interface Host {
  readonly index: Pick<ObjectIndex, "isUsable" | "linksOf">;
  readonly tensors: StoredTensors;
  readonly reading: TensorReading;
}

/** Gives access to the tensors of the store, and to those of the pack being written that the store lacks. */
export class OwnTensors implements StoredTensors {
  readonly #host: Host;
  readonly #own: ReadonlyMap<Hash, UnsealedEntry>;
  readonly #readBack: (entry: UnsealedEntry) => Promise<Uint8Array>;
  readonly #reading: TensorReading;
  readonly #cache: DecodedCache;

  /** @param cache used by this save only, because the store's cache may have any size, even 0 */
  constructor(
    host: Host,
    own: ReadonlyMap<Hash, UnsealedEntry>,
    cache: DecodedCache,
    readBack: (entry: UnsealedEntry) => Promise<Uint8Array>,
  ) {
    this.#host = host;
    this.#cache = cache;
    this.#own = own;
    this.#readBack = readBack;
    this.#reading = new TensorReading(this, cache);
  }

  #ownEntry(id: Hash): UnsealedEntry | undefined {
    return this.#host.index.isUsable(id) ? undefined : this.#own.get(id);
  }
  entry(id: Hash): TensorEntry {
    const own = this.#ownEntry(id);
    return own?.header === undefined ? this.#host.tensors.entry(id) : { ...own, header: own.header };
  }
  state(id: Hash): ChainState {
    return new Chains((at) => this.#ownEntry(at) ?? this.#host.index.linksOf(at)).state(id);
  }
  stored(id: Hash, length?: number): Promise<Uint8Array> {
    const own = this.#ownEntry(id);
    return own === undefined
      ? this.#host.tensors.stored(id, length)
      : this.#readBack(own).then((bytes) => bytes.subarray(0, length));
  }
  isReferenced(): boolean {
    return true;
  }
  damaged(id: Hash, entry: PackEntry, found: FoundDamage): StemmaError {
    return this.#host.tensors.damaged(id, entry, found);
  }
  unreadable(id: Hash, fault: ChainFault): StemmaError {
    return this.#host.tensors.unreadable(id, fault);
  }

  /** The state of a tensor's chain after this pack is published, when reads use the copies in this pack. */
  stateWith(tensor: Hash, links: Links): ChainState {
    return new Chains((id) =>
      id === tensor ? links : (this.#own.get(id) ?? this.#host.index.linksOf(id)),
    ).state(tensor);
  }

  /** Reads a tensor that another is coded against. @param verify compare it with its id first */
  async reference(id: Hash, verify: boolean): Promise<Tensor> {
    const { header } = this.entry(id);
    const reading = this.#ownEntry(id) === undefined ? this.#host.reading : this.#reading;
    return { ...header, bytes: await reading.reference(id, verify) };
  }

  /**
   * Remembers a decoded tensor: the next save of a line is usually coded against the last one. A read that
   * has to prove what is on the disk does not use this memory.
   */
  keep(id: Hash, bytes: Uint8Array): void {
    this.#cache.put(id, bytes);
    this.#host.reading.remember(id, bytes);
  }
}

/**
 * Returns the tensor's length in bytes. @throws TENSOR_SIZE_MISMATCH, TENSOR_TOO_LARGE, PACK_FORMAT_UNKNOWN;
 * DTYPE_UNKNOWN, SHAPE_INVALID for the header
 */
function checkCoded({ id, header, bytes, code, ...links }: CodedTensor): number {
  const byteLength = tensorByteLength(header.dtype, header.shape);
  if (byteLength > maxCodedTensorBytes) throw codedTooLarge(id, byteLength, maxCodedTensorBytes);
  // No codec's output is longer than this.
  if (bytes.length > byteLength + (byteLength >> 6) + 1024) throw codedTooLong(id, byteLength, bytes.length);
  if (
    !isHash(id) ||
    !listReferences(links).every(isHash) ||
    listReferences(links).length > maxReferences ||
    !Number.isInteger(code) ||
    code < 0 ||
    code > 255
  )
    throw encodingUnknown(code);
  return byteLength;
}

/**
 * Describes the index entry of a coded tensor, after decoding it and comparing the result with its id.
 * @param decoded its bytes, where `decodeEarly` has decoded it
 * @throws see PackWriter.putCoded
 */
export async function codedEntry(
  tensor: CodedTensor,
  tensors: OwnTensors,
  decoded?: Uint8Array,
): Promise<EntryDescription> {
  const byteLength = checkCoded(tensor);
  const { id, code, bytes } = tensor;
  const header = { dtype: tensor.header.dtype, shape: [...tensor.header.shape] };
  const decoder = await tensorDecoder();
  const links = linksNeeded(tensor, decoder);
  const state = tensors.stateWith(id, links);
  if (isFault(state)) throw chainRefusal(state, id);
  const verified =
    decoded ?? (await decodeAgainst(tensor, links, byteLength, { decoder, references: tensors }));
  const planeChecks = planeChecksOf(decoder.delta, header, code, bytes);
  tensors.keep(id, verified);
  return {
    id,
    kind: "tensor",
    header,
    byteLength,
    encodingCode: code,
    ...links,
    planeChecks,
  };
}

/**
 * A coded tensor's bytes, decoded against tensors of the store and compared with its id; undefined where it
 * is coded against a tensor of the pack being written. @throws see PackWriter.putCoded
 */
export async function decodeEarly(
  tensor: CodedTensor,
  { index, tensors, reading }: Host,
): Promise<Uint8Array | undefined> {
  const byteLength = checkCoded(tensor);
  const decoder = await tensorDecoder();
  const links = linksNeeded(tensor, decoder);
  if (linked(links).some((id) => !index.isUsable(id))) return undefined;
  const references = {
    reference: async (id: Hash, verify: boolean): Promise<Tensor> => ({
      ...tensors.entry(id).header,
      bytes: await reading.reference(id, verify),
    }),
  };
  return decodeAgainst(tensor, links, byteLength, { decoder, references });
}

/**
 * The references that decoding needs. A declared reference that decoding does not need is dropped, so that
 * the store does not keep it for this tensor.
 */
function linksNeeded({ id, header, code, bytes, ...declared }: CodedTensor, decoder: TensorDecoder): Links {
  const needs = decoder.needs(header, { code, bytes });
  const links = neededLinks(declared, needs);
  if (links === undefined) throw tooFewNamed(id, neededCount(needs), listReferences(declared).length);
  return links;
}

async function decodeAgainst(
  tensor: CodedTensor,
  links: Links,
  byteLength: number,
  {
    decoder,
    references,
  }: { readonly decoder: TensorDecoder; readonly references: Pick<OwnTensors, "reference"> },
): Promise<Uint8Array> {
  const { id, header, code, bytes } = tensor;
  const decode = async (
    verify: boolean,
  ): Promise<{ readonly decoded?: Uint8Array; readonly actual?: Hash; readonly cause?: Error }> => {
    const held: References = await mapLinks(links, (other) => references.reference(other, verify));
    try {
      // A thread does not report why bytes are malformed; decoding them once more here does.
      const decoded =
        (await decodeInThread(tensor, links, byteLength, held)) ??
        decoder.decode(header, { code, bytes }, held, byteLength);
      return { decoded, actual: tensorId(header, decoded) };
    } catch (error) {
      return { cause: error as Error };
    }
  };
  // The references are verified only when the result is wrong: hashing them every time would cost as much as
  // everything else.
  let outcome = await decode(false);
  if (outcome.actual !== id) outcome = await decode(true);
  if (outcome.cause !== undefined) throw outcome.cause;
  if (outcome.actual !== id || outcome.decoded === undefined) throw codedMismatch(id, outcome.actual);
  return outcome.decoded;
}

/** Returns undefined where no codec wrote these bytes. */
async function decodeInThread(
  { id, header, code, bytes }: CodedTensor,
  links: Links,
  byteLength: number,
  held: References,
): Promise<Uint8Array | undefined> {
  const tensors = listReferences(held);
  const references = new Map(listReferences(links).map((other, i) => [other, tensors[i]!]));
  const job: DecodingJob = {
    steps: [{ id, header, code, byteLength, stored: bytes, lastUseOf: [], ...links }],
    references,
    wanted: new Set([id]),
    canMoveStored: false,
  };
  // The job was copied to the thread, so if the thread has ended, the job can be submitted again.
  const { bytes: decoded } = await decodingThreads()
    .decode(job)
    .catch((error: unknown) => {
      if (error instanceof DecodingLost) return decodingThreads().decode(job);
      throw error;
    });
  return decoded.get(id);
}
