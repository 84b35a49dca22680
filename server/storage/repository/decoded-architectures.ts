/**
 * Architectures as they were decoded last: the versions of a fleet share a few, and decoding one takes longer than
 * finding its nearest ancestor. What is stored under an id never changes, so neither does what is kept here.
 */
import { LRUCache } from "lru-cache";
import { architectureWithId } from "../../../shared/model/kept-architectures.js";
import type { Architecture } from "../../../shared/model/model.js";
import type { ObjectReader } from "../../../shared/objects/object-store.js";
import type { Hash } from "../../../shared/tensor/tensor.js";

/** Bytes as they are stored; decoded they take some ten times as many. */
const keptBytes = 2 * 1024 * 1024;

export class DecodedArchitectures {
  readonly #kept = new LRUCache<Hash, Architecture>({ maxSize: keptBytes });

  constructor(private readonly objects: Pick<ObjectReader, "read">) {}

  /** @throws OBJECT_MISSING, OBJECT_HASH_MISMATCH, and what architectureWithId throws */
  async read(id: Hash): Promise<Architecture> {
    const kept = this.#kept.get(id);
    if (kept !== undefined) return kept;
    const bytes = await this.objects.read("architecture", id);
    const architecture = architectureWithId(id, bytes);
    if (bytes.length > 0) this.#kept.set(id, architecture, { size: bytes.length });
    return architecture;
  }
}
