/** The choice of the backend, and the reason that is reported for it. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { chooseBackend } from "../../../../../shared/train/backends/choose.js";

test("wasm is chosen, with the reason why native is not", () => {
  assert.deepEqual(chooseBackend({ preferred: "wasm" }), {
    backend: "wasm",
    reason: "the profile asks for wasm",
  });
  for (const facts of [{}, { preferred: "native" as const }]) {
    const choice = chooseBackend(facts);
    assert.equal(choice.backend, "wasm");
    assert.match(choice.reason, /tfjs-node-gpu is installed but not linked/);
  }
  assert.match(
    chooseBackend({ preferred: "native", linkedLibrary: "/opt/tensorflow" }).reason,
    /asks for native.*\/opt\/tensorflow/,
  );
});
