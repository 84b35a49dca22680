/** Written by `npm run kernels`: SHA-256 of kernels.wasm, checked before it is instantiated. */
export const kernelsHash = "e3935906c9884363f4df3840a1b1c87826861a333db61a91e18d2912aed3b1ff";
