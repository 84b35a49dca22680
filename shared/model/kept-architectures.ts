/**
 * Architectures as they were decoded last, of the whole process: the versions of a fleet share a few, and checking one
 * takes longer than all else of a small model. An id names its bytes, so what is kept under it never changes; it is
 * frozen, so that whoever saves it again writes the same bytes.
 */
import { LRUCache } from "lru-cache";
import type { Hash } from "../tensor/tensor.js";
import { decodeArchitecture, encodeArchitecture } from "./architecture.js";
import type { Architecture } from "./model.js";

/** Bytes as they are stored; decoded they take some ten times as many. */
const keptBytes = 2 * 1024 * 1024;
const kept = new LRUCache<Hash, Architecture>({ maxSize: keptBytes });
const bytesOf = new WeakMap<Architecture, Uint8Array>();

/**
 * Decodes the bytes of an architecture, which the caller has read from a store by their id.
 * @returns a frozen object
 * @throws ARCHITECTURE_INVALID, LAYER_NOT_ALLOWED, CANONICAL_JSON_INVALID
 */
export function architectureWithId(id: Hash, bytes: Uint8Array): Architecture {
  const known = kept.get(id);
  if (known !== undefined) return known;
  const architecture = decodeArchitecture(bytes);
  freeze(architecture);
  bytesOf.set(architecture, Uint8Array.from(bytes));
  kept.set(id, architecture, { size: bytes.length });
  return architecture;
}

/** Canonical bytes, which must not be changed. @throws ARCHITECTURE_INVALID, LAYER_NOT_ALLOWED */
export function encodedArchitecture(architecture: Architecture): Uint8Array {
  return bytesOf.get(architecture) ?? encodeArchitecture(architecture);
}

interface ArchitectureReader {
  read(kind: "architecture", id: Hash): Promise<Uint8Array>;
}

/** The architectures of one store, each of which is read once. */
export class DecodedArchitectures {
  readonly #kept = new LRUCache<Hash, Architecture>({ maxSize: keptBytes });

  constructor(private readonly objects: ArchitectureReader) {}

  /** @throws OBJECT_MISSING, OBJECT_HASH_MISMATCH, and what architectureWithId throws */
  async read(id: Hash): Promise<Architecture> {
    const known = this.#kept.get(id);
    if (known !== undefined) return known;
    const bytes = await this.objects.read("architecture", id);
    const architecture = architectureWithId(id, bytes);
    this.#kept.set(id, architecture, { size: bytes.length });
    return architecture;
  }
}

function freeze(value: unknown): void {
  if (typeof value !== "object" || value === null || Object.isFrozen(value)) return;
  Object.freeze(value);
  for (const member of Object.values(value)) freeze(member);
}
