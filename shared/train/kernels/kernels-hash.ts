/** Written by `npm run kernels`: SHA-256 of kernels.wasm, checked before it is instantiated. */
export const kernelsHash = "83a45b96bf51823c50a5572455f540df016ac468e4e36fba791aa1af94f28329";
