/** Written by `npm run kernels`: SHA-256 of kernels.wasm, checked before it is instantiated. */
export const kernelsHash = "012218865016d477ff37fe2001d3d5793d3906f352f18898f6ad10dcee47a432";
