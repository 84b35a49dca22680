/**
 * Reads pieces of an HDF5 file's description: bounded in number and size, through a small cache, so that a file which
 * leads in circles ends with an error and one of many gigabytes takes little memory.
 */
import { readFully } from "../../tensor/safetensors-reader.js";
import type { OpenedPart } from "../form.js";

/** Continues "the file cannot be read: …". */
export type Fail = (reason: string) => never;

const pageBytes = 4096;
const cachedPages = 1024;
/** A model of 30,000 tensors needs a third of this. */
const maxPageReads = 400_000;
const maxPieceBytes = 64 * 1024 * 1024;

export class MetadataReader {
  readonly #pages = new Map<number, Buffer>();
  #reads = 0;

  constructor(
    readonly part: OpenedPart,
    readonly fail: Fail,
  ) {}

  /** @param what names the piece, for messages */
  async piece(position: number, byteLength: number, what: string): Promise<Buffer> {
    if (byteLength > maxPieceBytes) this.fail(`${what} has ${byteLength} bytes, more than ${maxPieceBytes}`);
    if (position + byteLength > this.part.size) this.fail(`${what} is outside the file: it was cut short`);
    const bytes = Buffer.alloc(byteLength);
    for (let done = 0; done < byteLength;) {
      const at = position + done;
      const page = await this.#page(Math.floor(at / pageBytes));
      done += page.copy(bytes, done, at % pageBytes);
    }
    return bytes;
  }

  async #page(index: number): Promise<Buffer> {
    const known = this.#pages.get(index);
    if (known !== undefined) {
      this.#pages.delete(index);
      this.#pages.set(index, known);
      return known;
    }
    if (++this.#reads > maxPageReads) this.fail("its description is too large, or leads in circles");
    const start = index * pageBytes;
    const page = Buffer.alloc(Math.min(pageBytes, this.part.size - start));
    await readFully(this.part.file, page, start, "The description of the file");
    this.#pages.set(index, page);
    if (this.#pages.size > cachedPages) this.#pages.delete(this.#pages.keys().next().value as number);
    return page;
  }
}

/** A position or length; undefined where all bits are set, which stands for "nowhere". */
export function offsetAt(bytes: Buffer, at: number, fail: Fail): number | undefined {
  const value = bytes.readBigUInt64LE(at);
  if (value === 0xffff_ffff_ffff_ffffn) return undefined;
  return value > BigInt(Number.MAX_SAFE_INTEGER)
    ? fail("it names a position that no file has")
    : Number(value);
}

/** A position that has to be there. */
export function positionAt(bytes: Buffer, at: number, fail: Fail): number {
  return offsetAt(bytes, at, fail) ?? fail("it names a position that is nowhere");
}
