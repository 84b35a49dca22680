/**
 * Counts the bytes that came in deposits and belong to no version, also of deposits that were dropped, until a
 * collection frees them: senders who never finish do not fill the disk.
 */
import type { ObjectReader } from "../../../shared/objects/object-store.js";
import type { Hash } from "../../../shared/tensor/tensor.js";
import { tooMuchUnfinished } from "./hub-errors.js";

export class UnfinishedBytes {
  readonly #bytes = new Map<Hash, number>();
  #total = 0;
  /** Bytes in the files of objects that came in part. */
  partBytes = 0;
  /** Bytes that large objects on their way will have in such files. */
  expectedBytes = 0;

  constructor(private readonly objects: Pick<ObjectReader, "has">) {}

  /** Bytes that these objects take. */
  of(ids: Iterable<Hash>): number {
    let sum = 0;
    for (const id of ids) sum += this.#bytes.get(id) ?? 0;
    return sum;
  }

  add(id: Hash, bytes: number): void {
    if (this.#bytes.has(id)) return;
    this.#bytes.set(id, bytes);
    this.#total += bytes;
  }

  /** A version has these objects now. */
  belong(ids: Iterable<Hash>): void {
    for (const id of ids) this.#forget(id);
  }

  /** @param most absent: no bound. @throws QUOTA_EXCEEDED where so many bytes more would be over it */
  require(bytes: number, most: number | undefined): void {
    if (most === undefined || this.#held + bytes <= most) return;
    for (const id of [...this.#bytes.keys()]) if (!this.objects.has(id)) this.#forget(id);
    const held = this.#held;
    if (held + bytes > most) throw tooMuchUnfinished({ held, bytes, most });
  }

  get #held(): number {
    return this.#total + this.partBytes + this.expectedBytes;
  }

  #forget(id: Hash): void {
    this.#total -= this.#bytes.get(id) ?? 0;
    this.#bytes.delete(id);
  }
}
