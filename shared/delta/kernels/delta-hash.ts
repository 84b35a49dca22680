/** Written by `npm run kernels`: SHA-256 of delta.wasm, checked before it is instantiated. */
export const deltaHash = "2175383cfb997b063ee6691247db9f95a2ad5444f17b4b75f7eda90f7b9a30ff";
