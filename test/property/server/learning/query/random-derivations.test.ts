/** Random changes of random networks; random-derivations.slow.test.ts makes more of them. */
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { startWasmBackend, type StartedBackend } from "../../../../../shared/train/backends/wasm.js";
import { deriveRandomly } from "./same-network.js";

const seed = Number(process.env["STEMMA_TEST_SEED"] ?? 1);
let backend: StartedBackend;
// The engine's foldings depend on which layers read a convolution, so their rounding does.
before(async () => {
  backend = await startWasmBackend({ fused: false });
});
after(() => {
  backend.close();
});

test(`a derived model is refused with a reason, or runs with the source's weights (seed ${seed})`, async () => {
  const { made, sliced, refused } = await deriveRandomly(backend.tf, seed, 12);
  assert.ok(made > 3 && sliced > 3 && refused > 3, JSON.stringify({ made, sliced, refused }));
});
