/** Written by `npm run kernels`: SHA-256 of kernels.wasm, checked before it is instantiated. */
export const kernelsHash = "a60af09a941bc0f45b7fa5171e281133bb1a7b74664b36d98403c145bcd71a72";
