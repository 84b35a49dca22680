/**
 * Takes in a tensor that comes coded: it is decoded against what the store has, or the same pack brought
 * before, and only what decodes to its id gets an entry. Knows no files.
 */
import type { References } from "../delta/encoded.js";
import { StemmaError } from "../errors.js";
import { tensorByteLength } from "../tensor/dtype.js";
import { isHash, tensorId } from "../tensor/hash.js";
import type { Hash, Tensor } from "../tensor/tensor.js";
import { Chains, isFault, linked, type ChainFault, type ChainState, type Links } from "./chains.js";
import type { DecodedCache } from "./decoded-cache.js";
import { planeChecksOf } from "./high-planes.js";
import { maxCodedTensorBytes, type CodedTensor } from "./object-store.js";
import type { PackEntry } from "./pack-format.js";
import { chainRefused } from "./publication.js";
import type { DecodingJob } from "./decoding/decode-steps.js";
import { DecodingLost, decodingThreads } from "./decoding/decoding-threads.js";
import { tensorDecoder, type TensorDecoder } from "./decoding/tensor-decoder.js";
import { TensorReading, type StoredTensors, type TensorEntry } from "./tensor-reading.js";
import type { EntryDescription, UnsealedEntry } from "./unsealed-entry.js";

interface Host {
  has(id: Hash): boolean;
  readonly tensors: StoredTensors;
  readonly reading: TensorReading;
  linksOf(id: Hash): Links | undefined;
}

/** The tensors of the store and, where it lacks them, those of a pack that is being written. */
export class OwnTensors implements StoredTensors {
  readonly #host: Host;
  readonly #own: ReadonlyMap<Hash, UnsealedEntry>;
  readonly #readBack: (entry: UnsealedEntry) => Promise<Uint8Array>;
  readonly #reading: TensorReading;
  readonly #cache: DecodedCache;
  /** @param cache of this save alone: a store's may be of any size, none too */
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
    return this.#host.has(id) ? undefined : this.#own.get(id);
  }
  entry(id: Hash): TensorEntry {
    const own = this.#ownEntry(id);
    return own?.header === undefined ? this.#host.tensors.entry(id) : { ...own, header: own.header };
  }
  state(id: Hash): ChainState {
    return new Chains((at) => this.#ownEntry(at) ?? this.#host.linksOf(at)).state(id);
  }
  stored(id: Hash, length?: number): Promise<Uint8Array> {
    const own = this.#ownEntry(id);
    return own === undefined
      ? this.#host.tensors.stored(id, length)
      : this.#readBack(own).then((bytes) => bytes.subarray(0, length));
  }
  isReferred(): boolean {
    return true;
  }
  damaged(
    id: Hash,
    entry: PackEntry,
    found: { readonly actual?: Hash; readonly cause?: unknown },
  ): StemmaError {
    return this.#host.tensors.damaged(id, entry, found);
  }
  outOfReach(id: Hash, fault: ChainFault): StemmaError {
    return this.#host.tensors.outOfReach(id, fault);
  }

  /** How a tensor's chain will be once this pack is there: its own copies are the ones that are read then. */
  stateWith(tensor: Hash, links: Links): ChainState {
    return new Chains((id) => (id === tensor ? links : (this.#own.get(id) ?? this.#host.linksOf(id)))).state(
      tensor,
    );
  }

  /** A tensor that another is coded against. @param verify on suspicion */
  async reference(id: Hash, verify: boolean): Promise<Tensor> {
    const { header } = this.entry(id),
      reading = this.#ownEntry(id) === undefined ? this.#host.reading : this.#reading;
    return { ...header, bytes: await reading.reference(id, verify) };
  }
  /**
   * The next save of a line is coded against its last one, as a rule. What is to prove that it lies on the
   * disk is read from there all the same.
   */
  keep(id: Hash, bytes: Uint8Array): void {
    this.#cache.put(id, bytes);
    this.#host.reading.remember(id, bytes);
  }
}

/** @throws TENSOR_SIZE_MISMATCH, TENSOR_TOO_LARGE, REFERENCE_MISSING, what the header's check throws */
function checkForm({ id, header, bytes, code, base, previous }: CodedTensor): number {
  const byteLength = tensorByteLength(header.dtype, header.shape);
  if (byteLength > maxCodedTensorBytes)
    throw new StemmaError(
      "TENSOR_TOO_LARGE",
      `The tensor ${id} of ${byteLength} bytes comes coded, which only tensors of up to ${maxCodedTensorBytes} bytes may. Send it raw.`,
      { id, byteLength },
    );
  // No codec makes a tensor longer than this.
  if (bytes.length > byteLength + (byteLength >> 6) + 1024)
    throw new StemmaError(
      "TENSOR_SIZE_MISMATCH",
      `The tensor ${id} of ${byteLength} bytes comes as ${bytes.length} coded ones. Send it raw.`,
      { id, byteLength, actual: bytes.length },
    );
  if (
    !isHash(id) ||
    [base, previous].some((other) => other !== undefined && !isHash(other)) ||
    !Number.isInteger(code) ||
    code < 0 ||
    code > 255
  )
    throw new StemmaError(
      "PACK_FORMAT_UNKNOWN",
      "A coded tensor is described in a way that this Stemma does not know. Use a newer one.",
      { code },
    );
  return byteLength;
}

/**
 * What its index entry will say, once it was decoded to its id.
 * @param decoded its bytes, where `decodeEarly` decoded it
 * @throws see PackWriter.putCoded
 */
export async function codedEntry(
  tensor: CodedTensor,
  tensors: OwnTensors,
  decoded?: Uint8Array,
): Promise<EntryDescription> {
  const byteLength = checkForm(tensor);
  const { id, code, bytes } = tensor;
  const header = { dtype: tensor.header.dtype, shape: [...tensor.header.shape] };
  const decoder = await tensorDecoder();
  const links = linksNeeded(tensor, decoder);
  const state = tensors.stateWith(id, links);
  if (isFault(state)) throw chainRefused(state, id);
  const proved = decoded ?? (await decodeAgainst(tensor, links, byteLength, decoder, tensors));
  const planeChecks = planeChecksOf(decoder.delta, header, code, bytes);
  tensors.keep(id, proved);
  return {
    id,
    kind: "tensor",
    header,
    byteLength,
    encodingCode: code,
    ...links,
    ...(planeChecks === undefined ? {} : { planeChecks }),
  };
}

/**
 * Its bytes, decoded to its id against what the store has already; undefined where it needs what the pack
 * brings. @throws see PackWriter.putCoded
 */
export async function decodeEarly(
  tensor: CodedTensor,
  { has, tensors, reading }: Host,
): Promise<Uint8Array | undefined> {
  const byteLength = checkForm(tensor);
  const decoder = await tensorDecoder();
  const links = linksNeeded(tensor, decoder);
  if (linked(links).some((id) => !has(id))) return undefined;
  return decodeAgainst(tensor, links, byteLength, decoder, {
    reference: async (id, verify) => ({
      ...tensors.entry(id).header,
      bytes: await reading.reference(id, verify),
    }),
  });
}

/**
 * What the bytes need, of what they are said to be coded against: what they do not need is not kept for them.
 */
function linksNeeded(
  { id, header, code, bytes, base, previous }: CodedTensor,
  decoder: TensorDecoder,
): Links {
  const needs = decoder.needs(header, code, bytes);
  if ((needs.base && base === undefined) || (needs.previous && previous === undefined))
    throw new StemmaError(
      "REFERENCE_MISSING",
      `The tensor ${id} is coded against ${needs.base && base === undefined ? "a base" : "another tensor besides its base"} that is not named. Name it, or send the tensor raw.`,
      { id, missing: [] },
    );
  if (!needs.base || base === undefined) return {};
  return needs.previous && previous !== undefined ? { base, previous } : { base };
}

async function decodeAgainst(
  tensor: CodedTensor,
  links: Links,
  byteLength: number,
  decoder: TensorDecoder,
  among: Pick<OwnTensors, "reference">,
): Promise<Uint8Array> {
  const { id, header, code, bytes } = tensor,
    { base, previous } = links;
  const decode = async (
    verify: boolean,
  ): Promise<{ readonly decoded?: Uint8Array; readonly actual?: Hash; readonly cause?: unknown }> => {
    const references = {
      ...(base && { base: await among.reference(base, verify) }),
      ...(previous && { previous: await among.reference(previous, verify) }),
    };
    try {
      // Why bytes are none of a codec's is learned by decoding them here.
      const decoded =
        (await decodeBeside(tensor, links, byteLength, references)) ??
        decoder.decode(header, code, bytes, references, byteLength);
      return { decoded, actual: tensorId(header, decoded) };
    } catch (cause) {
      return { cause };
    }
  };
  // What it was decoded against is doubted only when the outcome is wrong: hashing it every time would cost
  // as much as all else.
  let outcome = await decode(false);
  if (outcome.actual !== id) outcome = await decode(true);
  if (outcome.cause !== undefined) throw outcome.cause;
  if (outcome.actual !== id || outcome.decoded === undefined)
    throw new StemmaError(
      "OBJECT_HASH_MISMATCH",
      `A coded tensor's bytes decode to the id ${outcome.actual} where ${id} was expected: they changed on the way, or it was coded against another tensor than is named. Nothing of it was stored; send it again, or raw.`,
      { expected: id, actual: outcome.actual },
    );
  return outcome.decoded;
}

/** undefined where the bytes are none that a codec wrote. */
async function decodeBeside(
  { id, header, code, bytes }: CodedTensor,
  links: Links,
  byteLength: number,
  { base, previous }: References,
): Promise<Uint8Array | undefined> {
  const references = new Map<Hash, Tensor>();
  if (links.base !== undefined && base !== undefined) references.set(links.base, base);
  if (links.previous !== undefined && previous !== undefined) references.set(links.previous, previous);
  const job: DecodingJob = {
    steps: [{ id, header, code, byteLength, stored: bytes, lastUseOf: [], ...links }],
    references,
    wanted: new Set([id]),
    isStoredGiven: false,
  };
  // Nothing of it was given away: what a thread that ended left undone can be asked for again.
  const { bytes: decoded } = await decodingThreads()
    .decode(job)
    .catch((error: unknown) => {
      if (error instanceof DecodingLost) return decodingThreads().decode(job);
      throw error;
    });
  return decoded.get(id);
}
