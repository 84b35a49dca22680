/** The part of the split that a sample falls into: always the same for the same input. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { contentKey, splitByContent } from "../../../../shared/train/datasets/sample-split.js";
import { memoryFiles } from "../../../helpers/files/memory-files.js";
import { decodeSegment, samplesOf } from "../../../../shared/train/datasets/sample-format.js";
import { folder, openIntake, sample } from "./intake-fixtures.js";

describe("the split", () => {
  it("depends on the input alone, and divides many inputs by the shares", () => {
    const shares = { heldOutPercent: 20, validationPercent: 10 };
    const sides = Array.from({ length: 5000 }, (_, at) =>
      splitByContent(contentKey({ shape: [1], values: Float32Array.of(at) }), shares),
    );
    const heldOut = sides.filter((side) => side === "held-out").length;
    const validation = sides.filter((side) => side === "validation").length;
    // Binomial: standard deviations of 28 and 21.
    assert.ok(Math.abs(heldOut - 1000) < 150, `${heldOut} held out`);
    assert.ok(Math.abs(validation - 500) < 110, `${validation} for validation`);
    assert.notEqual(
      contentKey({ shape: [2, 1], values: new Float32Array(2) }),
      contentKey({ shape: [1, 2], values: new Float32Array(2) }),
    );
  });
  it("is the same for every copy of an input, with or without an id, over restarts, even if a copy names another", async () => {
    const files = memoryFiles();
    const values = Array.from({ length: 40 }, (_, at) => ({ label: at, values: [at, 7] }));
    const parts = new Map<string, Set<string>>();
    for (let round = 0; round < 3; round++) {
      const intake = await openIntake(files);
      await intake.append(values);
      await intake.append(values.map((value, at) => ({ ...value, label: at + 0.5, id: `r${round}-${at}` })));
      await intake.append(values.map((value) => ({ ...value, split: round === 0 ? "train" : "held-out" })));
      await intake.close();
    }
    for (const name of await files.list(folder))
      for (const sample of samplesOf(decodeSegment(await files.read(`${folder}/${name}`)))) {
        const key = sample.values.join();
        parts.set(key, (parts.get(key) ?? new Set()).add(sample.split));
      }
    assert.equal(parts.size, 40);
    for (const [key, splits] of parts) assert.equal(splits.size, 1, `${key}: ${[...splits].join()}`);
  });
  it("takes the part that the first of several equal inputs names", async () => {
    const intake = await openIntake(memoryFiles());
    await intake.append([sample(1, { id: "a", split: "held-out" }), sample(2, { id: "b", split: "train" })]);
    await intake.append([sample(1), sample(2)]);
    assert.deepEqual(
      (await intake.list(9, false)).map(({ split }) => split),
      ["held-out", "train", "held-out", "train"],
    );
  });
});
