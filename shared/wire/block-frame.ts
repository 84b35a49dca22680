/**
 * Room before a block's bytes, so that its envelope can be written in front of them instead of
 * copying them into another buffer. A large transfer would otherwise copy every byte once more.
 */

/** Enough for every header without a correlation. */
const headroomBytes = 128;
/**
 * Buffers whose room is still free: each is used once, so that a message on its way is never written over.
 */
const free = new WeakSet<ArrayBufferLike>();

/** Bytes for a block to be read into; encodeEnvelope writes the header in front of them once. */
export function allocateBlock(byteLength: number): Uint8Array {
  // not Buffer.allocUnsafe's shared pool: the room must belong to this block alone
  const buffer = Buffer.allocUnsafeSlow(headroomBytes + byteLength);
  free.add(buffer.buffer);
  return buffer.subarray(headroomBytes);
}

function varint(value: number): number[] {
  const bytes: number[] = [];
  for (; value >= 128; value = Math.floor(value / 128)) bytes.push((value % 128) + 128);
  bytes.push(value);
  return bytes;
}

/**
 * The same bytes as the generated encoder makes for an envelope whose body is this block: `header` (fields 1
 * to 5), then field 17 with the index (1) and the data (2). Undefined where the data has no room in front of
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
