/** Written by `npm run kernels`: SHA-256 of delta.wasm, checked before it is instantiated. */
export const deltaHash = "0bc4d8aa26313d93a784f6bfc44f25ffe843e7d48c8909211f1e243931cc94ad";
