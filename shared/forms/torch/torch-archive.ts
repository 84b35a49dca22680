/** The archive that `torch.save` writes: finds its description and its storages. */
import { tensorByteLength } from "../../tensor/dtype.js";
import { quoted, type OpenedPart } from "../form.js";
import { ZipArchive, type Refuse } from "../zip-archive.js";
import type { Storage } from "./pickle-values.js";

const maxPickleBytes = 64 * 1024 * 1024;
const maxNoteBytes = 16;
const pickleName = "data.pkl";

export class TorchArchive {
  readonly #started = new Set<string>();
  #storageBytes = 0;

  private constructor(
    private readonly archive: ZipArchive,
    private readonly prefix: string,
    private readonly refuse: Refuse,
  ) {}

  /** Opens the archive; one of another tool is refused by that tool's name. */
  static async open(part: OpenedPart, refuse: Refuse): Promise<TorchArchive> {
    const archive = await ZipArchive.open(part, refuse);
    const prefix = prefixOf(archive.names, refuse);
    // Files of PyTorch before 2.1 do not state it.
    if (archive.has(`${prefix}byteorder`)) {
      const order = (await archive.inMemory(`${prefix}byteorder`, maxNoteBytes)).toString("latin1");
      if (order !== "little")
        refuse(`its byte order is ${quoted(order)}, and only little-endian files are read`);
    }
    return new TorchArchive(archive, prefix, refuse);
  }

  /** The description of the tensors. */
  async pickle(): Promise<Buffer> {
    return await this.archive.inMemory(this.prefix + pickleName, maxPickleBytes);
  }

  /** The position of a storage's first byte. */
  async startOf({ key, dtype, elements }: Storage): Promise<number> {
    const name = `${this.prefix}data/${key}`;
    const range = await this.archive.range(name);
    const needed = tensorByteLength(dtype, [elements]);
    if (range.byteLength !== needed)
      this.refuse(`its entry ${quoted(name)} has ${range.byteLength} bytes, the storage needs ${needed}`);
    // Before the checksums: entries that share bytes could be many.
    if (!this.#started.has(name) && (this.#storageBytes += range.byteLength) > this.archive.part.size)
      this.refuse("its storages overlap");
    this.#started.add(name);
    await this.archive.check(name, range);
    return range.start;
  }
}

/** The folder in the archive that has the description. */
function prefixOf(names: readonly string[], refuse: Refuse): string {
  const found = names.filter((name) => /^[^/]*\/data\.pkl$/.test(name));
  if (names.includes("model.weights.h5"))
    return refuse(
      "it is a Keras archive that another tool packed again",
      "Save it again with model.save of Keras, as a .keras file",
    );
  if (names.some((name) => name.endsWith(".npy")))
    return refuse(
      "it is an archive of NumPy arrays",
      "Load it with numpy.load, and write its tensors with safetensors.numpy.save_file",
    );
  if (found.length !== 1) return refuse("it is a ZIP archive without data.pkl, or with several");
  const prefix = (found[0] as string).slice(0, -pickleName.length);
  return names.includes(`${prefix}constants.pkl`) ? refuse("it is a TorchScript program") : prefix;
}
