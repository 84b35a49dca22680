/** Each known remedy has a source, and is offered by what was loaded alone. */
import assert from "node:assert/strict";
import { test } from "node:test";
import {
  flags,
  flagsFor,
  unstableOperations,
  unstableOperationsOf,
} from "../../../../../shared/determinism/reproduce/remedies.js";

test("remedies have sources and fit what was loaded", () => {
  for (const { source } of [...flags, ...unstableOperations]) assert.ok(source.length > 10);
  const names = (loaded: readonly string[]): readonly string[] => flagsFor(loaded).map(({ name }) => name);
  assert.deepEqual(names(["python3.11", "libgomp.so.1"]), ["PYTHONHASHSEED", "OMP_NUM_THREADS"]);
  assert.deepEqual(names(["libgomp-a34b3233.so.1"]), ["OMP_NUM_THREADS"], "the copy in a wheel of PyTorch");
  assert.deepEqual(names(["node", "libstdc++.so.6", "libompl.so"]), []);
  assert.deepEqual(
    unstableOperationsOf(["libtorch_cpu.so"]).map(({ remedy }) => remedy),
    ["patched"],
  );
  assert.equal(unstableOperationsOf(["libm.so.6"]).length, 0);
});
