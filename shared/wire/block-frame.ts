/**
 * Reserves space in front of a block's bytes, so that its envelope can be written there. Otherwise every byte
 * of a transfer would be copied once more.
 */

/** The bytes for any header without a correlation. */
const headroomBytes = 128;
/** Buffers whose reserved space is unused: a message that is being sent must not be overwritten. */
const free = new WeakSet<ArrayBufferLike>();

/** A buffer to read a block into; encodeEnvelope writes the header in front of it once, until reuseBlock. */
export function allocateBlock(byteLength: number): Uint8Array {
  // Buffers of Buffer.allocUnsafe are slices of a shared pool, in which nothing is reserved for this block.
  const buffer = Buffer.allocUnsafeSlow(headroomBytes + byteLength);
  free.add(buffer.buffer);
  return buffer.subarray(headroomBytes);
}

/** Lets encodeEnvelope write in front of a block again. Call when nothing refers to the message before any more. */
export function reuseBlock(block: Uint8Array): void {
  if (block.byteOffset === headroomBytes) free.add(block.buffer);
}

function varint(value: number): number[] {
  const bytes: number[] = [];
  for (; value >= 128; value = Math.floor(value / 128)) bytes.push((value % 128) + 128);
  bytes.push(value);
  return bytes;
}

/**
 * The same bytes as the generated encoder writes for an envelope with this block: `header` (fields 1 to 5),
 * then field 17 with the index (1) and the data (2). Undefined where the data has no free space in front of
 * it.
 */
export function frameBlock(header: Uint8Array, index: number, data: Uint8Array): Uint8Array | undefined {
  if (data.length === 0 || data.byteOffset !== headroomBytes || !free.has(data.buffer)) return undefined;
  const inner = [...(index === 0 ? [] : [0x08, ...varint(index)]), 0x12, ...varint(data.length)];
  const prefix = [0x8a, 0x01, ...varint(inner.length + data.length), ...inner];
  const length = header.length + prefix.length;
  if (length > headroomBytes) return undefined;
  free.delete(data.buffer);
  const framed = new Uint8Array(data.buffer, headroomBytes - length, length + data.length);
  framed.set(header);
  framed.set(prefix, header.length);
  return framed;
}
