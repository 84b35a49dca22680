/**
 * Keeps the identities of layers by which models with a common prefix are found in one file (server/storage/lineage).
 * So the first question after a start does not compute them again. The cache may be deleted, and an entry
 * whose checksum is wrong is not used.
 *
 * Format 1: "STEMLAYR", format u32, form of the identities u32, then for each architecture: its id (32 bytes), number
 * of identities u32, the identities (32 bytes each), the first 16 bytes of the SHA-256 of all these.
 */
import { join } from "node:path";
import { layerIdentityForm } from "../../../shared/model/layer-identity.js";
import type { Files } from "../../../shared/ports.js";
import { sha256 } from "../../../shared/tensor/hash.js";
import type { Hash } from "../../../shared/tensor/tensor.js";
import { CacheFile } from "./state/cache-file.js";

const format = 1;
const head = Buffer.concat([Buffer.from("STEMLAYR"), Buffer.of(format, 0, 0, 0, layerIdentityForm, 0, 0, 0)]);
const hashBytes = 32;
const checksumBytes = 16;
const entryHeadBytes = hashBytes + 4;
/** An architecture of 40 layers takes 1.3 kB, so this is enough for 200,000 of them. */
const maxCacheBytes = 256 * 1024 * 1024;

export interface DecodedIdentities {
  /** Architecture → its entry. */
  readonly entries: Map<Hash, Uint8Array>;
  /** Length of the entries that were read, in bytes. */
  readonly end: number;
}

/** Decodes entries up to the first one that is damaged or incomplete. Never throws. */
export function decodeIdentities(bytes: Uint8Array): DecodedIdentities {
  const entries = new Map<Hash, Uint8Array>();
  const view = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  let at = 0;
  while (at + entryHeadBytes <= view.length) {
    const bodyBytes = entryHeadBytes + view.readUInt32LE(at + hashBytes) * hashBytes;
    const end = at + bodyBytes + checksumBytes;
    if (end > view.length) break;
    const entry = view.subarray(at, at + bodyBytes);
    if (!checksumOf(entry).equals(view.subarray(at + bodyBytes, end))) break;
    entries.set(hashAt(entry, 0), entry.subarray(entryHeadBytes));
    at = end;
  }
  return { entries, end: at };
}

function checksumOf(entry: Uint8Array): Buffer {
  return Buffer.from(sha256(entry), "hex").subarray(0, checksumBytes);
}

function hashAt(bytes: Uint8Array, at: number): Hash {
  return Buffer.from(bytes.buffer, bytes.byteOffset + at, hashBytes).toString("hex") as Hash;
}

export function encodeIdentities(architecture: Hash, identities: readonly Hash[]): Uint8Array {
  const count = Buffer.alloc(4);
  count.writeUInt32LE(identities.length);
  const body = Buffer.concat([
    Buffer.from(architecture, "hex"),
    count,
    ...identities.map((identity) => Buffer.from(identity, "hex")),
  ]);
  return Buffer.concat([body, checksumOf(body)]);
}

export class IdentityCache {
  readonly #file: CacheFile;
  #read: ReadonlyMap<Hash, Uint8Array> | undefined;
  /** Architectures that the file has, or gets with the next write. */
  #known = new Set<Hash>();
  #pending: Uint8Array[] = [];

  /** @param folder of the fleet */
  constructor(files: Files, folder: string) {
    this.#file = new CacheFile(files, { path: join(folder, "layers.cache"), head, maxBytes: maxCacheBytes });
  }

  /** Reads the file; until `forget`, `get` answers from it. */
  async load(): Promise<void> {
    const { entries, end } = decodeIdentities(await this.#file.read());
    this.#read = entries;
    this.#known = new Set(entries.keys());
    this.#file.appendAfter(end);
  }

  get(architecture: Hash): readonly Hash[] | undefined {
    const found = this.#read?.get(architecture);
    if (found === undefined) return undefined;
    return Array.from({ length: found.length / hashBytes }, (_, index) => hashAt(found, index * hashBytes));
  }

  /** Writes an architecture with the next `forget`, unless it is in the file. */
  add(architecture: Hash, identities: readonly Hash[]): void {
    if (this.#known.has(architecture)) return;
    this.#known.add(architecture);
    this.#pending.push(encodeIdentities(architecture, identities));
  }

  /** Frees what `load` read, and writes what was added. Never rejects. */
  async forget(): Promise<void> {
    this.#read = undefined;
    const entries = this.#pending;
    this.#pending = [];
    await this.#file.append(entries);
  }
}
