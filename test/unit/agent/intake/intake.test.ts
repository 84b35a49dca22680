/**
 * The device's samples: durable once acknowledged, never stored twice or in two parts of the split, within
 * their limits, and pinned where needed.
 */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import fc from "fast-check";
import { Intake, segmentFirstIndex, segmentName } from "../../../../agent/intake/intake.js";
import { planRetention, type SegmentInfo } from "../../../../agent/intake/retention.js";
import { splitByShare } from "../../../../agent/intake/sample-input.js";
import { takeFolderIn } from "../../../../agent/intake/watch-folder.js";
import { silentLog } from "../../../../shared/adapters/node-ports.js";
import { isStemmaError, type ErrorCode } from "../../../../shared/errors.js";
import { failNth, faultyFiles, fullAfter } from "../../../helpers/files/faulty-files.js";
import { memoryFiles } from "../../../helpers/files/memory-files.js";
import type { Files } from "../../../../shared/ports.js";
import { samples as samplesReader } from "../../../../shared/train/datasets/samples.js";
import { testProfile } from "../../../helpers/agent-fixtures.js";
import { manualClock } from "../../../helpers/manual-clock.js";

const folder = "/home/samples/cam";
const clock = manualClock();
const sample = (at: number, more: Record<string, unknown> = {}): Record<string, unknown> => ({
  label: at % 2,
  values: [at, at + 0.5],
  ...more,
});
const many = (count: number, from = 0): unknown[] =>
  Array.from({ length: count }, (_, at) => sample(from + at));
const coded =
  (code: ErrorCode) =>
  (error: unknown): boolean =>
    isStemmaError(error, code);

function open(
  files: Files,
  limits: Record<string, unknown> = {},
  pins: readonly { from: number; to: number }[] = [],
): Promise<Intake> {
  const changes = Object.fromEntries(
    Object.entries(limits).map(([name, value]) => [`samples.${name}`, value]),
  );
  return Intake.open({
    files,
    folder,
    line: "cam",
    limits: testProfile(changes).samples,
    clock,
    log: silentLog(),
    pins: () => pins,
  });
}

describe("the intake", () => {
  it("keeps what it has acknowledged over a restart, and continues in a new segment", async () => {
    const files = memoryFiles();
    const first = await open(files);
    assert.deepEqual(await first.append(many(7)), { accepted: 7, alreadyThere: 0, firstIndex: 0, end: 7 });
    await first.close();
    const second = await open(files);
    assert.equal(second.status().samples, 7);
    await second.append(many(3));
    assert.deepEqual([second.status().samples, second.status().segments, second.status().end], [10, 2, 10]);
  });

  it("is read by the dataset reader as pinned, whatever arrived later", async () => {
    const files = memoryFiles();
    const intake = await open(files);
    await intake.append(many(50));
    const { segments, range } = await intake.snapshot();
    await intake.append(many(50, 50));
    assert.deepEqual(range, { from: 0, to: 50 });
    const set = await samplesReader.read(
      { reader: "samples", location: folder, parameters: { segments, task: "classification", classes: 2 } },
      files,
    );
    assert.equal(set.train.count + set.validation.count + set.heldOut.count, 50);
    const sides = Array.from({ length: 100 }, (_, at) => splitByShare(at, testProfile().samples));
    assert.equal(set.heldOut.count, sides.slice(0, 50).filter((side) => side === "held-out").length);
    assert.equal(set.train.count, sides.slice(0, 50).filter((side) => side === "train").length);
    assert.equal(intake.trainSince(50), sides.slice(50).filter((side) => side === "train").length);
  });

  it("stores a batch once, even if it is submitted again", async () => {
    const files = memoryFiles();
    const intake = await open(files);
    await intake.append(many(3), "batch-1");
    assert.equal((await intake.append(many(5), "batch-1")).accepted, 2);
    assert.equal(
      (await intake.append([sample(1, { id: "mine" }), sample(2, { id: "mine" })])).alreadyThere,
      1,
    );
    await intake.close();
    assert.equal((await (await open(files)).append(many(5), "batch-1")).accepted, 0);
  });

  it("skips a torn tail and continues in another file", async () => {
    const files = memoryFiles();
    const intake = await open(files);
    await intake.append(many(4));
    await intake.close();
    const file = await files.open(`${folder}/${segmentName(0)}`, "update");
    await file.truncate((await file.size()) - 3);
    await file.close();
    const again = await open(files);
    assert.deepEqual([again.status().samples, again.status().damaged], [3, 1]);
    await again.append(many(2));
    await again.close();
    assert.deepEqual((await open(files)).status(), again.status());
  });

  it("reports what is wrong with a sample, and stores nothing of its batch", async () => {
    const intake = await open(memoryFiles());
    for (const bad of [
      {},
      { label: 1 },
      { label: 1, values: [] },
      { label: 1, values: ["a"] },
      { label: 1, values: [1], shape: [2] },
      { label: 1, values: [1, NaN] },
      { label: 1, values: [1], colour: 2 },
      { label: 1, values: [1], split: "both" },
      { label: 1, values: "AAA=" },
      "text",
      null,
    ]) {
      await assert.rejects(intake.append([sample(1), bad]), coded("SAMPLE_INVALID"), JSON.stringify(bad));
    }
    assert.equal(intake.status().samples, 0);
  });

  it("drops the oldest segments at its limit but never pinned ones, and refuses when nothing can be dropped", async () => {
    const big = (count: number): unknown[] =>
      Array.from({ length: count }, (_, at) => ({ label: 0, values: new Array<number>(20_000).fill(at) }));
    const files = memoryFiles();
    const intake = await open(files, { maxBytes: 4_000_000 });
    for (let batch = 0; batch < 10; batch++) await intake.append(big(8));
    assert.ok(intake.status().bytes <= 4_000_000);
    assert.ok(intake.range().from > 0 && intake.status().end === 80);
    await intake.close();
    const range = intake.range();
    const pinned = await open(files, { maxBytes: 4_000_000 }, [range]);
    await assert.rejects(async () => {
      for (let batch = 0; batch < 10; batch++) await pinned.append(big(8));
    }, coded("SAMPLE_QUOTA"));
    assert.equal(pinned.range().from, range.from);
  });

  it("drops what is too old", async () => {
    const files = memoryFiles();
    const intake = await open(files, { maxAgeHours: 1 });
    await intake.append(many(2).map((one) => ({ ...(one as object), timeMs: clock.now() - 2 * 3_600_000 })));
    await intake.close();
    const again = await open(files, { maxAgeHours: 1 });
    await again.append(many(1, 10));
    await again.append(many(1, 11));
    assert.deepEqual(again.range(), { from: 2, to: 4 });
  });

  it("returns the disk's error, keeps what was there, and continues when there is space", async () => {
    const inner = memoryFiles();
    const { plan, free } = fullAfter(300);
    const intake = await open(faultyFiles(inner, plan));
    await intake.append(many(1));
    await assert.rejects(intake.append(many(50)), coded("DISK_FULL"));
    free(1_000_000);
    await intake.append(many(2, 10), "after");
    await intake.close();
    const found = await open(inner);
    assert.ok(found.status().samples >= 3);
    assert.equal((await found.append(many(2, 10), "after")).accepted, 0);
  });

  it("keeps everything acknowledged after an error at any operation", async () => {
    for (let nth = 0; nth < 12; nth++) {
      const inner = memoryFiles();
      let answered = 0;
      try {
        const intake = await open(faultyFiles(inner, failNth(nth, { code: "EIO", writtenShare: 0.5 })));
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
      const found = await open(inner);
      assert.ok(
        found.status().samples >= answered,
        `operation ${nth}: ${answered} answered, ${found.status().samples} there`,
      );
    }
  });
});

describe("the watched folder", () => {
  const put = async (files: Files, name: string, text: string): Promise<void> => {
    await files.makeFolder("/inbox");
    const file = await files.open(`/inbox/${name}`, "create");
    await file.write(new TextEncoder().encode(text), 0);
    await file.close();
  };
  it("reads and removes complete files, sets invalid ones aside with the reason, and ignores others", async () => {
    const files = memoryFiles();
    const intake = await open(files);
    await put(
      files,
      "a.jsonl",
      many(3)
        .map((one) => JSON.stringify(one))
        .join("\n"),
    );
    await put(files, "b.jsonl", '{"label": 1}\n');
    await put(files, "c.part", "half a file");
    assert.equal(await takeFolderIn(files, "/inbox", intake, silentLog()), 3);
    assert.deepEqual(await files.list("/inbox"), ["b.jsonl.reason", "b.jsonl.refused", "c.part"]);
    assert.match(new TextDecoder().decode(await files.read("/inbox/b.jsonl.reason")), /values/);
  });
  it("adds nothing twice when a crash came between storing a file and removing it", async () => {
    const files = memoryFiles();
    const intake = await open(files);
    const text = many(3)
      .map((one) => JSON.stringify(one))
      .join("\n");
    for (let time = 0; time < 2; time++) {
      await put(files, `same-${time}.jsonl`, text);
      await takeFolderIn(files, "/inbox", intake, silentLog());
    }
    assert.equal(intake.status().samples, 3);
  });
});

describe("the split", () => {
  it("divides any hundred consecutive samples exactly, and never changes the part of a sample", () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 0, max: 1e9 }),
        fc.integer({ min: 0, max: 50 }),
        fc.integer({ min: 0, max: 40 }),
        (from, heldOutPercent, validationPercent) => {
          const sides = Array.from({ length: 100 }, (_, at) =>
            splitByShare(from + at, { heldOutPercent, validationPercent }),
          );
          assert.equal(sides.filter((side) => side === "held-out").length, heldOutPercent);
          assert.equal(sides.filter((side) => side === "validation").length, validationPercent);
        },
      ),
    );
  });
  it("names segments so that names sort like indices", () => {
    fc.assert(
      fc.property(fc.nat(), fc.nat(), (a, b) => {
        assert.equal(segmentName(a) < segmentName(b), a < b);
        assert.equal(segmentFirstIndex(segmentName(a)), a);
      }),
    );
  });
});

describe("retention", () => {
  it("never drops a pinned segment or the newest, and stops as soon as the limits are met", () => {
    const segments = fc
      .array(fc.record({ bytes: fc.nat(100), newestMs: fc.nat(100) }), { minLength: 1, maxLength: 12 })
      .map((list) =>
        list.map((one, at): SegmentInfo => ({
          ...one,
          name: String(at),
          firstIndex: at * 10,
          endIndex: at * 10 + 10,
        })),
      );
    fc.assert(
      fc.property(segments, fc.nat(120), fc.nat(600), (list, pinAt, maxBytes) => {
        const pin = { from: pinAt, to: pinAt + 5 };
        const { drop, bytes } = planRetention(list, [pin], { maxBytes, maxAgeMs: null }, 0);
        for (const name of drop) {
          const { firstIndex, endIndex } = list[Number(name)] as SegmentInfo;
          assert.ok(endIndex <= pin.from || firstIndex >= pin.to);
        }
        assert.ok(!drop.includes(String(list.length - 1)));
        const last = drop.at(-1);
        if (last !== undefined) assert.ok(bytes + (list[Number(last)] as SegmentInfo).bytes > maxBytes);
      }),
    );
  });
});
