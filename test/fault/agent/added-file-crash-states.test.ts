/** Crashes while a file is added to an installed version: a reader always finds it sound, with the file or without. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { CurrentStore } from "../../../agent/current/current-store.js";
import { sha256 } from "../../../shared/tensor/hash.js";
import { checkCrashStates } from "../../helpers/crash-states.js";
import { manualClock } from "../../helpers/manual-clock.js";

const home = "/home/agent";
const clock = manualClock();
const versionId = sha256("version");
const model = new Uint8Array(1200).fill(7);
const original = new Uint8Array(1500).fill(9);
const added = { name: "original.safetensors", chunks: [original.subarray(0, 700), original.subarray(700)] };

test("a version stays sound, and has the whole file once that was acknowledged", async () => {
  await checkCrashStates<"installed" | "added">({
    name: "added file",
    async run(files, mark) {
      const store = await CurrentStore.open(files, home, clock);
      const slot = { versionId, name: "m", contentId: versionId, root: versionId };
      await store.install(slot, [{ name: "model.safetensors", chunks: [model] }]);
      mark("installed");
      await store.add(versionId, added);
      mark("added");
    },
    async check(files, marks) {
      const store = await CurrentStore.open(files, home, clock);
      if (!marks.includes("installed")) return;
      assert.equal(await store.isSound(versionId), true);
      assert.deepEqual(await store.fileOf(versionId, "model.safetensors"), model);
      if (marks.includes("added")) assert.equal(await store.lists(versionId, added.name), true);
      if (!(await store.lists(versionId, added.name))) await store.add(versionId, added);
      assert.deepEqual(await store.fileOf(versionId, added.name), original);
      assert.equal(await store.isSound(versionId), true);
    },
  });
});
