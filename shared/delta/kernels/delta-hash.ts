/** Written by `npm run kernels`: SHA-256 of delta.wasm, checked before it is instantiated. */
export const deltaHash = "4e85ed2c2e97e5d999091b26c388fc938a290fab3bd07e876ae7de581e4847a5";
