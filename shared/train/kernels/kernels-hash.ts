/** Written by `npm run kernels`: SHA-256 of kernels.wasm, checked before it is instantiated. */
export const kernelsHash = "4b7600bf3c3d6f69f890f59cb8e735ad352882ee31569c5584c5d40c52a79b9d";
