/** Types, shapes and attributes of HDF5 (File Format Specification 3.0, IV.A.2.b, d and m). */
import { tensorByteLength, type DType } from "../../tensor/dtype.js";
import { quoted } from "../form.js";
import { positionAt, type Fail, type MetadataReader } from "./metadata-reader.js";

export type ElementType =
  | { readonly kind: "number"; readonly dtype: DType; readonly bytes: number }
  | { readonly kind: "text"; readonly bytes: number }
  /** Texts of any length, elsewhere in the file. */
  | { readonly kind: "heapText"; readonly bytes: 16 }
  | { readonly kind: "unknown"; readonly name: string; readonly bytes: number };

const typeHeadBytes = 8;

/** The type at the start of a message. */
export function elementType(data: Buffer): ElementType {
  const bytes = data.readUInt32LE(4);
  const flags = data[1] as number;
  const unknown = (name: string): ElementType => ({ kind: "unknown", name, bytes });
  switch ((data[0] as number) & 0xf) {
    case 0:
      return integerOf(flags, bytes) ?? unknown("big-endian or unusual integers");
    case 1:
      return floatOf(data) ?? unknown("big-endian or unusual floating point numbers");
    case 3:
      return { kind: "text", bytes };
    case 8:
      return isBoolean(data) ? { kind: "number", dtype: "BOOL", bytes: 1 } : unknown("an enumeration");
    case 9:
      return (flags & 0xf) === 1 && bytes === 16
        ? { kind: "heapText", bytes }
        : unknown("lists of any length");
    default:
      return unknown("structures");
  }
}

function integerOf(flags: number, bytes: number): ElementType | undefined {
  if ((flags & 1) === 1 || ![1, 2, 4, 8].includes(bytes)) return undefined;
  const dtype = `${(flags & 8) === 0 ? "U" : "I"}${bytes * 8}` as DType;
  return { kind: "number", dtype, bytes };
}

/** Bytes, exponent's and mantissa's bits → type. */
const floats: Readonly<Record<string, DType>> = {
  "2 5 10": "F16",
  "2 8 7": "BF16",
  "4 8 23": "F32",
  "8 11 52": "F64",
};

function floatOf(data: Buffer): ElementType | undefined {
  const bytes = data.readUInt32LE(4);
  const dtype = floats[`${bytes} ${data[typeHeadBytes + 5]} ${data[typeHeadBytes + 7]}`];
  return ((data[1] as number) & 0x41) !== 0 || dtype === undefined
    ? undefined
    : { kind: "number", dtype, bytes };
}

/** h5py writes booleans as an enumeration of FALSE and TRUE over bytes. */
function isBoolean(data: Buffer): boolean {
  const rest = data.subarray(typeHeadBytes + typeHeadBytes + 4).toString("latin1");
  return data.readUInt32LE(4) === 1 && data.readUInt16LE(1) === 2 && /^FALSE\0+TRUE\0+\x01/.test(rest);
}

/** The extents of a dataspace, [] for a single value; undefined for none at all. */
export function extentsOf(data: Buffer, fail: Fail): readonly number[] | undefined {
  const [version, rank = 0] = data;
  if ((version !== 1 && version !== 2) || rank > 32) return fail("a shape is damaged");
  if (version === 2 && data[3] === 2) return undefined;
  const start = version === 1 ? 8 : 4;
  return Array.from({ length: rank }, (_, axis) => positionAt(data, start + 8 * axis, fail));
}

export interface RawAttribute {
  readonly name: string;
  readonly type: ElementType;
  readonly count: number;
  readonly values: Buffer;
}

const padded = (length: number): number => Math.ceil(length / 8) * 8;

/** An attribute's message. */
export function attributeOf(data: Buffer, fail: Fail): RawAttribute {
  const version = data[0];
  if (version === undefined || version < 1 || version > 3) return fail("an attribute is damaged");
  const sizes = [data.readUInt16LE(2), data.readUInt16LE(4), data.readUInt16LE(6)] as const;
  const room = version === 1 ? padded : (length: number): number => length;
  const nameAt = version === 3 ? 9 : 8;
  const typeAt = nameAt + room(sizes[0]);
  const spaceAt = typeAt + room(sizes[1]);
  const valuesAt = spaceAt + room(sizes[2]);
  if (valuesAt > data.length) return fail("an attribute is cut short");
  const name = data.toString("utf8", nameAt, nameAt + sizes[0]).replace(/\0.*$/s, "");
  if (version > 1 && data[1] !== 0) return fail(`the attribute ${quoted(name)} has a type that is elsewhere`);
  const type = elementType(data.subarray(typeAt, spaceAt));
  const extents = extentsOf(data.subarray(spaceAt, valuesAt), fail);
  const count = extents === undefined ? 0 : tensorByteLength("U8", extents);
  const values = data.subarray(valuesAt, valuesAt + count * type.bytes);
  if (values.length < count * type.bytes) return fail(`the attribute ${quoted(name)} is cut short`);
  return { name, type, count, values };
}

const heapHeadBytes = 16;
const maxTexts = 1_000_000;
const maxTextBytes = 256 * 1024 * 1024;

/** Reads attributes that are texts; those of any length are in heaps (III.E, "Global Heap"). */
export class TextReader {
  #heap: { readonly address: number; readonly bytes: Buffer } | undefined;
  #texts = 0;
  #bytes = 0;

  constructor(private readonly reader: MetadataReader) {}

  /** The texts of an attribute; undefined where it has something else. */
  async texts({ name, type, count, values }: RawAttribute): Promise<readonly string[] | undefined> {
    if (type.kind !== "text" && type.kind !== "heapText") return undefined;
    if ((this.#texts += count) > maxTexts) this.#tooMany();
    const texts: string[] = [];
    for (let i = 0; i < count; i++) {
      const value = values.subarray(i * type.bytes, (i + 1) * type.bytes);
      const bytes = type.kind === "text" ? value : await this.#fromHeap(value, name);
      if ((this.#bytes += bytes.length) > maxTextBytes) this.#tooMany();
      texts.push(bytes.toString("utf8").replace(/\0+$/, ""));
    }
    return texts;
  }

  #tooMany(): never {
    return this.reader.fail("its attributes have too many texts");
  }

  async #fromHeap(value: Buffer, name: string): Promise<Buffer> {
    const { fail } = this.reader;
    const length = value.readUInt32LE(0);
    if (length === 0) return Buffer.alloc(0);
    const heap = await this.#heapAt(positionAt(value, 4, fail));
    const wanted = value.readUInt32LE(12);
    for (let at = heapHeadBytes; at + heapHeadBytes <= heap.length;) {
      const index = heap.readUInt16LE(at);
      const byteLength = positionAt(heap, at + 8, fail);
      const start = at + heapHeadBytes;
      if (index === 0) break;
      if (index === wanted && length <= byteLength && start + length <= heap.length)
        return heap.subarray(start, start + length);
      at = start + padded(byteLength);
    }
    return fail(`a text of the attribute ${quoted(name)} is not where it should be`);
  }

  async #heapAt(address: number): Promise<Buffer> {
    if (this.#heap?.address === address) return this.#heap.bytes;
    const { reader } = this;
    const head = await reader.piece(address, heapHeadBytes, "a heap of texts");
    if (head.toString("latin1", 0, 4) !== "GCOL") reader.fail("a heap of texts is damaged");
    const bytes = await reader.piece(address, positionAt(head, 8, reader.fail), "a heap of texts");
    this.#heap = { address, bytes };
    return bytes;
  }
}
