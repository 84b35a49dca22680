/** Many random changes of random networks. */
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { startWasmBackend, type StartedBackend } from "../../../../../shared/train/backends/wasm.js";
import { deriveRandomly } from "./same-network.js";

const seed = 1000 + Number(process.env["STEMMA_TEST_SEED"] ?? Math.floor(performance.timeOrigin % 1e6));
let backend: StartedBackend;
// The engine's foldings depend on which layers read a convolution, so their rounding does.
before(async () => {
  backend = await startWasmBackend({ fused: false });
});
after(() => {
  backend.close();
});

test(`a derived model is refused with a reason, or runs with the source's weights (seed ${seed})`, async () => {
  const { made, sliced, refused } = await deriveRandomly(backend.tf, seed, 400);
  assert.ok(made > 100 && sliced > 100 && refused > 100, JSON.stringify({ made, sliced, refused }));
});
