/**
 * Allocates a buffer of its own (not a slice of Node's pool) that is not zeroed. The caller overwrites all of
 * it, and zeroing would take longer than a copy.
 */
export function uninitializedBytes(length: number): Uint8Array {
  return new Uint8Array(Buffer.allocUnsafeSlow(length).buffer);
}
