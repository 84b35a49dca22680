/** The messages that describe an HDF5 object (HDF5 File Format Specification 3.0, IV.A.1.a, version 1 headers). */
import { positionAt, type MetadataReader } from "./metadata-reader.js";

export interface HeaderMessage {
  readonly type: number;
  /** True where `data` names another place that has the message. */
  readonly isShared: boolean;
  readonly data: Buffer;
}

export const messageTypes = {
  dataspace: 0x1,
  linkInfo: 0x2,
  datatype: 0x3,
  link: 0x6,
  externalFiles: 0x7,
  layout: 0x8,
  filters: 0xb,
  attribute: 0xc,
  continuation: 0x10,
  symbolTable: 0x11,
  attributeInfo: 0x15,
} as const;

const prefixBytes = 16;
const messageHeadBytes = 8;
const maxBlocks = 1_000;

export async function readMessages(
  reader: MetadataReader,
  address: number,
): Promise<readonly HeaderMessage[]> {
  const prefix = await reader.piece(address, prefixBytes, "an object");
  if (prefix.toString("latin1", 0, 4) === "OHDR") return refuseNewer(reader);
  if (prefix[0] !== 1) return reader.fail("an object is not where its name leads");
  const count = prefix.readUInt16LE(2);
  const blocks = [{ start: address + prefixBytes, byteLength: prefix.readUInt32LE(8) }];
  const messages: HeaderMessage[] = [];
  for (let i = 0; i < blocks.length && messages.length < count; i++) {
    const { start, byteLength } = blocks[i] as (typeof blocks)[number];
    const bytes = await reader.piece(start, byteLength, "the description of an object");
    for (let at = 0; at + messageHeadBytes <= bytes.length && messages.length < count;) {
      const end = at + messageHeadBytes + bytes.readUInt16LE(at + 2);
      if (end > bytes.length) return reader.fail("the description of an object is damaged");
      const data = bytes.subarray(at + messageHeadBytes, end);
      const type = bytes.readUInt16LE(at);
      messages.push({ type, isShared: ((bytes[at + 4] as number) & 2) !== 0, data });
      if (type === messageTypes.continuation) {
        if (blocks.length >= maxBlocks) return reader.fail("the description of an object leads in circles");
        blocks.push({
          start: positionAt(data, 0, reader.fail),
          byteLength: positionAt(data, 8, reader.fail),
        });
      }
      at = end;
    }
  }
  if (messages.length < count) return reader.fail("the description of an object ends early");
  return messages;
}

export function refuseNewer({ fail }: MetadataReader): never {
  return fail("it was written with a newer layout of HDF5 (libver) than Keras chooses");
}
