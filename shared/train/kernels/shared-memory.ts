/**
 * Declares the memory of a WebAssembly module as shared between threads. The code stays as it is, byte for byte, so
 * that it computes the same bits with one thread and with several. Pure.
 * (https://webassembly.github.io/threads/core/binary/types.html#limits)
 */
import { StemmaError } from "../../errors.js";

/** "\0asm" and version 1. */
const magic = Buffer.from([0, 0x61, 0x73, 0x6d, 1, 0, 0, 0]);
const sections = { imports: 2, memories: 5 } as const;
const importKinds = { function: 0, table: 1, memory: 2, global: 3 } as const;
/** Bits of a memory's limits: it has a maximum; it is shared, which needs a maximum. */
const flags = { maximum: 1, shared: 2 } as const;
/** 4 GiB in pages of 64 KiB: what 32-bit addresses reach. */
const maxPages = 65_536;

/**
 * The module with its own or imported memory shared; limits keep their minimum and their maximum, if they have one.
 * @throws BACKEND_UNAVAILABLE where the bytes are not a module of a form that this reads
 */
export function withSharedMemory(module: Uint8Array): Uint8Array<ArrayBuffer> {
  if (!Buffer.from(module.subarray(0, magic.length)).equals(magic)) throw unreadable("it is not a module");
  const reader = new Reader(module);
  const parts: Uint8Array[] = [module.subarray(0, reader.position)];
  while (!reader.isAtEnd) {
    const start = reader.position;
    const id = reader.byte();
    const length = reader.number();
    const content = module.subarray(reader.position, reader.position + length);
    reader.position += length;
    if (reader.position > module.length) throw unreadable("it ends too early");
    if (id !== sections.imports && id !== sections.memories)
      parts.push(module.subarray(start, reader.position));
    else {
      const changed = id === sections.imports ? shareImport(content) : shareOwn(content);
      parts.push(Uint8Array.from([id, ...unsigned(changed.length)]), changed);
    }
  }
  return new Uint8Array(Buffer.concat(parts));
}

function shareOwn(content: Uint8Array): Uint8Array {
  const reader = new Reader(content, 0);
  const count = reader.number();
  if (count !== 1) throw unreadable(`it has ${count} memories`);
  return Uint8Array.from([1, ...sharedLimits(reader)]);
}

function shareImport(content: Uint8Array): Uint8Array {
  const reader = new Reader(content, 0);
  const imports = reader.number();
  for (let index = 0; index < imports; index++) {
    reader.skipText();
    reader.skipText();
    const kind = reader.byte();
    if (kind === importKinds.memory) {
      const head = content.subarray(0, reader.position);
      const limits = sharedLimits(reader);
      return new Uint8Array(
        Buffer.concat([head, Uint8Array.from(limits), content.subarray(reader.position)]),
      );
    }
    if (kind === importKinds.function) reader.number();
    else if (kind === importKinds.table) {
      reader.byte();
      readLimits(reader);
    } else if (kind === importKinds.global) reader.position += 2;
    else throw unreadable(`it imports something of the unknown kind ${kind}`);
  }
  return content;
}

function readLimits(reader: Reader): { minimum: number; maximum: number | undefined } {
  const kind = reader.byte();
  const minimum = reader.number();
  return { minimum, maximum: (kind & flags.maximum) === 0 ? undefined : reader.number() };
}

function sharedLimits(reader: Reader): number[] {
  const { minimum, maximum = maxPages } = readLimits(reader);
  return [flags.maximum | flags.shared, ...unsigned(minimum), ...unsigned(maximum)];
}

/** Encodes a number as unsigned LEB128. */
function unsigned(value: number): number[] {
  const bytes: number[] = [];
  let left = value;
  while (left >= 128) {
    bytes.push((left % 128) + 128);
    left = Math.floor(left / 128);
  }
  return [...bytes, left];
}

const unreadable = (reason: string): StemmaError =>
  new StemmaError(
    "BACKEND_UNAVAILABLE",
    `A WebAssembly module of the training engine cannot be given shared memory: ${reason}. Build or fetch the engine again.`,
  );

/** Reads a module or a section of it, never past its end. */
class Reader {
  constructor(
    readonly bytes: Uint8Array,
    /** The position, at first after magic and version. */
    public position = magic.length,
  ) {}

  get isAtEnd(): boolean {
    return this.position >= this.bytes.length;
  }

  byte(): number {
    const value = this.bytes[this.position++];
    if (value === undefined) throw unreadable("it ends too early");
    return value;
  }

  /** Unsigned LEB128 of at most 32 bits. */
  number(): number {
    let value = 0;
    for (let scale = 1; scale < 2 ** 35; scale *= 128) {
      const byte = this.byte();
      value += (byte & 127) * scale;
      if (byte < 128) return value;
    }
    throw unreadable("it holds a number that is too long");
  }

  skipText(): void {
    const length = this.number();
    this.position += length;
  }
}
