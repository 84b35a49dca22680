/**
 * The committed WebAssembly of training is what its sources compile to, and shares the backend's memory
 * safely.
 */
import { test } from "node:test";
import { kernelsHash } from "../../../../../shared/train/kernels/kernels-hash.js";
import {
  assertIsCompiled,
  assertOnlyImportsMemory,
  readCommitted,
} from "../../../../helpers/committed-kernels.js";

test("the committed kernels are what their sources compile to, and have the pinned hash", () =>
  assertIsCompiled("train", kernelsHash));

test("the kernels have no data and no memory of their own, which would overwrite tensors", async () => {
  assertOnlyImportsMemory(await readCommitted("train"));
});
