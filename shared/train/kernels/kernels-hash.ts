/** Written by `npm run kernels`: SHA-256 of kernels.wasm, checked before it is instantiated. */
export const kernelsHash = "f3b88f06f1d71b74229e29c43807df0d3e115dce31fa46fb7f3b31082c5f0688";
