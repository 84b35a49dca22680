/** The device's samples: durable once acknowledged, never stored twice, within their limits, pinned, and removable. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { segmentName } from "../../../../agent/intake/segment.js";
import { contentKey, splitByContent } from "../../../../shared/train/datasets/sample-split.js";
import { isStemmaError } from "../../../../shared/errors.js";
import { failNth, faultyFiles, fullAfter } from "../../../helpers/files/faulty-files.js";
import { memoryFiles } from "../../../helpers/files/memory-files.js";
import { samples as samplesReader } from "../../../../shared/train/datasets/samples.js";
import { testProfile } from "../../../helpers/agent-fixtures.js";
import { clock, coded, folder, many, openIntake, sample } from "./intake-fixtures.js";

describe("the intake", () => {
  it("keeps what it has acknowledged over a restart, and continues in a new segment", async () => {
    const files = memoryFiles();
    const first = await openIntake(files);
    assert.deepEqual(await first.append(many(7)), { accepted: 7, alreadyThere: 0, firstIndex: 0, end: 7 });
    await first.close();
    const second = await openIntake(files);
    assert.equal((await second.status()).samples, 7);
    await second.append(many(3));
    assert.deepEqual(
      [(await second.status()).samples, (await second.status()).segments, (await second.status()).end],
      [10, 2, 10],
    );
  });

  it("is read by the dataset reader as pinned, whatever arrived later", async () => {
    const files = memoryFiles();
    const intake = await openIntake(files);
    await intake.append(many(50));
    const { segments, range } = await intake.snapshot();
    await intake.append(many(50, 50));
    assert.deepEqual(range, { from: 0, to: 50 });
    const set = await samplesReader.read(
      { reader: "samples", location: folder, parameters: { segments, task: "classification", classes: 2 } },
      files,
    );
    assert.equal(set.train.count + set.validation.count + set.heldOut.count, 50);
    const sides = Array.from({ length: 100 }, (_, at) =>
      splitByContent(
        contentKey({ shape: [2], values: Float32Array.of(at, at + 0.5) }),
        testProfile().samples,
      ),
    );
    assert.equal(set.heldOut.count, sides.slice(0, 50).filter((side) => side === "held-out").length);
    assert.equal(set.train.count, sides.slice(0, 50).filter((side) => side === "train").length);
    assert.equal(await intake.trainSince(50), sides.slice(50).filter((side) => side === "train").length);
  });

  it("stores a batch once, even if it is submitted again", async () => {
    const files = memoryFiles();
    const intake = await openIntake(files);
    await intake.append(many(3), "batch-1");
    assert.equal((await intake.append(many(5), "batch-1")).accepted, 2);
    assert.equal(
      (await intake.append([sample(1, { id: "mine" }), sample(2, { id: "mine" })])).alreadyThere,
      1,
    );
    await intake.close();
    assert.equal((await (await openIntake(files)).append(many(5), "batch-1")).accepted, 0);
  });

  it("skips a torn tail and continues in another file", async () => {
    const files = memoryFiles();
    const intake = await openIntake(files);
    await intake.append(many(4));
    await intake.close();
    const file = await files.open(`${folder}/${segmentName(0)}`, "update");
    await file.truncate((await file.size()) - 3);
    await file.close();
    const again = await openIntake(files);
    assert.deepEqual([(await again.status()).samples, (await again.status()).damaged], [3, 1]);
    await again.append(many(2));
    await again.close();
    assert.deepEqual(await (await openIntake(files)).status(), await again.status());
  });

  it("reports what is wrong with a sample, and stores nothing of its batch", async () => {
    const intake = await openIntake(memoryFiles());
    for (const bad of [
      {},
      { label: 1 },
      { label: 1, values: [] },
      { label: 1, values: ["a"] },
      { label: 1, values: [1], shape: [2] },
      { label: 1, values: [1, NaN] },
      { label: 1, values: [1, 1e39] },
      { label: 1, values: [1, 1e-40] },
      { label: 1e39, values: [1] },
      { targets: { a: { shape: [1], values: [-1e39] } }, values: [1] },
      { label: 1, values: [1], colour: 2 },
      { label: 1, values: [1], split: "both" },
      { label: 1, values: "AAA=" },
      "text",
      null,
    ]) {
      await assert.rejects(intake.append([sample(1), bad]), coded("SAMPLE_INVALID"), JSON.stringify(bad));
    }
    assert.equal((await intake.status()).samples, 0);
  });

  it("drops the oldest segments at its limit but never pinned ones, and refuses when nothing can be dropped", async () => {
    const big = (count: number): unknown[] =>
      Array.from({ length: count }, (_, at) => ({ label: 0, values: new Array<number>(20_000).fill(at) }));
    const files = memoryFiles();
    const intake = await openIntake(files, { maxBytes: 4_000_000 });
    for (let batch = 0; batch < 10; batch++) await intake.append(big(8));
    assert.ok((await intake.status()).bytes <= 4_000_000);
    assert.ok(intake.range().from > 0 && (await intake.status()).end === 80);
    await intake.close();
    const range = intake.range();
    const pinned = await openIntake(files, { maxBytes: 4_000_000 }, { pins: [range] });
    await assert.rejects(async () => {
      for (let batch = 0; batch < 10; batch++) await pinned.append(big(8));
    }, coded("SAMPLE_QUOTA"));
    assert.equal(pinned.range().from, range.from);
  });

  it("drops what is too old", async () => {
    const files = memoryFiles();
    const intake = await openIntake(files, { maxAgeHours: 1 });
    await intake.append(many(2).map((one) => ({ ...(one as object), timeMs: clock.now() - 2 * 3_600_000 })));
    await intake.close();
    const again = await openIntake(files, { maxAgeHours: 1 });
    await again.append(many(1, 10));
    await again.append(many(1, 11));
    assert.deepEqual(again.range(), { from: 2, to: 4 });
  });

  it("returns the disk's error, keeps what was there, and continues when there is space", async () => {
    const inner = memoryFiles();
    const { plan, free } = fullAfter(300);
    const intake = await openIntake(faultyFiles(inner, plan));
    await intake.append(many(1));
    await assert.rejects(intake.append(many(50)), coded("DISK_FULL"));
    free(1_000_000);
    await intake.append(many(2, 10), "after");
    await intake.close();
    const found = await openIntake(inner);
    assert.ok((await found.status()).samples >= 3);
    assert.equal((await found.append(many(2, 10), "after")).accepted, 0);
  });

  it("keeps everything acknowledged after an error at any operation", async () => {
    for (let nth = 0; nth < 12; nth++) {
      const inner = memoryFiles();
      let answered = 0;
      try {
        const intake = await openIntake(faultyFiles(inner, failNth(nth, { code: "EIO", writtenShare: 0.5 })));
        for (let at = 0; at < 4; at++)
          await intake.append([sample(at, { id: `s${at}` })]).then(
            () => {
              answered++;
            },
            () => undefined,
          );
      } catch (error) {
        assert.ok(isStemmaError(error));
      }
      const found = await openIntake(inner);
      assert.ok(
        (await found.status()).samples >= answered,
        `operation ${nth}: ${answered} answered, ${(await found.status()).samples} there`,
      );
    }
  });
});

describe("removing samples", () => {
  it("removes their content from the disk for good, keeps the others' indices, and continues", async () => {
    const files = memoryFiles();
    const intake = await openIntake(files);
    await intake.append(many(5).map((one, at) => ({ ...(one as object), id: `secret-${at}` })));
    const { segments } = await intake.snapshot();
    assert.deepEqual(await intake.remove({ ids: ["secret-1", "secret-4", "none"] }), {
      removed: 2,
      trainedOn: 0,
      unknown: ["none"],
    });
    const text = Buffer.from(await files.read(`${folder}/${segmentName(0)}`)).toString("latin1");
    assert.deepEqual([text.includes("secret-1"), text.includes("secret-2")], [false, true]);
    // Trainings recorded the length of the segment; it stays.
    assert.deepEqual((await intake.snapshot()).segments, segments);
    assert.equal((await intake.append([sample(9, { id: "secret-4" })])).firstIndex, 5);
    await intake.close();
    const again = await openIntake(files);
    assert.deepEqual(
      (await again.list(9, false)).map(({ id, index }) => [id, index]),
      [
        ["secret-0", 0],
        ["secret-2", 2],
        ["secret-3", 3],
        ["secret-4", 5],
      ],
    );
    assert.deepEqual([again.range(), (await again.status()).damaged], [{ from: 0, to: 6 }, 0]);
  });

  it("removes what does not fit, or all, and counts what a model was trained on", async () => {
    const files = memoryFiles();
    const before = await openIntake(files);
    await before.append(many(3));
    await before.close();
    const form = { shape: [3], targetSize: 1 };
    const intake = await openIntake(files, {}, { form, pins: [{ from: 0, to: 4 }] });
    await intake.append([
      { label: 1, values: [1, 2, 3] },
      { label: 1, values: [1, 2, 4] },
    ]);
    assert.deepEqual(await intake.remove({ unfit: true }), { removed: 3, trainedOn: 0, unknown: [] });
    assert.deepEqual(await intake.remove({ all: true }), { removed: 2, trainedOn: 1, unknown: [] });
    assert.deepEqual([(await intake.status()).samples, (await intake.status()).end], [0, 5]);
    // Nothing decides the form any more but the model.
    await intake.append([{ label: 1, values: [1, 2, 3] }]);
    assert.equal((await intake.status()).samples, 1);
  });
});
