/**
 * The committed WebAssembly of training is the pinned one, and shares the backend's memory safely
 * (test/unit/launcher/kernels.slow.test.ts compiles it).
 */
import { test } from "node:test";
import { kernelsHash } from "../../../../../shared/train/kernels/kernels-hash.js";
import {
  assertIsPinned,
  assertOnlyImportsMemory,
  readCommitted,
} from "../../../../helpers/committed-kernels.js";

test("the committed kernels have the pinned hash", () => assertIsPinned("train", kernelsHash));

test("the kernels have no data and no memory of their own, which would overwrite tensors", async () => {
  assertOnlyImportsMemory(await readCommitted("train"));
});
