/** Written by `npm run kernels`: SHA-256 of kernels.wasm, checked before it is instantiated. */
export const kernelsHash = "7cbf2f0259fb6244199740c667243a4fba20d9177a9445b5d27b2e1714b8e148";
