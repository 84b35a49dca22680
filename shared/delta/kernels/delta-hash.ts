/** Written by `npm run kernels`: SHA-256 of delta.wasm, checked before it is instantiated. */
export const deltaHash = "bee3aa45c9742667ceeca12ecc247cf20858cbe87fe3e59379251c8ba4f21c5e";
