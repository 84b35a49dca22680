/** Which samples a line takes: those of the form that its model, its declaration or its earlier samples ask for. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { SampleForm } from "../../../../shared/train/datasets/sample-form.js";
import { parseTargets } from "../../../../shared/train/datasets/target-form.js";
import { isStemmaError } from "../../../../shared/errors.js";
import { memoryFiles } from "../../../helpers/files/memory-files.js";
import type { SampleSet } from "../../../../shared/train/datasets/dataset.js";
import { samples as samplesReader } from "../../../../shared/train/datasets/samples.js";
import { coded, folder, many, openIntake, sample } from "./intake-fixtures.js";

describe("the form of a line's samples", () => {
  const model: SampleForm = { shape: [2], targetSize: 1 };

  it("is the model's: others are refused, and nothing of their batch is stored", async () => {
    const intake = await openIntake(memoryFiles(), {}, { form: model });
    for (const bad of [
      { label: 1, values: [1, 2, 3] },
      { label: 1, values: [1, 2], shape: [2, 1] },
      { label: [1, 2], values: [1, 2] },
    ])
      await assert.rejects(intake.append([sample(1), bad]), coded("SAMPLE_INVALID"), JSON.stringify(bad));
    assert.equal((await intake.status()).samples, 0);
    const classes = await openIntake(memoryFiles(), {}, { form: { targetSize: 1, classes: 3 } });
    for (const label of [3, -1, 0.5])
      await assert.rejects(classes.append([{ label, values: [1] }]), coded("SAMPLE_INVALID"));
    assert.equal((await classes.append([{ label: 2, values: [1] }])).accepted, 1);
  });

  it("is that of the samples before where no model decides it, also within a batch and where the model leaves a size open", async () => {
    const intake = await openIntake(memoryFiles());
    await assert.rejects(
      intake.append([sample(1), { label: 1, values: [1, 2, 3] }]),
      coded("SAMPLE_INVALID"),
    );
    await intake.append([sample(1)]);
    await assert.rejects(intake.append([{ label: 1, values: [1, 2, 3] }]), coded("SAMPLE_INVALID"));
    const anyLength = await openIntake(memoryFiles(), {}, { form: { shape: [null, 1], targetSize: 1 } });
    await anyLength.append([{ label: 1, shape: [2, 1], values: [1, 2] }]);
    await assert.rejects(
      anyLength.append([{ label: 1, shape: [3, 1], values: [1, 2, 3] }]),
      coded("SAMPLE_INVALID"),
    );
  });

  it("changes with the model: stored samples that no longer fit are counted, listed and not trained on", async () => {
    const files = memoryFiles();
    const before = await openIntake(files);
    await before.append(many(60));
    await before.close();
    const intake = await openIntake(files, {}, { form: { shape: [3], targetSize: 1 } });
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

  it("takes samples with the targets that its line declares, and names the one that does not fit", async () => {
    const files = memoryFiles();
    const form = { shape: [2], targets: parseTargets(["wear:number", "mask:classes:3:2"]) };
    const intake = await openIntake(files, {}, { form });
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
    const again = await openIntake(files, {}, { form });
    assert.deepEqual(
      (await again.list(10, false)).map(({ label, targets: names, unfit }) => [label, names, unfit]),
      new Array(2).fill([undefined, ["wear", "mask", "more"], null]),
    );
    // Another declaration: the stored ones are skipped, not lost.
    const other = await openIntake(
      files,
      {},
      { form: { shape: [2], targets: parseTargets(["mask:classes:2:2"]) } },
    );
    assert.deepEqual([(await other.status()).unfit, (await other.snapshot()).usable], [2, 0]);
    const without = await openIntake(files);
    assert.equal((await without.list(10, false))[0]?.unfit?.includes("parameters.targets"), true);
    assert.deepEqual(
      await (
        await openIntake(memoryFiles(), {}, { form: { targets: parseTargets(["input"]) } })
      ).append([{ values: [1] }]),
      { accepted: 1, alreadyThere: 0, firstIndex: 0, end: 1 },
      "an autoencoder needs no label",
    );
  });
});
