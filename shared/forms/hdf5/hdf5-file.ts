/**
 * HDF5 files as h5py writes them for Keras (File Format Specification 3.0): a tree of groups with texts as attributes,
 * and datasets that are stored in one piece. Everything else in them is refused by name. A reader of our own, because
 * it reads a file of any size by ranges and bounds whatever a hostile one can ask for.
 */
import { tensorByteLength, type DType } from "../../tensor/dtype.js";
import { quoted, type OpenedPart } from "../form.js";
import { groupLinks } from "./group-links.js";
import { MetadataReader, offsetAt, positionAt, type Fail } from "./metadata-reader.js";
import { messageTypes, readMessages, refuseNewer, type HeaderMessage } from "./object-header.js";
import { attributeOf, elementType, extentsOf, TextReader } from "./values.js";

export interface Hdf5Dataset {
  readonly dtype: DType;
  readonly shape: readonly number[];
  /** The first byte in the file. */
  readonly start: number;
}

export interface Hdf5Group {
  /** Attributes that are texts, or lists of texts. */
  readonly attributes: ReadonlyMap<string, readonly string[]>;
  readonly children: ReadonlyMap<string, Hdf5Group | Hdf5Dataset>;
}

export function isGroup(node: Hdf5Group | Hdf5Dataset | undefined): node is Hdf5Group {
  return node !== undefined && "children" in node;
}

export const hdf5Signature = Buffer.from("\x89HDF\r\n\x1a\n", "latin1");

const superblockBytes = 96;
const maxObjects = 500_000;
const maxDepth = 64;

/** Reads the tree; no dataset's numbers are read. @param fail throws the caller's error */
export async function readHdf5(part: OpenedPart, fail: Fail): Promise<Hdf5Group> {
  try {
    return await readTree(part, fail);
  } catch (error) {
    // Node's own check of a buffer's end, for every field that a damaged description leaves out.
    if (error instanceof RangeError) return fail("a part of its description is too short");
    throw error;
  }
}

async function readTree(part: OpenedPart, fail: Fail): Promise<Hdf5Group> {
  const reader = new MetadataReader(part, fail);
  const head = await reader.piece(0, superblockBytes, "the beginning");
  if (!head.subarray(0, 8).equals(hdf5Signature)) fail("it does not begin as an HDF5 file");
  const version = head[8] as number;
  if (version > 1) return refuseNewer(reader);
  if (head[13] !== 8 || head[14] !== 8) fail("its positions do not have 8 bytes");
  const fields = version === 1 ? 28 : 24;
  if (positionAt(head, fields, fail) !== 0) fail("it is embedded in another file");
  const end = positionAt(head, fields + 16, fail);
  if (end > part.size) fail(`it has ${part.size} of ${end} bytes: it was cut short`);
  const root = await new TreeReader(reader).object(positionAt(head, fields + 40, fail), "/", 0);
  return isGroup(root) ? root : fail("it has no groups");
}

class TreeReader {
  readonly #texts: TextReader;
  readonly #seen = new Set<number>();
  #datasetBytes = 0;

  constructor(private readonly reader: MetadataReader) {
    this.#texts = new TextReader(reader);
  }

  async object(address: number, path: string, depth: number): Promise<Hdf5Group | Hdf5Dataset> {
    const { fail } = this.reader;
    // Each object once, so that neither circles nor names that share an object make the tree larger than the file.
    if (this.#seen.has(address)) fail(`${quoted(path)} is another object under a second name`);
    this.#seen.add(address);
    if (this.#seen.size > maxObjects) fail(`it has more than ${maxObjects} groups and datasets`);
    if (depth > maxDepth) fail(`its groups are nested deeper than ${maxDepth}`);
    const messages = await readMessages(this.reader, address);
    const table = dataOf(messages, "symbolTable");
    if (table !== undefined) return await this.#group(messages, { table, path, depth });
    if (dataOf(messages, "linkInfo") !== undefined || dataOf(messages, "link") !== undefined)
      return refuseNewer(this.reader);
    return this.#dataset(messages, path);
  }

  async #group(
    messages: readonly HeaderMessage[],
    { table, path, depth }: { readonly table: Buffer; readonly path: string; readonly depth: number },
  ): Promise<Hdf5Group> {
    const attributes = await this.#attributes(messages);
    const children = new Map<string, Hdf5Group | Hdf5Dataset>();
    for (const { name, address } of await groupLinks(this.reader, table)) {
      if (children.has(name)) this.reader.fail(`${quoted(path)} has two entries ${quoted(name)}`);
      const below = path === "/" ? name : `${path}/${name}`;
      children.set(name, await this.object(address, below, depth + 1));
    }
    return { attributes, children };
  }

  async #attributes(messages: readonly HeaderMessage[]): Promise<Hdf5Group["attributes"]> {
    const found = new Map<string, readonly string[]>();
    for (const { type, data, isShared } of messages) {
      // Attributes that are kept apart (IV.A.2.v): a newer layout.
      if (type === messageTypes.attributeInfo) refuseNewer(this.reader);
      if (type !== messageTypes.attribute) continue;
      if (isShared) this.reader.fail("an attribute is kept elsewhere");
      const attribute = attributeOf(data, this.reader.fail);
      const texts = await this.#texts.texts(attribute);
      // An empty list has no type that tells it from one of numbers.
      if (texts !== undefined || attribute.count === 0) found.set(attribute.name, texts ?? []);
    }
    return found;
  }

  #dataset(messages: readonly HeaderMessage[], path: string): Hdf5Dataset {
    const fail: Fail = (reason) => this.reader.fail(`${quoted(path)} ${reason}`);
    const [type, space, layout] = (["datatype", "dataspace", "layout"] as const).map((name) =>
      dataOf(messages, name),
    );
    if (type === undefined || space === undefined || layout === undefined)
      return fail("is neither a group nor a dataset");
    if (dataOf(messages, "externalFiles") !== undefined) fail("has its numbers in another file");
    if (dataOf(messages, "filters") !== undefined) fail("is compressed");
    const element = elementType(type);
    if (element.kind !== "number")
      return fail(`consists of ${element.kind === "unknown" ? element.name : "texts"}, and not of numbers`);
    const { dtype } = element;
    const shape = extentsOf(space, fail) ?? fail("has no shape");
    const byteLength = tensorByteLength(dtype, shape);
    const start = this.#startOf(layout, byteLength, fail);
    if (start + byteLength > this.reader.part.size) fail("is outside the file: it was cut short");
    if ((this.#datasetBytes += byteLength) > this.reader.part.size) fail("overlaps other datasets");
    return { dtype, shape, start };
  }

  /** The first byte of a dataset that is stored in one piece (IV.A.2.i). */
  #startOf(layout: Buffer, byteLength: number, fail: Fail): number {
    if (layout[0] !== 3) refuseNewer(this.reader);
    if (layout[1] !== 1) fail("is stored in chunks");
    const start = offsetAt(layout, 2, fail);
    if (start !== undefined) return start;
    return byteLength === 0 ? 0 : fail("was never written");
  }
}

/** The data of the message of a type; a second one, or one that is elsewhere, counts as none. */
function dataOf(messages: readonly HeaderMessage[], type: keyof typeof messageTypes): Buffer | undefined {
  const found = messages.filter((message) => message.type === messageTypes[type]);
  return found.length === 1 && found[0]?.isShared === false ? found[0].data : undefined;
}
