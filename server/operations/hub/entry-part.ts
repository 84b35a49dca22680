/**
 * The first bytes of a large entry that is on its way, in a file: where the sender is cut off, or either side is
 * killed, the same sender goes on after them. Nothing in the file is trusted: the object is compared with its id at the
 * end, so no fsync is needed. Layout: the entry's header as it is sent, then bytes.
 */
import { dirname, join } from "node:path";
import { isStemmaError } from "../../../shared/errors.js";
import { listReferences } from "../../../shared/delta/links.js";
import type { Files, OpenFile } from "../../../shared/ports.js";
import type { BegunEntry } from "../../interface/api/models/bundle-schemas.js";
import { decodeHeader, encodeHeader, isSameEntry, maxHeaderBytes, type EntryHeader } from "./bundle-entry.js";
import { bundleInvalid } from "./hub-errors.js";

/** Smaller entries have no file: they are sent again. */
export const minPartBytes = 1024 * 1024;
const pieceBytes = 4 * 1024 * 1024;

/** Reads how much of which entry is in a file; undefined where nothing can go on with it. */
export async function begunIn(files: Files, path: string): Promise<BegunEntry | undefined> {
  const found = await headerIn(files, path);
  if (found === undefined || found.offset === 0) return undefined;
  const { id, bytes, code, ...links } = found.header;
  const references = listReferences(links);
  return {
    ...{ id, bytes, offset: found.offset },
    ...(code === undefined ? {} : { code }),
    ...(references.length === 0 ? {} : { references: [...references] }),
  };
}

interface FoundPart {
  readonly header: EntryHeader;
  /** Position of the object's first byte in the file. */
  readonly start: number;
  /** Bytes of the object that are there. */
  readonly offset: number;
}

async function headerIn(files: Files, path: string): Promise<FoundPart | undefined> {
  if ((await files.stat(path)) === undefined) return undefined;
  const file = await files.open(path, "update");
  try {
    const head = Buffer.alloc(2 + maxHeaderBytes);
    const got = await file.read(head, 0);
    const length = got < 2 ? 0 : head.readUInt16LE(0);
    if (length === 0 || 2 + length > got) return undefined;
    const header = decodeHeader(head.subarray(2, 2 + length));
    const start = 2 + length;
    const offset = (await file.size()) - start;
    return offset <= header.bytes ? { header, start, offset } : undefined;
  } catch (error) {
    // Another release may have left it.
    if (isStemmaError(error, "BUNDLE_INVALID")) return undefined;
    throw error;
  } finally {
    await file.close();
  }
}

/** Bytes of an entry that are being written. */
export class EntryPart {
  #written: number;

  private constructor(
    private readonly file: OpenFile,
    private readonly start: number,
    offset: number,
  ) {
    this.#written = offset;
  }

  /**
   * Goes on with the file where the entry begins behind its bytes, else begins a new one.
   * @throws BUNDLE_INVALID for an entry that goes on with what is not there
   */
  static async open(files: Files, path: string, entry: EntryHeader): Promise<EntryPart> {
    const { offset = 0, ...header } = entry;
    if (offset > 0) {
      const found = await headerIn(files, path);
      if (found === undefined || found.offset < offset || !isSameEntry(found.header, header))
        throw bundleInvalid(`the entry ${header.id.slice(0, 12)} goes on after bytes that are not here`);
      return new EntryPart(await files.open(path, "update"), found.start, offset);
    }
    await files.makeFolder(dirname(path));
    await files.remove(path);
    const file = await files.open(path, "create");
    const head = encodeHeader(header);
    try {
      await file.write(head, 0);
    } catch (error) {
      await file.close();
      throw error;
    }
    return new EntryPart(file, head.length, 0);
  }

  async write(piece: Uint8Array): Promise<void> {
    await this.file.write(piece, this.start + this.#written);
    this.#written += piece.length;
  }

  async *chunks(): AsyncGenerator<Uint8Array> {
    for (let at = 0; at < this.#written;) {
      const piece = new Uint8Array(Math.min(pieceBytes, this.#written - at));
      const got = await this.file.read(piece, this.start + at);
      if (got === 0) return;
      at += got;
      yield piece.subarray(0, got);
    }
  }

  async close(): Promise<void> {
    await this.file.close();
  }
}

/** Removes parts of which nothing came for `maxAgeMs`. @returns those that went; paths and bytes of those that stay */
export async function removeOldParts(
  files: Files,
  folder: string,
  { nowMs, maxAgeMs }: { readonly nowMs: number; readonly maxAgeMs: number },
): Promise<{
  readonly gone: readonly { readonly name: string; readonly bytes: number }[];
  readonly parts: ReadonlyMap<string, number>;
}> {
  const gone: { readonly name: string; readonly bytes: number }[] = [];
  const parts = new Map<string, number>();
  for (const name of await files.list(folder)) {
    const path = join(folder, name);
    const found = await files.stat(path);
    if (found === undefined) continue;
    if (nowMs - found.modifiedMs < maxAgeMs) parts.set(path, found.size);
    else {
      await files.remove(path);
      gone.push({ name, bytes: found.size });
    }
  }
  return { gone, parts };
}
