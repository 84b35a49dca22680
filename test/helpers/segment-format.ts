/** Journal segments of formats that do not exist yet. */
import { crc32 } from "node:zlib";

/** The segment as a newer format begins it: its header's CRC-32 covers the format field. */
export function segmentOfFormat(format: number, segment: Uint8Array): Uint8Array {
  const bytes = segment.slice();
  const view = new DataView(bytes.buffer);
  view.setUint32(8, format, true);
  view.setUint32(12, crc32(bytes.subarray(16, 64), crc32(bytes.subarray(8, 12))), true);
  return bytes;
}
