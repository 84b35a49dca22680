// The same training under other names and from stored data gives the same bytes; one that changed nothing stores almost
// nothing.
import assert from "node:assert/strict";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { it } from "node:test";
import { openLocalOperations } from "../../../../../server/operations/local-operations.js";
import { factCodec } from "../../../../../server/storage/repository/state/fact-codec.js";
import { openNodeHome } from "../../../../../server/storage/repository/node-home.js";
import { openRepository } from "../../../../../server/storage/repository/open-repository.js";
import { collectBytes } from "../../../../helpers/agent-fixtures.js";
import type { Hash } from "../../../../../shared/tensor/tensor.js";

const fleet = "local";

it("gives the same bytes under another name, and from data of the store", async () => {
  const home = await mkdtemp(join(tmpdir(), "stemma-twins-"));
  const operations = await openLocalOperations({ home });
  try {
    await operations.addDataset({ fleet, name: "cells", kind: "battery-simulated", location: "" });
    const train = {
      fleet,
      recipe: "battery-soh",
      data: "cells",
      name: "soh",
      seed: "7",
      parameters: { epochs: 1 },
    };
    await operations.train(train);
    const tuned = await operations.train({ ...train, base: "soh:1", seed: "8" });
    // The same training under two names (so with the same invocation) gives the same bytes, as two
    // versions.
    const twins = [
      await operations.train({ ...train, base: "soh:1", name: "twin-a" }),
      await operations.train({ ...train, base: "soh:1", name: "twin-b" }),
    ];
    assert.equal(twins[0]?.summary.record.root, twins[1]?.summary.record.root);
    assert.notEqual(twins[0]?.summary.versionId, twins[1]?.summary.versionId);
    assert.notEqual(twins[0]?.summary.record.root, tuned.summary.record.root);
    // Each names its data, which are made again by their reader, or, once pushed, are in the store.
    await operations.pushDataset({ fleet, name: "cells" });
    const stored = await operations.train({ ...train, base: "soh:1", name: "twin-c" });
    assert.equal(stored.summary.record.root, twins[0]?.summary.record.root);
    const { usedBy, stored: object } = await operations.showDataset({ fleet, name: "cells" });
    // The manifest, and what its reader said of the samples.
    const [manifest, ...descriptions] = stored.summary.record.uses?.data ?? [];
    assert.deepEqual([manifest, descriptions.length], [object?.object, 1]);
    assert.deepEqual(
      usedBy.map(({ name }) => name),
      ["soh", "soh", "twin-a", "twin-b", "twin-c"],
    );
    // Files that are gone are read from the store: with the same samples, so with the same bits.
    const file = join(home, "cells.bin");
    await writeFile(
      file,
      await collectBytes((await operations.fetchDataset({ fleet, name: "cells" })).chunks),
    );
    await operations.addDataset({ fleet, name: "file", kind: "canonical", location: file });
    await rm(file);
    const moved = await operations.train({ ...train, base: "soh:1", name: "twin-d", data: "file" });
    assert.equal(moved.summary.record.root, stored.summary.record.root);
  } finally {
    await operations.close();
    await rm(home, { recursive: true, force: true });
  }
});

/** The bytes that a save adds (record, fact, new owner map), as stored in the home. */
async function savedBytes(
  path: string,
  versionId: Hash,
): Promise<{
  readonly record: number;
  readonly fact: number;
  readonly ownerMap: number;
  readonly newTensors: number;
  /** Bytes of what format 2 adds: the engine, the openings, and the person that caused it. */
  readonly added: number;
}> {
  const home = await openNodeHome(path);
  const repository = await openRepository(home, fleet);
  try {
    const { record, ownBytes } = repository.resolve(versionId);
    let fact = 0;
    let by: unknown;
    for await (const entry of repository.journal.entries())
      if (entry.fact.type === "recorded" && entry.fact.versionId === versionId)
        ({ by, length: fact } = { by: entry.fact.by, length: factCodec.encode(entry.fact).length });
    return {
      record: (await repository.objects.read("record", versionId)).length,
      fact,
      ownerMap: (await repository.objects.read("owner-map", record.objects.ownerMap)).length,
      newTensors: ownBytes,
      added: JSON.stringify({ by, uses: record.uses, openings: record.objects.openings }).replace(
        // As the record has them: short.
        /[0-9a-f]{64}/g,
        "-".repeat(43),
      ).length,
    };
  } finally {
    await repository.close();
    await home.close();
  }
}

it("a training that changed nothing stores under 1 kB and is a version of its own", async (context) => {
  const home = await mkdtemp(join(tmpdir(), "stemma-equal-"));
  try {
    const operations = await openLocalOperations({ home });
    const train = {
      fleet,
      recipe: "battery-soh",
      data: "cells",
      name: "delivery-van-0017-pack-state-of-health",
    };
    await operations.addDataset({ fleet, name: "cells", kind: "battery-simulated", location: "" });
    const base = await operations.train({ ...train, parameters: { epochs: 1 } });
    // A step of this size rounds to zero when it is added to any weight.
    const equal = await operations.train({
      ...train,
      base: base.summary.versionId,
      parameters: { epochs: 1, learningRate: 1e-46 },
    });
    await operations.close();
    assert.equal(equal.summary.record.contentId, base.summary.record.contentId);
    assert.notEqual(equal.summary.versionId, base.summary.versionId);
    const { measurements, provenance, metadata } = equal.summary.record.objects;
    for (const object of [measurements, provenance, metadata])
      assert.ok(object, "it has all that a training has to tell");
    const { record, fact, ownerMap, newTensors, added } = await savedBytes(home, equal.summary.versionId);
    const figures = `record ${record}, fact ${fact}, owner map ${ownerMap}, of which format 2 added ${added}`;
    context.diagnostic(figures);
    assert.equal(newTensors, 0);
    assert.ok(record + fact + ownerMap - added < 1000, figures);
    assert.ok(record + fact + ownerMap < 1220, figures);
  } finally {
    await rm(home, { recursive: true, force: true });
  }
});
