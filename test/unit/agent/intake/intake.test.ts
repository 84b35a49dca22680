/**
 * The device's samples: durable once acknowledged, never stored twice or in two parts of the split, within
 * their limits, and pinned where needed.
 */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import fc from "fast-check";
import { Intake } from "../../../../agent/intake/intake.js";
import { segmentFirstIndex, segmentName } from "../../../../agent/intake/segment.js";
import type { SampleForm } from "../../../../shared/train/datasets/sample-form.js";
import { parseTargets } from "../../../../shared/train/datasets/target-form.js";
import { contentKey, splitByContent } from "../../../../shared/train/datasets/sample-split.js";
import { planRetention, type SegmentInfo } from "../../../../agent/intake/retention.js";
import { takeFolderIn } from "../../../../agent/intake/watch-folder.js";
import { silentLog } from "../../../../shared/adapters/node-ports.js";
import { isStemmaError, type ErrorCode } from "../../../../shared/errors.js";
import { failNth, faultyFiles, fullAfter } from "../../../helpers/files/faulty-files.js";
import { memoryFiles } from "../../../helpers/files/memory-files.js";
import { decodeSegment, samplesOf } from "../../../../shared/train/datasets/sample-format.js";
import type { SampleSet } from "../../../../shared/train/datasets/dataset.js";
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
  {
    pins = [],
    form = {},
  }: { readonly pins?: readonly { from: number; to: number }[]; readonly form?: SampleForm } = {},
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
    neededForm: () => Promise.resolve(form),
  });
}

describe("the intake", () => {
  it("keeps what it has acknowledged over a restart, and continues in a new segment", async () => {
    const files = memoryFiles();
    const first = await open(files);
    assert.deepEqual(await first.append(many(7)), { accepted: 7, alreadyThere: 0, firstIndex: 0, end: 7 });
    await first.close();
    const second = await open(files);
    assert.equal((await second.status()).samples, 7);
    await second.append(many(3));
    assert.deepEqual(
      [(await second.status()).samples, (await second.status()).segments, (await second.status()).end],
      [10, 2, 10],
    );
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
    assert.deepEqual([(await again.status()).samples, (await again.status()).damaged], [3, 1]);
    await again.append(many(2));
    await again.close();
    assert.deepEqual(await (await open(files)).status(), await again.status());
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
    assert.equal((await intake.status()).samples, 0);
  });

  it("drops the oldest segments at its limit but never pinned ones, and refuses when nothing can be dropped", async () => {
    const big = (count: number): unknown[] =>
      Array.from({ length: count }, (_, at) => ({ label: 0, values: new Array<number>(20_000).fill(at) }));
    const files = memoryFiles();
    const intake = await open(files, { maxBytes: 4_000_000 });
    for (let batch = 0; batch < 10; batch++) await intake.append(big(8));
    assert.ok((await intake.status()).bytes <= 4_000_000);
    assert.ok(intake.range().from > 0 && (await intake.status()).end === 80);
    await intake.close();
    const range = intake.range();
    const pinned = await open(files, { maxBytes: 4_000_000 }, { pins: [range] });
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
    assert.ok((await found.status()).samples >= 3);
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
        (await found.status()).samples >= answered,
        `operation ${nth}: ${answered} answered, ${(await found.status()).samples} there`,
      );
    }
  });
});

describe("the form of a line's samples", () => {
  const model: SampleForm = { shape: [2], targetSize: 1 };

  it("is the model's: others are refused, and nothing of their batch is stored", async () => {
    const intake = await open(memoryFiles(), {}, { form: model });
    for (const bad of [
      { label: 1, values: [1, 2, 3] },
      { label: 1, values: [1, 2], shape: [2, 1] },
      { label: [1, 2], values: [1, 2] },
    ])
      await assert.rejects(intake.append([sample(1), bad]), coded("SAMPLE_INVALID"), JSON.stringify(bad));
    assert.equal((await intake.status()).samples, 0);
    const classes = await open(memoryFiles(), {}, { form: { targetSize: 1, classes: 3 } });
    for (const label of [3, -1, 0.5])
      await assert.rejects(classes.append([{ label, values: [1] }]), coded("SAMPLE_INVALID"));
    assert.equal((await classes.append([{ label: 2, values: [1] }])).accepted, 1);
  });

  it("is that of the samples before where no model decides it, also within a batch and where the model leaves a size open", async () => {
    const intake = await open(memoryFiles());
    await assert.rejects(
      intake.append([sample(1), { label: 1, values: [1, 2, 3] }]),
      coded("SAMPLE_INVALID"),
    );
    await intake.append([sample(1)]);
    await assert.rejects(intake.append([{ label: 1, values: [1, 2, 3] }]), coded("SAMPLE_INVALID"));
    const anyLength = await open(memoryFiles(), {}, { form: { shape: [null, 1], targetSize: 1 } });
    await anyLength.append([{ label: 1, shape: [2, 1], values: [1, 2] }]);
    await assert.rejects(
      anyLength.append([{ label: 1, shape: [3, 1], values: [1, 2, 3] }]),
      coded("SAMPLE_INVALID"),
    );
  });

  it("changes with the model: stored samples that no longer fit are counted, listed and not trained on", async () => {
    const files = memoryFiles();
    const before = await open(files);
    await before.append(many(60));
    await before.close();
    const intake = await open(files, {}, { form: { shape: [3], targetSize: 1 } });
    assert.deepEqual([(await intake.status()).unfit, await intake.trainSince(0)], [60, 0]);
    await intake.append(Array.from({ length: 60 }, (_, at) => ({ label: at, values: [at, 1, 2] })));
    const { form, usable, unfit, segments } = await intake.snapshot();
    assert.deepEqual([usable, unfit], [60, 60]);
    assert.equal((await intake.list(5, true)).length, 5);
    assert.ok((await intake.list(200, true)).every(({ unfit: why }) => why !== null));
    const read = (parameters: Record<string, readonly string[] | number>): Promise<SampleSet> =>
      Promise.resolve(
        samplesReader.read(
          { reader: "samples", location: folder, parameters: { segments, ...parameters } },
          files,
        ),
      );
    const set = await read({ shape: (form.shape ?? []).map(String), targetSize: 1 });
    assert.equal(set.train.count + set.validation.count + set.heldOut.count, 60);
    assert.deepEqual([set.inputShape, set.description["skipped"]], [[3], 60]);
    await assert.rejects(read({}), coded("DATASET_MALFORMED"));
    await assert.rejects(read({ shape: ["9"] }), coded("DATASET_EMPTY"));
  });
});

describe("removing samples", () => {
  it("removes their content from the disk for good, keeps the others' indices, and continues", async () => {
    const files = memoryFiles();
    const intake = await open(files);
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
    const again = await open(files);
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
    const before = await open(files);
    await before.append(many(3));
    await before.close();
    const form = { shape: [3], targetSize: 1 };
    const intake = await open(files, {}, { form, pins: [{ from: 0, to: 4 }] });
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
    assert.equal((await intake.status()).samples, 3);
  });
});

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
      const intake = await open(files);
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
    const intake = await open(memoryFiles());
    await intake.append([sample(1, { id: "a", split: "held-out" }), sample(2, { id: "b", split: "train" })]);
    await intake.append([sample(1), sample(2)]);
    assert.deepEqual(
      (await intake.list(9, false)).map(({ split }) => split),
      ["held-out", "train", "held-out", "train"],
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

  it("takes samples with the targets that its line declares, and names the one that does not fit", async () => {
    const files = memoryFiles();
    const form = { shape: [2], targets: parseTargets(["wear:number", "mask:classes:3:2"]) };
    const intake = await open(files, {}, { form });
    const targets = { wear: 0.5, mask: [0, 2], more: { shape: [1, 1], values: [7] } };
    await intake.append([
      { values: [1, 2], targets },
      { values: [3, 4], targets: { ...targets, wear: [0.25] } },
    ]);
    for (const [wrong, text] of [
      [{ ...targets, mask: [0, 3] }, '"mask"'],
      [{ ...targets, mask: [0, 1, 2] }, '"mask"'],
      [{ mask: [0, 1] }, '"wear"'],
      [{ ...targets, "a b": 1 }, "targets"],
      [{ ...targets, mask: { shape: [2], values: "AAAA" } }, "targets.mask"],
      [{ ...targets, mask: { shape: [2], values: "AAA=" } }, "targets.mask"],
    ] as const)
      await assert.rejects(
        intake.append([{ values: [5, 6], targets: wrong }]),
        (error) => isStemmaError(error, "SAMPLE_INVALID") && error.message.includes(text),
        JSON.stringify(wrong),
      );
    await assert.rejects(intake.append([{ values: [5, 6], label: 1 }]), coded("SAMPLE_INVALID"));
    await intake.close();
    const again = await open(files, {}, { form });
    assert.deepEqual(
      (await again.list(10, false)).map(({ label, targets: names, unfit }) => [label, names, unfit]),
      new Array(2).fill([undefined, ["wear", "mask", "more"], null]),
    );
    // Another declaration: the stored ones are skipped, not lost.
    const other = await open(
      files,
      {},
      { form: { shape: [2], targets: parseTargets(["mask:classes:2:2"]) } },
    );
    assert.deepEqual([(await other.status()).unfit, (await other.snapshot()).usable], [2, 0]);
    const without = await open(files);
    assert.equal((await without.list(10, false))[0]?.unfit?.includes("parameters.targets"), true);
    assert.deepEqual(
      await (
        await open(memoryFiles(), {}, { form: { targets: parseTargets(["input"]) } })
      ).append([{ values: [1] }]),
      { accepted: 1, alreadyThere: 0, firstIndex: 0, end: 1 },
      "an autoencoder needs no label",
    );
  });
});
