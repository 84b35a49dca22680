/**
 * A home that the release before threads wrote (`test/vectors/home-earlier-engine`), with the engine that trained
 * its models. After an upgrade these models are replayed by that engine, beside models of this build's engine.
 */
import assert from "node:assert/strict";
import { cp, mkdtemp, readdir, readFile, rm, unlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { after, before, describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { brotliDecompressSync } from "node:zlib";
import type { ServerOperations } from "../../../../../server/interface/api/server-operations.js";
import { openFleets, type OpenFleets } from "../../../../../server/services/context/open-fleets.js";
import { localOperations, openLocalOperations } from "../../../../../server/operations/local-operations.js";
import type { Home } from "../../../../../server/storage/repository/home.js";
import { openNodeHome } from "../../../../../server/storage/repository/node-home.js";
import type { Provenance } from "../../../../../shared/provenance/provenance.js";
import type { Hash } from "../../../../../shared/tensor/tensor.js";
import { ownEngine } from "../../../../../shared/train/own-engine.js";

const vectors = join(resolve(fileURLToPath(import.meta.url), "../../../../../../.."), "test/vectors");
const earlierEngine = "cd1ebdd96de2e80fd4f18ffa1c979b8765af844388f8e2a26db3461c6b2aeae1" as Hash;
const fleet = "local";
const maxPackedBytes = 1_000_000;

/** Copies the home; the pack with the engine is kept compressed among the vectors. Gives that pack's path. */
async function unpackHome(home: string): Promise<string> {
  await cp(join(vectors, "home-earlier-engine"), home, { recursive: true });
  const packs = join(home, "fleets", fleet, "packs");
  const [packed, ...more] = (await readdir(packs)).filter((name) => name.endsWith(".br"));
  assert.ok(packed !== undefined && more.length === 0);
  const bytes = await readFile(join(packs, packed));
  assert.ok(bytes.length <= maxPackedBytes);
  const unpacked = join(packs, packed.slice(0, -".br".length));
  await writeFile(unpacked, brotliDecompressSync(bytes));
  await unlink(join(packs, packed));
  return unpacked;
}

describe("a home of the release before, with its engine", () => {
  let folder: string;
  let home: Home;
  let fleets: OpenFleets;
  let operations: ServerOperations;
  before(async () => {
    folder = await mkdtemp(join(tmpdir(), "stemma-earlier-"));
    await unpackHome(join(folder, "home"));
    home = await openNodeHome(join(folder, "home"));
    fleets = openFleets(home);
    operations = localOperations({ home, fleets, version: "test" });
  });
  after(async () => {
    await fleets.close();
    await home.close();
    await rm(folder, { recursive: true, force: true });
  });

  /** The archive of the earlier engine in base64. */
  async function storedEngine(): Promise<string> {
    const repository = await fleets.get(fleet);
    const { engine } = repository.engines().find(({ engineId }) => engineId === earlierEngine)!;
    const chunks: Uint8Array[] = [];
    for await (const chunk of repository.objects.openStream("engine", engine).chunks()) chunks.push(chunk);
    return Buffer.concat(chunks).toString("base64");
  }

  it("has its models replayed by the engine that trained them, beside models of this build", async () => {
    const { engineId: own } = await ownEngine();
    assert.notEqual(own, earlierEngine);
    await operations.train({
      fleet,
      recipe: "battery-soh",
      data: "cells",
      name: "newer",
      base: "tuned",
      parameters: { epochs: 1 },
      seed: "9",
    });
    assert.deepEqual(
      (await operations.engines({ fleet })).map(({ engineId, versions }) => [engineId, versions]).toSorted(),
      [
        [earlierEngine, 2],
        [own, 1],
      ].toSorted(),
    );
    for (const [model, engine] of [
      ["soh", earlierEngine],
      ["tuned", earlierEngine],
      ["newer", own],
    ] as const) {
      const { provenance } = await operations.model({ fleet, model });
      assert.equal((provenance as Provenance).engine, engine, model);
      const { verdict, grade, text } = await operations.replay({ fleet, model });
      assert.deepEqual([verdict, grade], ["proved", "bit-exact"], `${model}: ${text}`);
    }
  });

  it("keeps both engines through a collection", async () => {
    assert.deepEqual((await operations.planCollection({ fleet })).dead, []);
  });

  it("gives stories that another home proves once a person approved the engine, not before", async () => {
    const other = await openLocalOperations({ home: join(folder, "other") });
    try {
      await other.addDataset({
        fleet,
        name: "cells",
        kind: "battery-simulated",
        location: "",
        parameters: { vehicle: 1 },
      });
      const { story } = await operations.story({ fleet, model: "soh" });
      const before = await other.replayStory({ fleet, story });
      assert.deepEqual([before.verdict, before.reason], ["unreplayable", "engine-missing"]);
      const approved = await other.approveEngine({
        fleet,
        archive: await storedEngine(),
        expected: earlierEngine,
      });
      assert.equal(approved.engineId, earlierEngine);
      const after = await other.replayStory({ fleet, story });
      assert.deepEqual([after.verdict, after.grade], ["proved", "bit-exact"], after.text);
    } finally {
      await other.close();
    }
  });
});

it("finds a flipped bit in the engine before it runs it", async () => {
  const home = await mkdtemp(join(tmpdir(), "stemma-earlier-"));
  const pack = await unpackHome(home);
  const bytes = await readFile(pack);
  bytes[bytes.length >> 1]! ^= 1;
  await writeFile(pack, bytes);
  const operations = await openLocalOperations({ home });
  try {
    await assert.rejects(operations.replay({ fleet, model: "soh" }), { code: "OBJECT_HASH_MISMATCH" });
  } finally {
    await operations.close();
    await rm(home, { recursive: true, force: true });
  }
});
