/** Reads and writes ZIP archives of stored entries, as PyTorch writes them, so that tests can change one entry. */
import { crc32 } from "node:zlib";

export type Entries = Map<string, Uint8Array>;

/** The entries of an archive that `torch.save` wrote. */
export function entriesOf(zip: Buffer): Entries {
  const entries: Entries = new Map();
  const end = zip.lastIndexOf(Buffer.from("PK\x05\x06"));
  for (let at = zip.readUInt32LE(end + 16); zip.readUInt32LE(at) === 0x02014b50;) {
    const [nameBytes, extraBytes] = [zip.readUInt16LE(at + 28), zip.readUInt16LE(at + 30)];
    const local = zip.readUInt32LE(at + 42);
    const start = local + 30 + zip.readUInt16LE(local + 26) + zip.readUInt16LE(local + 28);
    const name = zip.toString("utf8", at + 46, at + 46 + nameBytes);
    entries.set(name, zip.subarray(start, start + zip.readUInt32LE(at + 24)));
    at += 46 + nameBytes + extraBytes;
  }
  return entries;
}

export interface ZipChoices {
  /** All lengths and positions in ZIP64 fields, as in archives of more than 4 GiB. */
  readonly zip64?: boolean;
  readonly method?: number;
}

export function zipOf(entries: Entries, { zip64 = false, method = 0 }: ZipChoices = {}): Buffer {
  const parts: Buffer[] = [];
  const directory: Buffer[] = [];
  let at = 0;
  const add = (part: Buffer): void => {
    parts.push(part);
    at += part.length;
  };
  for (const [name, bytes] of entries) {
    const local = Buffer.alloc(30);
    local.writeUInt32LE(0x04034b50);
    local.writeUInt16LE(Buffer.byteLength(name), 26);
    const central = Buffer.alloc(46);
    central.writeUInt32LE(0x02014b50);
    central.writeUInt16LE(method, 10);
    central.writeUInt32LE(crc32(bytes), 16);
    central.writeUInt16LE(Buffer.byteLength(name), 28);
    const numbers = [bytes.length, bytes.length, at];
    [24, 20, 42].forEach((position, i) =>
      central.writeUInt32LE(zip64 ? 0xffffffff : (numbers[i] as number), position),
    );
    const extra = zip64 ? Buffer.concat([Buffer.from([1, 0, 24, 0]), ...numbers.map(u64)]) : Buffer.alloc(0);
    central.writeUInt16LE(extra.length, 30);
    directory.push(central, Buffer.from(name), extra);
    add(Buffer.concat([local, Buffer.from(name), bytes]));
  }
  const start = at;
  add(Buffer.concat(directory));
  const byteLength = at - start;
  const end64 = Buffer.concat([
    Buffer.from("PK\x06\x06"),
    Buffer.alloc(28),
    ...[entries.size, byteLength, start].map(u64),
  ]);
  const locator = Buffer.concat([Buffer.from("PK\x06\x07"), Buffer.alloc(4), u64(at), Buffer.alloc(4)]);
  if (zip64) add(Buffer.concat([end64, locator]));
  const end = Buffer.alloc(22);
  end.writeUInt32LE(0x06054b50);
  end.writeUInt16LE(zip64 ? 0xffff : entries.size, 10);
  end.writeUInt32LE(zip64 ? 0xffffffff : byteLength, 12);
  end.writeUInt32LE(zip64 ? 0xffffffff : start, 16);
  add(end);
  return Buffer.concat(parts);
}

function u64(value: number): Buffer {
  const bytes = Buffer.alloc(8);
  bytes.writeBigUInt64LE(BigInt(value));
  return bytes;
}
