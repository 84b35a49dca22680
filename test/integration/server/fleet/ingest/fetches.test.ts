/** Fetches: a device gets the objects of the versions it may have, and nothing else. */
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { smallObjectsOf } from "../../../../../shared/model/record-objects.js";
import { decodeTree } from "../../../../../shared/model/tree-object.js";
import { tensorId } from "../../../../../shared/tensor/hash.js";
import type { BodyOf, ObjectRef } from "../../../../../shared/wire/messages.js";
import { noiseBytes } from "../../../../helpers/noise-bytes.js";
import { ScriptedDevice } from "../../../../helpers/scripted-device.js";
import { startTestServer, testFleet, type TestServer } from "../../../../helpers/test-server.js";
import { fetchObjects, importModel } from "./fetched-models.js";

describe("fetches", () => {
  let server: TestServer;
  before(async () => {
    server = await startTestServer();
  });
  after(() => server.remove());

  it("serves nothing to a device that knows a hash but was not assigned the version", async () => {
    const versionId = await importModel(server, "secret", noiseBytes(4000, 3));
    const model = await server.handle.operations.model({ fleet: testFleet, model: versionId });
    const device = await ScriptedDevice.connect(await server.enroll("curious"), { session: 1 });
    await device.birth();
    const refused = device.next("refusal", { transfer: "cd".repeat(8) });
    await device.send({
      type: "fetch",
      versionId: model.versionId,
      transfer: "cd".repeat(8),
      objects: [{ kind: "tree", id: model.record.objects.tree, byteLength: 0 }],
      blockBytes: 0,
      part: 0,
      parts: 1,
    });
    assert.equal((await refused).code, "NOT_ALLOWED");
    const own = await device.save({ w: [1] }, { sequence: 1 });
    await device.announce(own);
    await device.receipt("recorded", own.versionId);
    const again = device.next("refusal", { transfer: "ef".repeat(8) });
    await device.send({
      type: "fetch",
      versionId: own.versionId,
      transfer: "ef".repeat(8),
      objects: [{ kind: "tree", id: model.record.objects.tree, byteLength: 0 }],
      blockBytes: 0,
      part: 0,
      parts: 1,
    });
    assert.equal((await again).code, "NOT_ALLOWED");
    await device.close();
  });

  it("codes a model only against versions that the device was given or made itself, because a delta would disclose others", async () => {
    const secret = noiseBytes(40_000, 31);
    const own = Uint8Array.from(secret, (byte, at) => (at % 400 === 0 ? byte ^ 1 : byte));
    const secretId = await importModel(server, "other-secret", secret);
    const childId = await importModel(server, "near-secret", own);
    const device = await ScriptedDevice.connect(
      await server.enroll("prober", ["line"], { line: "near-secret" }),
      { session: 1 },
    );
    await device.birth();
    const model = await server.handle.operations.model({ fleet: testFleet, model: childId });
    const { objects } = await device.find(
      (message): message is BodyOf<"offer"> =>
        message.type === "offer" && message.versionId === model.versionId,
    );
    const tree = objects.find(({ kind }) => kind === "tree");
    const leaf = decodeTree(tree?.data ?? new Uint8Array(0)).leaves[0];
    assert.ok(leaf);
    const manifestOf = async (
      references: readonly string[],
      transfer: string,
    ): Promise<BodyOf<"manifest">> => {
      const manifest = device.next("manifest", { transfer });
      await device.send({
        type: "fetch",
        versionId: model.versionId,
        transfer,
        objects: [{ kind: "tensor", id: leaf.tensor, byteLength: own.length }],
        blockBytes: 0,
        part: 0,
        parts: 1,
        codec: 1,
        references: references as BodyOf<"fetch">["references"] & object,
      });
      await device.send({ type: "blockRequest", transfer, blocks: [], manifestParts: [0] });
      return await manifest;
    };
    const foreign = await manifestOf([secretId], "1a".repeat(8));
    assert.ok(
      foreign.encodings.every(({ against }) => against === undefined),
      "coded against what it may not have",
    );
    assert.ok(foreign.byteLength > 0.5 * own.length);
    await server.handle.operations.assign({
      fleet: testFleet,
      device: "prober",
      line: "line",
      model: "other-secret:1",
      force: true,
    });
    // It counts once it was fetched completely.
    const other = await server.handle.operations.model({ fleet: testFleet, model: secretId });
    const small = smallObjectsOf(other.record).map((ref) => ({ ...ref, byteLength: 0 }));
    await fetchObjects(device, other.versionId, small, "3c".repeat(8));
    const tensor = tensorId({ dtype: "F32", shape: [secret.length / 4] }, secret);
    await fetchObjects(
      device,
      other.versionId,
      [{ kind: "tensor", id: tensor, byteLength: secret.length }],
      "4d".repeat(8),
    );
    await server.handle.operations.assign({
      fleet: testFleet,
      device: "prober",
      line: "line",
      model: "near-secret:1",
      force: true,
    });
    const given = await manifestOf([secretId], "2b".repeat(8));
    assert.ok(given.encodings.every(({ against }) => against !== undefined));
    assert.ok(given.byteLength < 0.2 * own.length, `${given.byteLength} of ${own.length} bytes`);
    await device.close();
  });

  it("codes a model once for devices that each trained on from the same release", async () => {
    const bytes = noiseBytes(40_000, 41);
    const stepOf = (step: number): Uint8Array =>
      bytes.map((byte, at) => (at % 400 === step ? byte ^ 1 : byte));
    const tensorOf = (of: Uint8Array) => tensorId({ dtype: "F32", shape: [of.length / 4] }, of);
    const base = await importModel(server, "shared-step", bytes);
    const update = await importModel(server, "shared-step", stepOf(0), base);
    const { versionId, record } = await server.handle.operations.model({ fleet: testFleet, model: base });
    const manifests: BodyOf<"manifest">[] = [];
    for (const [at, name] of ["trained-1", "trained-2"].entries()) {
      const device = await ScriptedDevice.connect(
        await server.enroll(name, ["line"], { line: "shared-step:1" }),
        {
          session: 1,
        },
      );
      await device.birth();
      const small = smallObjectsOf(record).map((ref) => ({ ...ref, byteLength: 0 }));
      await fetchObjects(device, versionId, small, "5e".repeat(8));
      const whole = { kind: "tensor", id: tensorOf(bytes), byteLength: bytes.length } as const;
      await fetchObjects(device, versionId, [whole], "6f".repeat(8));
      const own = await device.save({ w: stepOf(1 + at) }, { sequence: 1 });
      await device.announce(own);
      await device.receipt("stored", own.versionId);
      const line = { fleet: testFleet, device: name, line: "line" };
      await server.handle.operations.assign({ ...line, model: "shared-step:2" });
      const transfer = "7a".repeat(8);
      const manifest = device.next("manifest", { transfer });
      await device.send({
        type: "fetch",
        versionId: update as typeof versionId,
        transfer,
        objects: [{ kind: "tensor", id: tensorOf(stepOf(0)), byteLength: bytes.length }],
        blockBytes: 0,
        part: 0,
        parts: 1,
        codec: 1,
        references: [own.versionId, versionId],
      });
      await device.send({ type: "blockRequest", transfer, blocks: [], manifestParts: [0] });
      manifests.push(await manifest);
      await device.close();
    }
    assert.deepEqual(manifests[0]?.encodings[0]?.against, tensorOf(bytes));
    assert.deepEqual(manifests[0], manifests[1]);
  });

  it("serves two devices that request the same under the same transfer id, each its own stream", async () => {
    const bytes = noiseBytes(200_000, 21);
    const sharedId = await importModel(server, "shared-base", bytes);
    const connect = async (name: string): Promise<{ device: ScriptedDevice; offer: BodyOf<"offer"> }> => {
      const device = await ScriptedDevice.connect(
        await server.enroll(name, ["line"], { line: "shared-base" }),
        { session: 1 },
      );
      const offering = device.next("offer", { versionId: sharedId as BodyOf<"offer">["versionId"] });
      await device.birth();
      return { device, offer: await offering };
    };
    const { device: first, offer } = await connect("twin-1");
    const { device: second } = await connect("twin-2");
    const { versionId } = offer;
    const tree = offer.objects.find(({ kind }) => kind === "tree");
    assert.ok(tree);
    const refs: ObjectRef[] = decodeTree(tree.data).leaves.map(({ tensor }) => ({
      kind: "tensor",
      id: tensor,
      byteLength: bytes.length,
    }));
    const transfer = "9a".repeat(8);
    // The first device's stream is open and waiting when the second device requests the same.
    const manifest = first.next("manifest", { transfer });
    await first.send({
      type: "fetch",
      versionId,
      transfer,
      objects: refs,
      blockBytes: 64 * 1024,
      part: 0,
      parts: 1,
    });
    await first.send({ type: "blockRequest", transfer, blocks: [], manifestParts: [0] });
    await manifest;
    assert.ok((await fetchObjects(second, versionId, refs, transfer)).equals(Buffer.from(bytes)));
    const block = first.next("block");
    await first.send({ type: "blockRequest", transfer, blocks: [0], manifestParts: [] });
    assert.deepEqual(
      Buffer.from((await block).data),
      Buffer.from(bytes.subarray(0, 64 * 1024)),
      "the second one's end is not the first one's",
    );
    await Promise.all([first.close(), second.close()]);
  });

  it("answers a request for blocks that overtook its fetch", async () => {
    const device = await ScriptedDevice.connect(await server.enroll("hasty"), { session: 1 });
    await device.birth();
    const saved = await device.save({ w: noiseBytes(8000, 9) }, { sequence: 1 });
    await device.announce(saved);
    await device.receipt("released", saved.versionId);
    const transfer = "34".repeat(8);
    const manifest = device.next("manifest", { transfer });
    await device.send({ type: "blockRequest", transfer, blocks: [], manifestParts: [0] });
    await device.send({
      type: "fetch",
      versionId: saved.versionId,
      transfer,
      objects: [{ kind: "tree", id: saved.record.objects.tree, byteLength: 0 }],
      blockBytes: 0,
      part: 0,
      parts: 1,
    });
    assert.equal((await manifest).transfer, transfer);
    assert.equal(
      device.messages.some((message) => message.type === "refusal"),
      false,
    );
    await device.close();
  });

  it("serves a device its own version back, small objects with their sizes", async () => {
    const device = await ScriptedDevice.connect(await server.enroll("forgetful"), { session: 1 });
    await device.birth();
    const saved = await device.save({ w: noiseBytes(8000, 4) }, { sequence: 1 });
    await device.announce(saved);
    await device.receipt("released", saved.versionId);
    const tree = await device.store.read("tree", saved.record.objects.tree);
    const stream = await fetchObjects(
      device,
      saved.versionId,
      [{ kind: "tree", id: saved.record.objects.tree, byteLength: 0 }],
      "12".repeat(8),
    );
    assert.ok(stream.equals(Buffer.from(tree)));
    await device.close();
  });
});
