/** Written by `npm run kernels`: SHA-256 of delta.wasm, checked before it is instantiated. */
export const deltaHash = "534a417c11c01330bf3f4695ae72554b8f1d6c82ba19a683aa9e80367ed4ebee";
