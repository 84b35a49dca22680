/** The archive that `torch.save` writes: finds its entries, and compares each one's checksum when it is first used. */
import { crc32 } from "node:zlib";
import { tensorByteLength } from "../../tensor/dtype.js";
import { readFully } from "../../tensor/safetensors-reader.js";
import { quoted, type OpenedPart } from "../form.js";
import type { Storage } from "./pickle-values.js";
import { dataStart, readZipDirectory, type ZipDirectory } from "./zip-directory.js";

/** Throws the refusal of a file. @param advice replaces the usual one */
export type Refuse = (reason: string, advice?: string) => never;

const maxPickleBytes = 64 * 1024 * 1024;
const maxNoteBytes = 16;
/** Bytes of one read. */
const readBytes = 4 * 1024 * 1024;
const pickleName = "data.pkl";

interface Range {
  readonly start: number;
  readonly byteLength: number;
}

export class TorchArchive {
  /** Entry's name → a range whose checksum was right. */
  readonly #checked = new Map<string, Range>();
  #storageBytes = 0;

  private constructor(
    readonly part: OpenedPart,
    private readonly directory: ZipDirectory,
    private readonly prefix: string,
    private readonly refuse: Refuse,
  ) {}

  /** Opens the archive; one of another tool is refused by that tool's name. */
  static async open(part: OpenedPart, refuse: Refuse): Promise<TorchArchive> {
    const directory = await readZipDirectory(part, (reason) =>
      refuse(reason, "Copy it again from a complete one"),
    );
    const prefix = prefixOf([...directory.entries.keys()], refuse);
    const archive = new TorchArchive(part, directory, prefix, refuse);
    // Files of PyTorch before 2.1 do not state it.
    if (directory.entries.has(`${prefix}byteorder`)) {
      const order = (await archive.#inMemory("byteorder", maxNoteBytes)).toString("latin1");
      if (order !== "little")
        refuse(`its byte order is ${quoted(order)}, and only little-endian files are read`);
    }
    return archive;
  }

  /** The description of the tensors. */
  async pickle(): Promise<Buffer> {
    return await this.#inMemory(pickleName, maxPickleBytes);
  }

  /** The position of a storage's first byte. */
  async startOf({ key, dtype, elements }: Storage): Promise<number> {
    const name = `data/${key}`;
    const isNew = !this.#checked.has(name);
    const { start, byteLength } = await this.#range(name);
    const needed = tensorByteLength(dtype, [elements]);
    if (byteLength !== needed)
      this.refuse(`its entry ${quoted(name)} has ${byteLength} bytes, the storage needs ${needed}`);
    // Before the checksums: entries that share bytes could be many.
    if (isNew && (this.#storageBytes += byteLength) > this.part.size) this.refuse("its storages overlap");
    await this.#check(name, { start, byteLength });
    return start;
  }

  async #inMemory(name: string, maxBytes: number): Promise<Buffer> {
    const range = await this.#range(name);
    if (range.byteLength > maxBytes) this.refuse(`its entry ${quoted(name)} has more than ${maxBytes} bytes`);
    await this.#check(name, range);
    const bytes = Buffer.alloc(range.byteLength);
    await readFully(this.part.file, bytes, range.start, "The archive");
    return bytes;
  }

  async #range(name: string): Promise<Range> {
    const known = this.#checked.get(name);
    if (known !== undefined) return known;
    const entry = this.#entry(name);
    return {
      start: await dataStart(this.part, this.directory, entry, this.refuse),
      byteLength: entry.byteLength,
    };
  }

  #entry(name: string): NonNullable<ReturnType<ZipDirectory["entries"]["get"]>> {
    return (
      this.directory.entries.get(this.prefix + name) ?? this.refuse(`its entry ${quoted(name)} is missing`)
    );
  }

  /** PyTorch writes checksums and does not read them; a flipped bit is found here. */
  async #check(name: string, range: Range): Promise<void> {
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
        "Copy it again, or save it again without torch.serialization.set_crc32_options(False)",
      );
    this.#checked.set(name, range);
  }
}

/** The folder in the archive that has the description. */
function prefixOf(names: readonly string[], refuse: Refuse): string {
  const found = names.filter((name) => /^[^/]*\/data\.pkl$/.test(name));
  const write = "write its tensors with safetensors.numpy.save_file";
  if (names.includes("model.weights.h5"))
    return refuse("it is a Keras archive", `Load it with keras.models.load_model, and ${write}`);
  if (names.some((name) => name.endsWith(".npy")))
    return refuse("it is an archive of NumPy arrays", `Load it with numpy.load, and ${write}`);
  if (found.length !== 1) return refuse("it is a ZIP archive without data.pkl, or with several");
  const prefix = (found[0] as string).slice(0, -pickleName.length);
  return names.includes(`${prefix}constants.pkl`) ? refuse("it is a TorchScript program") : prefix;
}
