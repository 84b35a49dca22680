/** The backend contract, for the WebAssembly backend with fused and with only the necessary kernels. */
import { startWasmBackend } from "../../../../shared/train/backends/wasm.js";
import { backendContract } from "./backend-contract.js";

backendContract("wasm", (memoryLimitMb) => startWasmBackend({ memoryLimitMb }));
backendContract("wasm without fused kernels", (memoryLimitMb) =>
  startWasmBackend({ fused: false, memoryLimitMb }),
);
