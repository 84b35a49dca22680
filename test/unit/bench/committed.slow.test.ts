/** The benchmark of committed repositories: every snapshot is archived and recovered, and the tables fit a terminal. */
import assert from "node:assert/strict";
import { mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { committedTables } from "../../bench/committed-report.js";
import { benchCommitted, committedOptions } from "../../bench/committed-repositories.js";
import { rdLike } from "../../helpers/generated-repository.js";

test("a small repository of small deltas is archived in less, and as the storage graph says", async (t) => {
  const folder = await mkdtemp(join(tmpdir(), "stemma-test-"));
  const before = process.cwd();
  t.after(async () => {
    process.chdir(before);
    await rm(folder, { recursive: true, force: true });
  });
  const options = {
    ...rdLike["small deltas"]!,
    ...{ versions: 2, checkpoints: 4, snapshotBytes: 100e3, frozenShare: 0 },
  };
  const measured = await benchCommitted("small", options, { folder: join(folder, "small"), rounds: 1 });
  assert.equal(process.cwd(), before);
  assert.deepEqual(await readdir(folder), []);

  const { snapshots, rawBytes, materialised, leastStorage, planned, graph } = measured;
  assert.equal(snapshots, 1 + 2 * 4);
  assert.ok(materialised.storedBytes < rawBytes);
  assert.ok(leastStorage.storedBytes < 0.9 * materialised.storedBytes, JSON.stringify(measured));
  assert.ok(leastStorage.storedBytes <= planned.storedBytes && planned.readBytes <= leastStorage.readBytes);
  const least = leastStorage.storedBytes / materialised.readBytes;
  assert.ok(
    Math.abs(least - graph.leastStorage) < 0.1,
    `${least} stored, ${graph.leastStorage} by the graph`,
  );

  const lines = committedTables([measured]).split("\n");
  assert.ok(lines.every((line) => line.length <= 80));
  assert.match(lines[1]!, /^SD in the paper +540 +– +– +0\.68 /);
});

test("no two of the repositories have the same options, and each has versions and snapshots", () => {
  const all = [...committedOptions({ isQuick: false, versions: 12 }).values()];
  assert.equal(new Set(all.map((options) => JSON.stringify(options))).size, all.length);
  assert.ok(all.every(({ versions, checkpoints }) => versions >= 2 && checkpoints >= 2));
});
