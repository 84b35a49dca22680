/** The states that a device keeps for the server: given in parts, replaced, and given up for anything else. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { KeptStates, type KeptTraining } from "../../../../agent/trainer/kept-states.js";
import { jobRoom } from "../../../../agent/trainer/training-job.js";
import { isStemmaError } from "../../../../shared/errors.js";
import type { Files } from "../../../../shared/ports.js";
import { sha256 } from "../../../../shared/tensor/hash.js";
import { keptStateName } from "../../../../shared/train/training.js";
import { keptStatePartBytes } from "../../../../shared/wire/kept-states.js";
import { testProfile } from "../../../helpers/agent-fixtures.js";
import { memoryFiles } from "../../../helpers/files/memory-files.js";
import { freeDisk } from "../../../helpers/free-disk.js";

const training = { invocation: 3, job: { base: sha256("base") } } as unknown as KeptTraining;
const [first, second] = [sha256("first"), sha256("second")];

async function left(files: Files, bytes: number): Promise<string> {
  await files.makeFolder("/home/work/kept");
  const file = await files.open(`/home/work/kept/${keptStateName(4)}`, "create");
  await file.write(Buffer.alloc(bytes, 7), 0);
  await file.close();
  return "/home/work/kept";
}

describe("kept states", () => {
  it("are given in parts, of their version and step alone", async () => {
    const files = memoryFiles();
    const states = new KeptStates({ files, home: "/home" });
    const bytes = keptStatePartBytes + 100;
    await states.replace("soh", first, { from: await left(files, bytes), training });
    const parts = [];
    for (const at of [0, keptStatePartBytes, bytes + 5])
      parts.push(await states.part({ versionId: first, step: 4, at }));
    assert.deepEqual(
      parts.map((part) => [part.bytes, Buffer.from(part.data, "base64").length]),
      [
        [bytes, keptStatePartBytes],
        [bytes, 100],
        [bytes, 0],
      ],
    );
    assert.deepEqual((await states.of(first)).training, training);
    for (const asked of [
      { versionId: second, step: 4, at: 0 },
      { versionId: first, step: 6, at: 0 },
    ])
      await assert.rejects(states.part(asked), (error) => isStemmaError(error, "NOT_FOUND"));
  });

  it("are not kept where the file with their training is damaged", async () => {
    const files = memoryFiles();
    const states = new KeptStates({ files, home: "/home" });
    await states.replace("soh", first, { from: await left(files, 10), training });
    const path = `/home/states/soh/${first}/training.json`;
    const whole = Buffer.from(await files.read(path)).toString();
    for (const damaged of [whole.slice(0, -1), whole.replace("job", "jOb"), "5", ""]) {
      await files.remove(path);
      const file = await files.open(path, "create");
      await file.write(Buffer.from(damaged), 0);
      await file.close();
      await assert.rejects(states.of(first), (error) => isStemmaError(error, "NOT_FOUND"), damaged);
    }
  });

  it("make room for those of the line's next training, and go with the line", async () => {
    const files = memoryFiles();
    const states = new KeptStates({ files, home: "/home" });
    await states.replace("soh", first, { from: await left(files, 10), training });
    await states.replace("soh", second, { from: await left(files, 10), training });
    await assert.rejects(states.of(first), (error) => isStemmaError(error, "NOT_FOUND"));
    await states.tidy(["soh"]);
    assert.ok((await states.bytes()) > 10);
    await states.tidy([]);
    assert.equal(await states.bytes(), 0);
  });

  it("go as soon as what they take is not left for a training", async () => {
    const files = memoryFiles();
    const states = new KeptStates({ files, home: "/home" });
    await states.replace("soh", first, { from: await left(files, 1000), training });
    const { disk } = testProfile();
    const use = async (free: number) => ({ ...freeDisk, states: await states.bytes(), free });
    await states.yielding(disk, () => use(2 ** 40));
    assert.ok((await states.bytes()) >= 1000);
    const after = await states.yielding(disk, () => use(0));
    assert.equal(after.states, 0);
    assert.equal(await states.bytes(), 0);
  });

  it("have at most half of the room that is left, and their own limit", () => {
    const settings = { everySteps: 1, maxCostPercent: 5, keepBytes: 100 };
    assert.deepEqual(jobRoom(1000, settings), { state: 900, kept: 100 });
    assert.deepEqual(jobRoom(100, settings), { state: 50, kept: 50 });
    assert.deepEqual(jobRoom(-5, settings), { state: 0, kept: 0 });
    assert.deepEqual(jobRoom(1000, undefined), { state: 1000, kept: 0 });
  });
});
