/** Written by `npm run kernels`: SHA-256 of kernels.wasm, checked before it is instantiated. */
export const kernelsHash = "665d42539cb0ea2de20f9c3297433be775b872a31eb0bfde61c211f2b0a65dc7";
