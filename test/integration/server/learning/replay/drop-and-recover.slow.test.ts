/** Versions whose tensors were dropped: they come back bit for bit by replays of their chain, or not at all. */
import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { openLocalOperations } from "../../../../../server/operations/local-operations.js";
import { openReadingOperations } from "../../../../../server/operations/reading-operations.js";
import type { Hash } from "../../../../../shared/tensor/tensor.js";
import { exampleTable } from "../../../../helpers/example-table.js";
import { fleet, hasCode, TrainedChain } from "./trained-chain.js";

describe("dropped tensors", () => {
  let chain: TrainedChain;
  before(async () => {
    chain = await TrainedChain.train();
  });
  after(() => chain.remove());

  it("says what it would do and changes nothing", async () => {
    const report = await chain.operations.dropTensors({ fleet, dryRun: true });
    assert.deepEqual(
      report.dropped.map(({ version: number, isProved }) => [number, isProved]),
      [
        [1, false],
        [2, false],
      ],
    );
    assert.equal(chain.version("soh:1").dropped, undefined);
  });

  it("keeps what is needed, whatever is asked for", async () => {
    const { kept } = await chain.operations.dropTensors({ fleet, models: ["soh:3"] });
    assert.match(kept[0]?.because ?? "", /newest/);
    await chain.operations.tag({ fleet, model: "soh:2", tag: "good" });
    assert.equal((await chain.operations.dropTensors({ fleet, models: ["soh:2"] })).dropped.length, 0);
    await chain.operations.tag({ fleet, model: "soh:2", tag: "good", remove: true });
    const { dropped } = await chain.operations.dropTensors({
      fleet,
      models: ["soh:2"],
      maxMinutes: 0.000_01,
    });
    assert.equal(dropped.length, 0);
  });

  it("proves, drops and frees a chain, and recovers every generation of it", async () => {
    const roots = new Map<string, Hash>();
    for (const name of ["soh:1", "soh:2"])
      roots.set(name, (await chain.repository.recover(chain.version(name).versionId)).verifiedRoot);
    const predicted = await chain.operations.dropTensors({ fleet, dryRun: true });
    const { dropped, freedBytes, keptBytes } = await chain.operations.dropTensors({ fleet });
    assert.deepEqual(
      dropped.map((one) => one.version),
      [1, 2],
    );
    assert.deepEqual(
      [predicted.freedBytes, predicted.keptBytes, predicted.dropped.map((one) => one.version)],
      [freedBytes, keptBytes, [1, 2]],
    );
    assert.ok(freedBytes > keptBytes && keptBytes > 0);
    // Opened again, so that no lease of a replay protects anything.
    await chain.close();
    await chain.open();
    const { dead } = await chain.repository.planCollection();
    assert.equal(
      dead.reduce((sum, { storedBytes }) => sum + storedBytes, 0),
      freedBytes,
    );
    assert.ok((dropped[1]?.recoveryMs ?? 0) > (dropped[0]?.recoveryMs ?? 0));
    assert.ok(["soh:1", "soh:2"].every((name) => chain.version(name).state === "stored"));
    await chain.collectAfresh();
    for (const name of roots.keys()) assert.equal(await chain.storedOf(name), 0, name);
    assert.ok((await chain.storedOf("soh:3")) > 0);
    assert.deepEqual((await chain.repository.check()).problems, []);
    const stats = await chain.operations.stats({ fleet });
    assert.deepEqual(stats.dropped, {
      versions: 2,
      tensorBytes: dropped.reduce((sum, { tensorBytes }) => sum + tensorBytes, 0),
    });
    const explained = await chain.operations.explainRecovery({ fleet, model: "soh:2" });
    assert.equal(explained.from, "replay");
    assert.deepEqual(
      explained.trainings.map((one) => one.version),
      [1, 2],
    );
    assert.ok(explained.predictedMs >= (dropped[1]?.recoveryMs ?? 0));

    const both = ["soh:2", "soh:2", "soh:1"].map(async (name) =>
      chain.repository.recover(chain.version(name).versionId),
    );
    for (const model of await Promise.all(both)) assert.equal(model.verifiedRoot, model.record.root);
    for (const [name, root] of roots)
      assert.equal((await chain.repository.recover(chain.version(name).versionId)).verifiedRoot, root);
    // Protected by the recovery; gone with the next collection of another process.
    await chain.collect();
    assert.ok((await chain.storedOf("soh:2")) > 0);
    await chain.collectAfresh();
    assert.equal(await chain.storedOf("soh:2"), 0);

    // A command reads the home without its lock, and takes the lock for a training, which it begins once.
    await chain.close();
    let locked = 0;
    const operations = await openReadingOperations({
      home: chain.path,
      openToWrite: () => {
        locked++;
        return openLocalOperations({ home: chain.path });
      },
      onBeside: () => undefined,
    });
    assert.equal((await operations.explainRecovery({ fleet, model: "soh:2" })).from, "replay");
    assert.equal(locked, 0);
    const stream = await operations.recover({ fleet, model: "soh:2" });
    for await (const chunk of stream.chunks) assert.ok(chunk.length > 0);
    assert.deepEqual([(await stream.report).root, locked], [roots.get("soh:2"), 1]);
    await operations.close();
    await chain.open();
  });

  it("leaves out what would free less than its replay alone needs, and says both numbers, dry or not", async () => {
    const location = join(chain.path, "table.csv");
    await writeFile(location, exampleTable());
    const parameters = { targets: "sum", ignored: "class,odd,large" };
    await chain.operations.addDataset({ fleet, name: "table", kind: "csv", location, parameters });
    await chain.operations.pushDataset({ fleet, name: "table" });
    const training = { fleet, recipe: "linear-regression", data: "table", name: "sums" };
    await chain.operations.train({ ...training, parameters: { epochs: 1 }, seed: "1" });
    await chain.operations.train({ ...training, parameters: { epochs: 1 }, seed: "2", base: "sums:1" });
    for (const dryRun of [true, false]) {
      const { dropped, kept } = await chain.operations.dropTensors({ fleet, models: ["sums:1"], dryRun });
      assert.equal(dropped.length, 0);
      assert.match(kept[0]?.because ?? "", /would free 16 B, and its replay needs [\d.]+ kB/u);
    }
  });

  it("refuses to recover without a program that can train", async () => {
    await chain.collectAfresh();
    await chain.close();
    await chain.open({ canTrain: false });
    await assert.rejects(
      chain.repository.recover(chain.version("soh:2").versionId),
      hasCode("MODEL_DROPPED"),
    );
    await chain.close();
    await chain.open();
  });
});
