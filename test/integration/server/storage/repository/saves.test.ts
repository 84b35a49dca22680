/** Saves of a fleet's repository in memory and on a real folder: everything saved is recovered bit for bit. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { openHome } from "../../../../../server/storage/repository/home.js";
import { manualClock } from "../../../../helpers/manual-clock.js";
import {
  fineTuned,
  memoryHome,
  modelOf,
  openRepository,
  places,
  recoveredTensors,
  sameTensors,
  seededBytes,
  seededRandom,
  tensorsOf,
  type NamedTensor,
} from "./harness.js";

for (const [place, makeHome] of places) {
  test(`${place}: a chain of partial updates recovers every version, also after reopening`, async (context) => {
    const { home, reopen } = await makeHome(context);
    const repository = await openRepository(home, "fleet-a");
    let tensors = tensorsOf("chain", 8);
    let base = (await repository.save(modelOf(tensors), { name: "soh" })).summary;
    const saved: [typeof base, readonly NamedTensor[]][] = [[base, tensors]];
    for (let step = 1; step <= 10; step++) {
      tensors = fineTuned(tensors, `step ${step}`);
      const report = await repository.save(modelOf(tensors), { name: "soh", bases: [base.versionId] });
      assert.equal(report.approach, "update");
      assert.equal(
        report.newTensorBytes,
        tensors.slice(-2).reduce((sum, { bytes }) => sum + bytes.length, 0),
      );
      assert.equal(report.summary.ownBytes, report.newTensorBytes);
      base = report.summary;
      saved.push([base, tensors]);
    }
    assert.deepEqual(
      saved.map(([{ version }]) => version),
      [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11],
    );
    await repository.close();
    await home.close();
    const again = await reopen();
    const reopened = await openRepository(again, "fleet-a");
    for (const [summary, expected] of saved) {
      assert.ok(await sameTensors(reopened, summary.versionId, expected), summary.versionId);
      assert.deepEqual(reopened.get(summary.versionId), summary);
    }
    assert.equal(reopened.lineage(base.versionId).length, 11);
    assert.equal(reopened.resolve("soh").version, 11);
    assert.equal(reopened.resolve("soh:3").versionId, saved[2]![0].versionId);
    assert.equal(reopened.resolve(base.versionId.slice(0, 8)).versionId, base.versionId);
    assert.deepEqual((await reopened.check()).problems, []);
    const stats = await reopened.stats();
    assert.equal(stats.packs, 11);
    assert.equal(stats.logicalBytes, 11 * base.tensorBytes);
    assert.ok(stats.packBytes < stats.logicalBytes / 2);
    assert.equal(
      saved.reduce((sum, [{ storedBytes = 0 }]) => sum + storedBytes, 0),
      stats.packBytes,
    );
    await reopened.close();
    await again.close();
  });

  test(`${place}: 200 concurrent saves get 200 numbers, and each is recovered`, async (context) => {
    const { home } = await makeHome(context);
    const repository = await openRepository(home, "fleet-a");
    const base = tensorsOf("base", 3, 8);
    const root = (await repository.save(modelOf(base), { name: "cam" })).summary;
    const models = Array.from({ length: 200 }, (_, index) => fineTuned(base, `car ${index}`, 1));
    const reports = await Promise.all(
      models.map((tensors, index) =>
        repository.save(modelOf(tensors), { name: index % 2 === 0 ? "cam" : "soh", bases: [root.versionId] }),
      ),
    );
    const numbers = (name: string): number[] =>
      reports
        .map(({ summary }) => summary)
        .filter((summary) => summary.name === name)
        .map(({ version }) => version)
        .sort((a, b) => a - b);
    assert.deepEqual(
      numbers("soh"),
      Array.from({ length: 100 }, (_, index) => index + 1),
    );
    assert.deepEqual(
      numbers("cam"),
      Array.from({ length: 100 }, (_, index) => index + 2),
    );
    assert.equal(new Set(reports.map(({ summary }) => summary.record.sequence)).size, 200);
    const { packs, packBytes } = await repository.stats();
    while ((await repository.mergePacks({ keepFreeBytes: 0 })) !== undefined);
    const merged = await repository.stats();
    assert.equal(packs, 201);
    assert.ok(merged.packs < 20 && merged.merged.packs >= packs - merged.packs, `${merged.packs} packs`);
    assert.ok(merged.packBytes < packBytes);
    assert.equal(merged.smallPacks, merged.packs);
    for (const [index, { summary }] of reports.entries())
      if (index % 20 === 0) assert.ok(await sameTensors(repository, summary.versionId, models[index]!));
    assert.deepEqual((await repository.check({ sample: 50 })).problems, []);
    await repository.close();
    await home.close();
  });
}

test("appends in flight share their fsyncs", async () => {
  const { files } = await memoryHome();
  let syncs = 0;
  const counting = {
    ...files,
    open: async (path: string, mode: Parameters<typeof files.open>[1]) => {
      const file = await files.open(path, mode);
      return {
        read: file.read.bind(file),
        write: file.write.bind(file),
        size: file.size.bind(file),
        truncate: file.truncate.bind(file),
        close: file.close.bind(file),
        sync: async () => {
          if (path.includes("/journal/")) syncs++;
          await file.sync();
        },
      };
    },
  };
  const home = await openHome("/other", { files: counting, clock: manualClock(), random: seededRandom("x") });
  const repository = await openRepository(home, "f");
  const { summary } = await repository.save(modelOf(tensorsOf("x", 1)), { name: "m" });
  syncs = 0;
  await Promise.all(
    Array.from({ length: 200 }, (_, index) => repository.tag("m", `t${index}`, summary.versionId)),
  );
  assert.ok(syncs <= 3, `${syncs} fsyncs of the journal for 200 facts`);
  await repository.close();
});

test("a save equal to its base stores under 1 kB and is a version of its own", async () => {
  const { home } = await memoryHome();
  const repository = await openRepository(home, "vehicles-north");
  // As many tensors as MobileNetV2 has.
  const tensors = tensorsOf("mobilenet", 157, 4);
  const first = await repository.save(modelOf(tensors), { name: "front-camera-classifier" });
  const second = await repository.save(modelOf(tensors), {
    name: "front-camera-classifier",
    bases: [first.summary.versionId],
  });
  assert.ok(second.overheadBytes < 1000, `${second.overheadBytes} bytes`);
  assert.equal(second.newTensorBytes, 0);
  assert.equal(second.summary.ownBytes, 0);
  assert.notEqual(second.summary.versionId, first.summary.versionId);
  assert.equal(second.summary.record.contentId, first.summary.record.contentId);
  assert.ok(await sameTensors(repository, second.summary.versionId, tensors));
  await repository.close();
});

test("tied tensors are stored once, and each is recovered, before and after one of them is changed", async () => {
  const { home, reopen } = await memoryHome();
  const repository = await openRepository(home, "fleet-a");
  const [embedding] = tensorsOf("tied", 1) as [NamedTensor];
  const tied = ["embed", "head", "decoder.embed"].map((name) => ({ ...embedding, name }));
  // The same bytes in another shape are another tensor.
  const flat = { ...embedding, name: "flat", shape: [embedding.bytes.length / 4] };
  const tensors = [...tied, flat];
  const first = await repository.save(modelOf(tensors), { name: "tied" });
  assert.equal(first.newTensorBytes, 2 * embedding.bytes.length);
  const untied = fineTuned(tensors, "untied", 1).map((tensor, at) =>
    at === 1 ? { ...tensor, bytes: seededBytes("head", tensor.bytes.length) } : tensor,
  );
  const bases = [first.summary.versionId];
  const second = await repository.save(modelOf(untied), { name: "tied", bases });
  assert.equal(second.newTensorBytes, 2 * embedding.bytes.length);
  await repository.close();
  await home.close();
  const again = await openRepository(await reopen(), "fleet-a");
  assert.ok(await sameTensors(again, first.summary.versionId, tensors));
  assert.ok(await sameTensors(again, second.summary.versionId, untied));
  assert.deepEqual((await again.check()).problems, []);
  await again.close();
});

test("recovery returns the names, order and metadata of the file", async () => {
  const { home } = await memoryHome();
  const repository = await openRepository(home, "fleet-a");
  const tensors = tensorsOf("m", 3).toReversed();
  const { summary } = await repository.save(modelOf(tensors), { name: "soh" });
  assert.deepEqual(
    (await recoveredTensors(repository, summary.versionId)).map(({ name }) => name),
    tensors.map(({ name }) => name),
  );
  assert.deepEqual((await repository.recover(summary.versionId)).names.fileMetadata, { format: "pt" });
  await repository.close();
});
