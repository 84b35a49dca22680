/** Versions are proved again on another engine; the old one may go then, and the new one stays. */
import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, it } from "node:test";
import type { ServerOperations } from "../../../../../server/interface/api/server-operations.js";
import { openFleets, type OpenFleets } from "../../../../../server/services/context/open-fleets.js";
import { readOpenedProvenance } from "../../../../../server/services/context/opened-provenance.js";
import { localOperations } from "../../../../../server/operations/local-operations.js";
import type { FleetRepository } from "../../../../../server/storage/repository/fleet-repository.js";
import type { Home } from "../../../../../server/storage/repository/home.js";
import { openNodeHome } from "../../../../../server/storage/repository/node-home.js";
import { makeProvenance } from "../../../../../shared/provenance/make-provenance.js";
import { modelSourceOfTensors } from "../../../../../shared/save/model-source.js";
import { sha256 } from "../../../../../shared/tensor/hash.js";
import { copiedTensors } from "../../../../helpers/copied-tensors.js";
import { decodeEngineArchive, encodeEngineArchive } from "../../../../../shared/train/engine-archive.js";
import { ownEngine, packOwnEngine } from "../../../../../shared/train/own-engine.js";

const fleet = "cars";
let path: string;
let home: Home;
let fleets: OpenFleets;
let operations: ServerOperations;
let repository: FleetRepository;

async function open(): Promise<void> {
  home = await openNodeHome(path);
  fleets = openFleets(home);
  operations = localOperations({ home, fleets, version: "test" });
  repository = await fleets.get(fleet, { create: true });
}
async function close(): Promise<void> {
  await fleets.close();
  await home.close();
}

before(async () => {
  path = await mkdtemp(join(tmpdir(), "stemma-rebase-"));
  await open();
  const data = { fleet, name: "cells", kind: "battery-simulated", location: "", parameters: { vehicle: 1 } };
  await operations.addDataset(data);
  const training = { fleet, recipe: "battery-soh", data: "cells", name: "soh", parameters: { epochs: 1 } };
  await operations.train({ ...training, seed: "7" });
});
after(async () => {
  await close();
  await rm(path, { recursive: true, force: true });
});

/** The same making, by an engine that is not here. */
async function saveOfOldEngine(name: string, flipped?: number): Promise<void> {
  const truth = repository.resolve("soh:1");
  const model = await repository.recover(truth.versionId);
  const opened = (await readOpenedProvenance(repository, truth.record.objects))!;
  const members = Object.entries(opened.openings).map(([member, { value }]) => [member, value] as const);
  const tensors = await copiedTensors(model.sources, flipped);
  const { committed: _, ...shared } = opened.provenance;
  const plain = { ...shared, engine: sha256("old engine") };
  await repository.save(modelSourceOfTensors(model.architecture!, tensors, model.names), {
    name,
    ...makeProvenance(plain, Object.fromEntries(members), home.ports.random),
    uses: { engine: { id: sha256("old archive") } },
  });
}

it("proves what an engine made that is not here any more, and refutes nothing", async () => {
  await saveOfOldEngine("old");
  await saveOfOldEngine("other", 2);
  assert.equal((await operations.replay({ fleet, model: "old" })).reason, "engine-missing");
  assert.deepEqual((await repository.check()).absentEngines, [
    { engine: sha256("old archive"), versions: 2 },
  ]);
  assert.equal((await operations.rebaseEngine({ fleet, model: "old" })).verdict, "proved");
  const differs = await operations.rebaseEngine({ fleet, model: "other" });
  assert.deepEqual([differs.verdict, differs.reason], ["unreplayable", "other-engine"]);
  assert.equal(repository.resolve("other").replayed, undefined);
  await close();
  await open();
  assert.deepEqual(repository.resolve("old").provedBy, [(await ownEngine()).engineId]);
  assert.equal((await operations.replay({ fleet, model: "old" })).verdict, "proved");
  const isPossible = async (model: string): Promise<boolean> =>
    (await operations.explainRecovery({ fleet, model })).replay.isPossible;
  assert.deepEqual([await isPossible("old"), await isPossible("other")], [true, false]);
  assert.deepEqual((await repository.check()).absentEngines, [
    { engine: sha256("old archive"), versions: 1 },
  ]);
});

it("lets the old engine go where another proved every version that named it, and keeps that one", async () => {
  const archive = encodeEngineArchive(
    decodeEngineArchive(await packOwnEngine()).files.map((file) =>
      file.name === "engine.mjs"
        ? { ...file, bytes: Buffer.concat([file.bytes, Buffer.from("\n//\n")]) }
        : file,
    ),
  );
  const own = await ownEngine();
  const { engine: newer } = await operations.approveEngine({
    fleet,
    archive: Buffer.from(archive).toString("base64"),
  });
  const remove = (engine: string): Promise<unknown> => operations.removeEngine({ fleet, engine });
  const uses = async (): Promise<Record<string, number>> =>
    Object.fromEntries(
      (await operations.engines({ fleet })).map(({ engine, versions }) => [engine, versions]),
    );
  await operations.retire({ fleet, model: "soh" });
  assert.ok((await repository.liveObjects()).has(own.object), "old needs it, though only soh named it");
  assert.deepEqual(await uses(), { [own.object]: 1, [newer]: 0 });
  await assert.rejects(remove(own.object), { code: "ENGINE_IN_USE", message: /rebase-engine/ });
  assert.equal((await operations.rebaseEngine({ fleet, model: "old", engine: newer })).verdict, "proved");
  assert.deepEqual(await uses(), { [own.object]: 0, [newer]: 0 }, "either may go");
  await remove(own.object);
  assert.deepEqual(await uses(), { [newer]: 1 });
  await assert.rejects(remove(newer), { code: "ENGINE_IN_USE" });
  const live = await repository.liveObjects();
  assert.deepEqual([live.has(newer), live.has(own.object)], [true, false]);
  assert.deepEqual((await repository.check()).problems, []);
});

it("refutes nothing on a machine that does not compute the engine's known answer", async () => {
  const archive = encodeEngineArchive(
    decodeEngineArchive(await packOwnEngine()).files.map((file) =>
      file.name === "engine.json"
        ? { ...file, bytes: Buffer.from(JSON.stringify({ format: 1, job: 2, knownAnswer: "0".repeat(64) })) }
        : file,
    ),
  );
  // To this engine, this machine is one that does not compute exactly: nobody could approve it here.
  await assert.rejects(
    operations.approveEngine({ fleet, archive: Buffer.from(archive).toString("base64") }),
    { code: "ENGINE_INVALID" },
  );
  const { engine } = await repository.storeEngine(archive, { source: "approval", because: "test" });
  const { verdict, reason } = await operations.rebaseEngine({ fleet, model: "old", engine });
  assert.deepEqual([verdict, reason], ["unreplayable", "machine-inexact"]);
});
