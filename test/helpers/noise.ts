/** Bytes that differ by seed and never compress; for models whose content does not matter. */
export function noise(length: number, seed: number): Uint8Array {
  const bytes = new Uint8Array(length);
  let state = Math.imul(seed, 2654435761) >>> 0 || 1;
  for (let at = 0; at < length; at++) {
    state ^= state << 13;
    state >>>= 0;
    state ^= state >>> 17;
    state ^= state << 5;
    state >>>= 0;
    bytes[at] = state & 0xff;
  }
  return bytes;
}
