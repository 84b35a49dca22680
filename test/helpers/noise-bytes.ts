/** Incompressible bytes drawn from a seed (xorshift), for models whose content does not matter. */
export function noiseBytes(length: number, seed: number): Uint8Array {
  const bytes = new Uint8Array(length);
  let state = Math.imul(seed, 2654435761) >>> 0 || 1;
  for (let index = 0; index < length; index++) {
    state ^= state << 13;
    state >>>= 0;
    state ^= state >>> 17;
    state ^= state << 5;
    state >>>= 0;
    bytes[index] = state & 0xff;
  }
  return bytes;
}
