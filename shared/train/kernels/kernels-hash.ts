/** Written by `npm run kernels`: SHA-256 of kernels.wasm, checked before it is instantiated. */
export const kernelsHash = "6c01b7228028b2758ae490581d290673a61abd8d085e6f660f8697c931579ab2";
