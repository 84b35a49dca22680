/** A ZIP archive of stored entries: finds their ranges, and compares each one's checksum when it is first used. */
import { crc32 } from "node:zlib";
import { readFully } from "../tensor/safetensors-reader.js";
import { quoted, type OpenedPart } from "./form.js";
import { dataStart, readZipDirectory, type ZipDirectory, type ZipEntry } from "./zip-directory.js";

/** Throws the refusal of a file. @param advice replaces the usual one */
export type Refuse = (reason: string, advice?: string) => never;

/** Bytes of one read. */
const readBytes = 4 * 1024 * 1024;

/** The range of an entry's bytes in the file. */
export interface EntryRange {
  readonly start: number;
  readonly byteLength: number;
}

export class ZipArchive {
  /** Entry's name → a range whose checksum was right. */
  readonly #checked = new Map<string, EntryRange>();

  private constructor(
    readonly part: OpenedPart,
    private readonly directory: ZipDirectory,
    private readonly refuse: Refuse,
  ) {}

  static async open(part: OpenedPart, refuse: Refuse): Promise<ZipArchive> {
    const directory = await readZipDirectory(part, (reason) =>
      refuse(reason, "Copy it again from a complete one"),
    );
    return new ZipArchive(part, directory, refuse);
  }

  get names(): readonly string[] {
    return [...this.directory.entries.keys()];
  }

  has(name: string): boolean {
    return this.directory.entries.has(name);
  }

  /** The range of an entry; its checksum is not compared. */
  async range(name: string): Promise<EntryRange> {
    const known = this.#checked.get(name);
    if (known !== undefined) return known;
    const entry = this.#entry(name);
    return {
      start: await dataStart(this.part, this.directory, entry, this.refuse),
      byteLength: entry.byteLength,
    };
  }

  /** The content of a small entry. */
  async inMemory(name: string, maxBytes: number): Promise<Buffer> {
    const range = await this.range(name);
    if (range.byteLength > maxBytes) this.refuse(`its entry ${quoted(name)} has more than ${maxBytes} bytes`);
    await this.check(name, range);
    const bytes = Buffer.alloc(range.byteLength);
    await readFully(this.part.file, bytes, range.start, "The archive");
    return bytes;
  }

  /** Compares an entry's checksum, which PyTorch writes and does not read: a flipped bit is found here. */
  async check(name: string, range: EntryRange): Promise<void> {
    if (this.#checked.has(name)) return;
    let sum = 0;
    const buffer = new Uint8Array(Math.min(readBytes, range.byteLength));
    for (let at = 0; at < range.byteLength; at += buffer.length) {
      const piece = buffer.subarray(0, range.byteLength - at);
      await readFully(this.part.file, piece, range.start + at, "The archive");
      sum = crc32(piece, sum);
    }
    if (sum !== this.#entry(name).crc32)
      this.refuse(
        `the checksum of its entry ${quoted(name)} is wrong: the file is damaged`,
        "Copy it again, or save it again (by PyTorch, without torch.serialization.set_crc32_options(False))",
      );
    this.#checked.set(name, range);
  }

  #entry(name: string): ZipEntry {
    return this.directory.entries.get(name) ?? this.refuse(`its entry ${quoted(name)} is missing`);
  }
}
