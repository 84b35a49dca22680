/** Reads only the highest planes of tensors that are stored in byte planes or in fixed planes. */
import type { PlanesCode } from "../delta/codec.js";
import { encodingCodes } from "../delta/encoded.js";
import { fixedPlaneCount } from "../delta/fixed-planes.js";
import { planeBytes } from "../delta/numbers.js";
import type { StemmaError } from "../errors.js";
import type { Hash, TensorHeader } from "../tensor/tensor.js";
import { planRetrieval } from "./chains.js";
import { tensorDecoder, type TensorDecoder } from "./decoding/tensor-decoder.js";
import { keepHighPlanes, planesCheck } from "./high-planes.js";
import { noSuchPlanes } from "./object-errors.js";
import type { FixedPlanesRead, HighPlanes } from "./object-store.js";
import { bytesInPack } from "./pack-entry.js";
import type { StoredTensors, TensorEntry } from "./stored-tensors.js";

/** The part of TensorReading, which reads complete tensors, that PlaneReading needs. */
export interface PlaneSource {
  readonly store: StoredTensors;
  /** Runs `read`, and again where a copy was replaced meanwhile. */
  retried<T>(read: () => Promise<T>): Promise<T>;
  /** @throws the error of the chain's fault, if it has one */
  requireReadable(id: Hash): void;
  /** A complete tensor, compared with its id. */
  verified(id: Hash): Promise<Uint8Array>;
  /** The first stored bytes of this copy. */
  stored(id: Hash, entry: TensorEntry, length: number): Promise<Uint8Array>;
  /** Finds the damaged tensor of a chain. Returns the error to throw. */
  diagnose(id: Hash): Promise<StemmaError>;
}

/** `isMasked`: the bytes of the lower planes are zero already. */
interface Planes {
  readonly header: TensorHeader;
  readonly bytes: Uint8Array;
  readonly readBytes: number;
  readonly isMasked: boolean;
}

/** The first `planes` planes of one copy. */
interface PlanesRequest {
  readonly id: Hash;
  readonly entry: TensorEntry;
  readonly code: PlanesCode;
  readonly planes: number;
}

/**
 * One page: a disk reads at least this much, and for a small tensor it holds the header and all requested
 * planes.
 */
const firstReadBytes = 4096;

export class PlaneReading {
  readonly #source: PlaneSource;

  constructor(source: PlaneSource) {
    this.#source = source;
  }

  /** See ObjectReader.readHighPlanes. */
  async highPlanes(id: Hash, planes: number): Promise<HighPlanes> {
    if (!Number.isInteger(planes) || planes < 1 || planes > 4)
      throw noSuchPlanes("highest 1 to 4 byte", planes);
    const decoder = await tensorDecoder();
    return this.#source.retried(async () => {
      this.#source.requireReadable(id);
      const { header, bytes, readBytes, isMasked } = await this.#planesOf(decoder, id, planes);
      return { bytes: isMasked ? bytes : keepHighPlanes(bytes, planeBytes(header.dtype), planes), readBytes };
    });
  }

  /** See ObjectReader.readFixedPlanes. */
  async fixedPlanes(id: Hash, planes: number): Promise<FixedPlanesRead | undefined> {
    if (!Number.isInteger(planes) || planes < 1 || planes > fixedPlaneCount)
      throw noSuchPlanes(`first 1 to ${fixedPlaneCount} fixed`, planes);
    const decoder = await tensorDecoder();
    return this.#source.retried(async () => {
      const entry = this.#source.store.entry(id);
      const code = entry.encodingCode;
      if (code !== encodingCodes.fixedPlanes || entry.planeChecks?.[planes - 1] === undefined)
        return undefined;
      const { prefix, readBytes } = await this.#prefixOf(decoder, { id, entry, code, planes });
      return { levels: decoder.delta.decodeFixedLevels(entry.header, prefix, planes), readBytes };
    });
  }

  /** The highest planes; the lower ones may not be masked yet. */
  async #planesOf(decoder: TensorDecoder, id: Hash, planes: number): Promise<Planes> {
    const entry = this.#source.store.entry(id);
    const { header, encodingCode: code } = entry;
    if (
      code !== encodingCodes.planes ||
      planes >= planeBytes(header.dtype) ||
      entry.planeChecks?.[planes - 1] === undefined
    )
      return this.#allPlanesOf(id, header);
    // The base first: this copy may be replaced while the base is read, and both must belong together.
    const base = entry.base === undefined ? undefined : await this.#planesOf(decoder, entry.base, planes);
    const { prefix, readBytes } = await this.#prefixOf(decoder, { id, entry, code, planes });
    const bytes = decoder.delta.decodeHighPlanes(
      header,
      prefix,
      base === undefined ? {} : { base: { ...base.header, bytes: base.bytes } },
      planes,
    );
    return { header, bytes, readBytes: readBytes + (base?.readBytes ?? 0), isMasked: true };
  }

  async #allPlanesOf(id: Hash, header: TensorHeader): Promise<Planes> {
    const steps = planRetrieval(
      id,
      (each) => this.#source.store.entry(each),
      () => false,
    );
    const bytes = await this.#source.verified(id);
    return {
      header,
      bytes,
      readBytes: steps.reduce((sum, { entry }) => sum + entry.storedBytes, 0),
      isMasked: false,
    };
  }

  /** The stored bytes that hold the first planes, compared with their check. */
  async #prefixOf(
    decoder: TensorDecoder,
    request: PlanesRequest,
  ): Promise<{ readonly prefix: Uint8Array; readonly readBytes: number }> {
    const { id, entry, planes } = request;
    const firstBytes = Math.max(firstReadBytes, 1 + 6 * planeBytes(entry.header.dtype));
    const start = await this.#source.stored(id, entry, Math.min(bytesInPack(entry), firstBytes));
    const length = prefixLength(decoder, request, start);
    let prefix: Uint8Array | undefined;
    if (length !== undefined)
      prefix =
        length <= start.length ? start.subarray(0, length) : await this.#source.stored(id, entry, length);
    if (prefix === undefined || planesCheck(prefix) !== entry.planeChecks?.[planes - 1])
      throw await this.#source.diagnose(id);
    return { prefix, readBytes: Math.max(start.length, prefix.length) };
  }
}

/** Returns how many stored bytes hold the first planes; undefined where the header of the planes is malformed. */
function prefixLength(
  decoder: TensorDecoder,
  { entry: { header, storedBytes }, code, planes }: PlanesRequest,
  start: Uint8Array,
): number | undefined {
  try {
    const length = decoder.delta.planesPrefixBytes(header, start, planes, code);
    return length <= storedBytes ? length : undefined;
  } catch {
    return undefined;
  }
}
