/** Written by `npm run kernels`: SHA-256 of delta.wasm, checked before it is instantiated. */
export const deltaHash = "a8c22fe2cb177b8910e60a09099a5331b51645c02119ba933163e63e4de46e39";
