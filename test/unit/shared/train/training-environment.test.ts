/**
 * The environment recorded for a training on this machine compares as the same here; otherwise every recovery
 * would warn needlessly.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { judgeEnvironment } from "../../../../shared/model/environment.js";
import { startWasmBackend } from "../../../../shared/train/backends/wasm.js";
import { builtInEngineFolder, engineIdOfFolder } from "../../../../shared/train/engine-folder.js";
import {
  environmentForTraining,
  environmentOfTraining,
} from "../../../../shared/train/training-environment.js";

test("a training on this machine records the environment of this machine; another engine differs", async () => {
  const engine = await engineIdOfFolder(builtInEngineFolder());
  const provenance = { environment: { threads: 2 } };
  const recorded = environmentOfTraining(
    { engine, backend: { backend: "wasm", reason: "" }, provenance },
    "1.0.0",
  );
  const here = await environmentForTraining("1.0.0", 2);
  assert.equal(recorded["library.@tensorflow/tfjs"], "4.22.0");
  assert.deepEqual(judgeEnvironment(recorded, here), { verdict: "same", differing: [] });
  const withOneThread = judgeEnvironment(recorded, await environmentForTraining("1.0.0", 1));
  assert.deepEqual(withOneThread, { verdict: "same", differing: [] });
  assert.equal(judgeEnvironment({ ...recorded, kernel: "another" }, here).verdict, "compatible");
  const other = judgeEnvironment({ ...recorded, engine: "0".repeat(64) }, here);
  assert.equal(other.verdict, "different");
  assert.deepEqual(
    other.differing.map(({ field }) => field),
    ["engine"],
  );
});

test("it has the order in which libraries were loaded, and that of the engine's backends", async (t) => {
  const { loadOrder, backendOrder } = await environmentForTraining("1.0.0", 1);
  const started = await startWasmBackend();
  t.after(() => {
    started.close();
  });
  const { registryFactory } = started.tf.engine();
  const byPriority = Object.entries(registryFactory).sort(([, a], [, b]) => b.priority - a.priority);
  assert.equal(backendOrder, byPriority.map(([name]) => name).join(", "));
  if (process.platform === "linux") assert.match(loadOrder ?? "", /libc\.so/);
});
