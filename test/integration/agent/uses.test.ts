// A version of a device with data, optimizer state and checkpoints: reported by a real agent, recovered bit for bit
// with all its parts, backed up, restored.
import assert from "node:assert/strict";
import { mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { it } from "node:test";
import { Outbox } from "../../../agent/outbox/outbox.js";
import { restoreHome } from "../../../server/operations/stores/restore.js";
import { openRepository } from "../../../server/storage/repository/open-repository.js";
import { openNodeHome } from "../../../server/storage/repository/node-home.js";
import { nodeClock, nodeRandom, silentLog } from "../../../shared/adapters/node-ports.js";
import { encodeDataManifest } from "../../../shared/data/data-manifest.js";
import { readData, readManifest } from "../../../shared/data/stored-data.js";
import { nodeFiles } from "../../../shared/files/node-files.js";
import type { RecoveredPart } from "../../../shared/recover/recovered-part.js";
import { opaqueModelSource } from "../../../shared/save/model-source.js";
import type { SavedModel } from "../../../shared/save/save-model.js";
import { objectId, sha256 } from "../../../shared/tensor/hash.js";
import type { Hash } from "../../../shared/tensor/tensor.js";
import { tensorOfSource } from "../../../shared/tensor/tensor.js";
import { isOfVersion, startAgentTestEnvironment, testLine } from "../../helpers/agent-test-environment.js";
import { noiseBytes } from "../../helpers/noise-bytes.js";
import { streamedBytes, streamOf } from "../../helpers/object-stores.js";
import { smallProvenance } from "../../helpers/small-provenance.js";
import { testFleet } from "../../helpers/test-server.js";

const data = noiseBytes(300_000, 31);
const tensor = (name: string, seed: number) => ({
  name,
  dtype: "F32" as const,
  shape: [50, 20],
  bytes: noiseBytes(4000, seed),
});
/** Samples of the device, as one chunk, and their manifest. */
const content = noiseBytes(20_000, 32);
const chunk = new Uint8Array([0, ...content]);
const manifest = encodeDataManifest({
  kept: "chunks",
  content: sha256(content),
  byteLength: content.length,
  chunks: [{ id: objectId("data", chunk), byteLength: content.length }],
  isCoded: true,
});
const samples = [manifest, chunk];
const iterations = [10, 20, 30];
/** Of the model after an iteration: little differs from the model, so it is sent coded against it. */
function nearModel(iteration: number): Uint8Array {
  const bytes = noiseBytes(4000, 1);
  bytes.fill(iteration, iteration, iteration + 8);
  return bytes;
}

function openOutbox(home: string): Promise<Outbox> {
  return Outbox.open({
    files: nodeFiles(),
    folder: join(home, "outbox"),
    clock: nodeClock(),
    random: nodeRandom(),
    log: silentLog(),
  });
}

async function saveBefore(home: string, device: string): Promise<SavedModel> {
  const outbox = await openOutbox(home);
  const saved = await outbox.saveTrained(opaqueModelSource([tensor("w", 1), tensor("v", 2)]), {
    name: "used",
    fleet: testFleet,
    device,
    line: testLine,
    base: undefined,
    metric: null,
    samples: null,
    environment: { backend: "none" },
    ...smallProvenance(3),
    uses: {
      engine: { id: "e".repeat(64) as Hash },
      data: [{ source: streamOf(data) }, ...samples.map((bytes) => ({ source: streamOf(bytes) }))],
      optimizer: opaqueModelSource([tensor("slot/m", 4)]),
      checkpoints: iterations.map((iteration) => ({
        iteration,
        model: opaqueModelSource([{ ...tensor("w", 1), bytes: nearModel(iteration) }, tensor("v", 2)]),
      })),
    },
  });
  await outbox.close();
  return saved;
}

it("arrives with all its parts, and survives backup and restore", async (t) => {
  const { server, home, startAgent, enrolment } = await startAgentTestEnvironment(t);
  const { versionId, record } = await saveBefore(home, enrolment.device);
  const { handle, log } = await startAgent({ profile: { "link.coding": "always" } });
  await log.until("recorded", 1, isOfVersion(versionId));
  const { fields } = await log.until("coded", 1, isOfVersion(versionId));
  assert.equal(fields["rawBytes"], 2 * 4000 + 3 * 4000 + 4000);
  assert.ok(Number(fields["bytes"]) < 3 * 4000 + 4000, "the checkpoints take less than one of them does raw");
  await log.until("released", 1, isOfVersion(versionId));
  const shown = (await handle.status()).lines[0]?.versions.find((one) => one.versionId === versionId);
  assert.equal(
    shown?.usesBytes,
    data.length + manifest.length + chunk.length + 4 * 4000 + 3 * 4000,
    "of all trees but the model's, and the data",
  );
  const { problems } = await server.handle.operations.check({ fleet: testFleet });
  assert.deepEqual(problems, []);
  const folder = await mkdtemp(join(tmpdir(), "stemma-uses-"));
  t.after(() => rm(folder, { recursive: true, force: true }));
  await server.handle.operations.backup({ fleet: testFleet, folder: join(folder, "backup"), plainKey: true });
  await restoreHome(join(folder, "backup"), join(folder, "restored"));
  const restored = await openNodeHome(join(folder, "restored"));
  const repository = await openRepository(restored, testFleet);
  try {
    assert.deepEqual((await repository.check()).problems, []);
    const bytesOf = async (part: RecoveredPart): Promise<Record<string, Buffer>> => {
      const { leaves, sources } = await repository.recover(versionId, { part });
      const all = await Promise.all(
        sources.map(async (source) => Buffer.from((await tensorOfSource(source)).bytes)),
      );
      return Object.fromEntries(leaves.map(({ path }, at) => [path, all[at] as Buffer]));
    };
    const expected = (names: Readonly<Record<string, number>>): unknown =>
      Object.fromEntries(
        Object.entries(names).map(([name, seed]) => [name, Buffer.from(noiseBytes(4000, seed))]),
      );
    assert.deepEqual(await bytesOf("model"), expected({ v: 2, w: 1 }));
    assert.deepEqual(await bytesOf("optimizer"), expected({ "slot/m": 4 }));
    for (const iteration of iterations)
      assert.deepEqual(await bytesOf({ checkpoint: iteration }), {
        ...(expected({ v: 2 }) as object),
        w: Buffer.from(nearModel(iteration)),
      });
    const found = await readManifest(repository.objects, objectId("data", manifest));
    assert.ok(found !== undefined);
    for await (const piece of readData(repository.objects, found))
      assert.deepEqual(Buffer.from(piece), Buffer.from(content));
    const [dataId] = record.uses?.data ?? [];
    assert.deepEqual(
      Buffer.from(await streamedBytes(repository.objects, "data", dataId as Hash)),
      Buffer.from(data),
    );
  } finally {
    await repository.close();
    await restored.close();
  }
});

it("comes with an offered model where the line goes on from the optimizer's state", async (t) => {
  const { server, home, startAgent, enrolment } = await startAgentTestEnvironment(t);
  const owner = await mkdtemp(join(tmpdir(), "stemma-owner-"));
  t.after(() => rm(owner, { recursive: true, force: true }));
  const { versionId, record } = await saveBefore(owner, "v2");
  const other = await server.enroll("v2", [testLine]);
  const sender = await startAgent({ home: owner, enrolment: other });
  await sender.log.until("stored", 1, isOfVersion(versionId));
  await server.handle.operations.assign({
    fleet: testFleet,
    device: enrolment.device,
    line: testLine,
    model: versionId,
  });
  const lines = {
    [testLine]: {
      recipe: "fake",
      parameters: { resumeOptimizer: true },
      dataset: { reader: "images-generated" },
    },
  };
  const { log, handle } = await startAgent({ lines });
  await log.until("fetched", 1, isOfVersion(versionId));
  await log.until("activated", 1, isOfVersion(versionId));
  assert.ok((await readdir(join(home, "versions", versionId))).includes("optimizer.safetensors"));
  await handle.close();
  const store = await openOutbox(home);
  assert.ok(record.uses?.optimizer !== undefined && store.objects.has(record.uses.optimizer));
  for (const { tree } of record.uses.checkpoints ?? []) assert.ok(!store.objects.has(tree));
  assert.ok(!store.objects.has(record.uses.data?.[0] as Hash));
  await store.close();
});
