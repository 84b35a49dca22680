/** Written by `npm run kernels`: SHA-256 of delta.wasm, checked before it is instantiated. */
export const deltaHash = "a5cd9a2d75ecf6f2b1b2c71dd733eae155527531ebd599dc04224557e3cf93cb";
