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
  /** The files of objects that came in part → their bytes. */
  #parts = new Map<string, number>();
  /** Large objects on their way: their file, and the bytes that it will have. */
  readonly #coming = new Set<{ readonly path: string; readonly bytes: number }>();

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

  /** Takes the files of all objects that came in part as they are now. */
  setParts(parts: ReadonlyMap<string, number>): void {
    this.#parts = new Map(parts);
  }

  setPart(path: string, bytes: number): void {
    if (bytes === 0) this.#parts.delete(path);
    else this.#parts.set(path, bytes);
  }

  /** Bytes of the file that an object on its way goes on with or replaces. */
  partAt(path: string): number {
    return [...this.#coming].some((each) => each.path === path) ? 0 : (this.#parts.get(path) ?? 0);
  }

  /** Counts an object on its way. @returns the function to call at its end, with the bytes that its file has then */
  coming(path: string, bytes: number): (left: number) => void {
    const each = { path, bytes };
    this.#coming.add(each);
    return (left) => {
      this.#coming.delete(each);
      this.setPart(path, left);
    };
  }

  /** @param most absent: no bound. @throws QUOTA_EXCEEDED where so many bytes more would be over it */
  require(bytes: number, most: number | undefined): void {
    if (most === undefined || this.#held + bytes <= most) return;
    for (const id of [...this.#bytes.keys()]) if (!this.objects.has(id)) this.#forget(id);
    const held = this.#held;
    if (held + bytes > most) throw tooMuchUnfinished({ held, bytes, most });
  }

  get #held(): number {
    const bytes = new Map(this.#parts);
    for (const { path } of this.#coming) bytes.delete(path);
    return [...bytes.values(), ...[...this.#coming].map((each) => each.bytes)].reduce(
      (sum, each) => sum + each,
      this.#total,
    );
  }

  #forget(id: Hash): void {
    this.#total -= this.#bytes.get(id) ?? 0;
    this.#bytes.delete(id);
  }
}
