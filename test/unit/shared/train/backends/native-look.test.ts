/** What people read about the backend says what was looked at, and nothing that was not. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { describeTrainingBackend } from "../../../../../shared/train/backends/native-look.js";

test("wasm trains, with what was found of the native backend", () => {
  assert.equal(describeTrainingBackend("wasm"), "wasm: the profile asks for wasm");
  const found = /^wasm: this release trains on wasm alone; @tensorflow\/tfjs-node-gpu is installed without/;
  assert.match(describeTrainingBackend(), found);
  assert.match(
    describeTrainingBackend("native"),
    /^wasm: the profile asks for native, but this release trains/,
  );
});
