/** Takes the place of ../backends/wasm.ts in the native runner. */
export { startNativeBackend as startWasmBackend } from "./start-native.js";
