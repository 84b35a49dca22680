// From server to device: models offered, fetched and activated; commands and their results.
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { nodeClock } from "../../../../shared/adapters/node-ports.js";
import { objectId } from "../../../../shared/tensor/hash.js";
import { sourceOfTensor } from "../../../../shared/tensor/tensor.js";
import { safetensorsChunks } from "../../../../shared/tensor/safetensors.js";
import { decodeTree } from "../../../../shared/model/tree-object.js";
import { decodeSaveRecord } from "../../../../shared/model/save-record.js";
import { verifyOffer } from "../../../../shared/trust/signatures.js";
import { maxBlockBytes } from "../../../../shared/wire/limits.js";
import type { BodyOf, ObjectRef } from "../../../../shared/wire/messages.js";
import { runReceiver } from "../../../../shared/wire/transfer/run-receiver.js";
import { WindowBudget } from "../../../../shared/wire/transfer/window-budget.js";
import { noiseBytes } from "../../../helpers/noise-bytes.js";
import { ScriptedDevice } from "../../../helpers/scripted-device.js";
import { startTestServer, testFleet, type TestServer } from "../../../helpers/test-server.js";

async function imported(server: TestServer, name: string, bytes: Uint8Array): Promise<string> {
  const chunks = safetensorsChunks([
    { name: "w", source: sourceOfTensor({ dtype: "F32", shape: [bytes.length / 4], bytes }) },
  ]);
  const { summary } = await server.handle.operations.import(
    { byteLength: -1, chunks },
    { fleet: testFleet, name },
  );
  assert.ok(summary);
  return summary.versionId;
}

/** Fetches objects of a version with the real receiver; resolves with the stream. */
async function fetched(
  device: ScriptedDevice,
  versionId: BodyOf<"fetch">["versionId"],
  refs: readonly ObjectRef[],
  transfer: string,
): Promise<Buffer> {
  const pieces = new Map<number, Uint8Array>();
  const rawBytes = refs.reduce((sum, { byteLength }) => sum + byteLength, 0);
  const receiver = runReceiver(
    { transfer, objects: refs.length, rawBytes, maxBytes: 2 ** 30, maxBlockBytes },
    {
      clock: nodeClock(),
      budget: new WindowBudget(2 ** 24),
      send: (message) => {
        void device.send(message);
      },
      write: (offset, bytes) => {
        pieces.set(offset, bytes);
        return Promise.resolve();
      },
    },
  );
  let seen = 0;
  const feed = (): void => {
    for (; seen < device.messages.length; seen++) {
      const message = device.messages[seen];
      if (message?.type === "manifest") receiver.onManifest(message);
      if (message?.type === "block") receiver.onBlock(message);
    }
  };
  device.client.on("message", () => {
    setImmediate(feed);
  });
  await device.send({
    type: "fetch",
    versionId,
    transfer,
    objects: refs,
    blockBytes: 64 * 1024,
    part: 0,
    parts: 1,
  });
  await receiver.finished;
  await device.send({ type: "transferDone", transfer });
  return Buffer.concat([...pieces].sort(([a], [b]) => a - b).map(([, bytes]) => bytes));
}

describe("server models to devices", () => {
  let server: TestServer;
  before(async () => {
    server = await startTestServer();
  });
  after(() => server.remove());

  it("offers an assigned model with a signature, serves its tensors, records its activation, and then stops offering it", async () => {
    const bytes = noiseBytes(500_000, 1);
    const versionId = await imported(server, "base-model", bytes);
    const enrolment = await server.enroll("receiver", ["line"], { line: "base-model" });
    const device = await ScriptedDevice.connect(enrolment, { session: 1 });
    const offering = device.next("offer");
    await device.birth();
    const offer = await offering;
    assert.equal(offer.versionId, versionId);
    verifyOffer(
      enrolment.serverPublicKey,
      { fleet: testFleet, device: "receiver", line: "line", versionId: offer.versionId },
      offer.signature,
    );
    assert.equal(objectId("record", offer.record), offer.versionId);
    const record = decodeSaveRecord(offer.record);
    const tree = offer.objects.find(({ kind }) => kind === "tree");
    assert.ok(tree);
    assert.equal(objectId("tree", tree.data), record.objects.tree);
    const leaf = decodeTree(tree.data).leaves[0];
    assert.ok(leaf);
    const stream = await fetched(
      device,
      offer.versionId,
      [{ kind: "tensor", id: leaf.tensor, byteLength: bytes.length }],
      "ab".repeat(8),
    );
    assert.ok(stream.equals(Buffer.from(bytes)));
    await device.send({
      type: "activated",
      versionId: offer.versionId,
      line: "line",
      atMs: Date.now(),
      clockErrorMs: 5,
    });
    // A device's messages are handled serially: the response to the next one comes after the fact was
    // recorded.
    const from = device.messages.length;
    await device.birth();
    const shown = await server.handle.operations.device({ fleet: testFleet, device: "receiver" });
    assert.equal(shown.active["line"]?.versionId, versionId);
    assert.equal(
      device.messages.slice(from).some((message) => message.type === "offer"),
      false,
    );
    const [moment] = await server.handle.operations.asOf({
      fleet: testFleet,
      at: shown.active["line"]?.serverAtMs ?? 0,
    });
    assert.equal(moment?.versionId, versionId, moment?.why);
    await device.close();
  });

  it("immediately offers a model assigned to a connected device", async () => {
    const versionId = await imported(server, "later", noiseBytes(4000, 2));
    const device = await ScriptedDevice.connect(await server.enroll("waiting"), { session: 1 });
    await device.birth();
    const offer = device.next("offer");
    await server.handle.operations.assign({
      fleet: testFleet,
      device: "waiting",
      line: "line",
      model: "later:1",
    });
    assert.equal((await offer).versionId, versionId);
    await device.close();
  });

  it("offers an older model again when it is assigned again, although the line has newer models based on it", async () => {
    const device = await ScriptedDevice.connect(await server.enroll("returning"), { session: 1 });
    await device.birth();
    const first = await device.save({ w: noiseBytes(4000, 11) }, { sequence: 1 });
    const second = await device.save({ w: noiseBytes(4000, 12) }, { sequence: 2, base: first.versionId });
    for (const [at, saved] of [first, second].entries()) {
      await device.announce(saved);
      await device.receipt("recorded", saved.versionId);
      await device.send({
        type: "activated",
        versionId: saved.versionId,
        line: "line",
        atMs: at + 1,
        clockErrorMs: 0,
      });
    }
    await device.birth();
    const offer = device.next("offer");
    await server.handle.operations.assign({
      fleet: testFleet,
      device: "returning",
      line: "line",
      model: "returning-model:1",
    });
    assert.equal((await offer).versionId, first.versionId);
    await device.send({
      type: "activated",
      versionId: first.versionId,
      line: "line",
      atMs: 3,
      clockErrorMs: 0,
    });
    await device.send({
      type: "activated",
      versionId: second.versionId,
      line: "line",
      atMs: 4,
      clockErrorMs: 0,
    });
    const from = device.messages.length;
    await device.birth();
    await device.birth();
    assert.equal(
      device.messages.slice(from).some((message) => message.type === "offer"),
      false,
      "what the line has built on is not offered by itself",
    );
    await device.close();
  });

  it("serves nothing to a device that knows a hash but was not assigned the version", async () => {
    const versionId = await imported(server, "secret", noiseBytes(4000, 3));
    const model = await server.handle.operations.model({ fleet: testFleet, model: versionId });
    const device = await ScriptedDevice.connect(await server.enroll("curious"), { session: 1 });
    await device.birth();
    const refused = device.next("refusal");
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
    const again = device.next("refusal");
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

  it("codes a model only against versions that the device was assigned or made itself, because a delta would disclose others", async () => {
    const secret = noiseBytes(40_000, 31);
    const own = Uint8Array.from(secret, (byte, at) => (at % 400 === 0 ? byte ^ 1 : byte));
    const secretId = await imported(server, "other-secret", secret);
    const childId = await imported(server, "near-secret", own);
    const device = await ScriptedDevice.connect(
      await server.enroll("prober", ["line"], { line: "near-secret" }),
      { session: 1 },
    );
    await device.birth();
    const model = await server.handle.operations.model({ fleet: testFleet, model: childId });
    const leaf = decodeTree(
      (await device.find((message): message is BodyOf<"offer"> => message.type === "offer")).objects.find(
        ({ kind }) => kind === "tree",
      )?.data ?? new Uint8Array(0),
    ).leaves[0];
    assert.ok(leaf);
    const manifestOf = async (
      references: readonly string[],
      transfer: string,
    ): Promise<BodyOf<"manifest">> => {
      const manifest = device.next("manifest");
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
    });
    await server.handle.operations.assign({
      fleet: testFleet,
      device: "prober",
      line: "line",
      model: "near-secret:1",
    });
    const given = await manifestOf([secretId], "2b".repeat(8));
    assert.ok(given.encodings.every(({ against }) => against !== undefined));
    assert.ok(given.byteLength < 0.2 * own.length, `${given.byteLength} of ${own.length} bytes`);
    await device.close();
  });

  it("serves two devices that request the same under the same transfer id, each its own stream", async () => {
    const bytes = noiseBytes(200_000, 21);
    await imported(server, "shared-base", bytes);
    const connect = async (name: string): Promise<{ device: ScriptedDevice; offer: BodyOf<"offer"> }> => {
      const device = await ScriptedDevice.connect(
        await server.enroll(name, ["line"], { line: "shared-base" }),
        { session: 1 },
      );
      const offering = device.next("offer");
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
    const manifest = first.next("manifest");
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
    assert.ok((await fetched(second, versionId, refs, transfer)).equals(Buffer.from(bytes)));
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
    const manifest = device.next("manifest");
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
    const stream = await fetched(
      device,
      saved.versionId,
      [{ kind: "tree", id: saved.record.objects.tree, byteLength: 0 }],
      "12".repeat(8),
    );
    assert.ok(stream.equals(Buffer.from(tree)));
    await device.close();
  });

  it("refuses to record an activation of another device's model", async () => {
    const owner = await ScriptedDevice.connect(await server.enroll("owner"), { session: 1 });
    await owner.birth();
    const saved = await owner.save({ w: noiseBytes(4000, 5) }, { sequence: 1 });
    await owner.announce(saved);
    await owner.receipt("recorded", saved.versionId);
    const thief = await ScriptedDevice.connect(await server.enroll("thief"), { session: 1 });
    await thief.birth();
    await thief.send({
      type: "activated",
      versionId: saved.versionId,
      line: "line",
      atMs: 1,
      clockErrorMs: null,
    });
    assert.equal((await thief.refusal(saved.versionId)).code, "IDENTITY_FOREIGN");
    assert.deepEqual(
      (await server.handle.operations.device({ fleet: testFleet, device: "thief" })).active,
      {},
    );
    await owner.close();
    await thief.close();
  });

  it("relays a command and its result, and reports when no device answers", async () => {
    const device = await ScriptedDevice.connect(await server.enroll("worker"), { session: 1 });
    await device.birth();
    const asked = device.next("command");
    const answer = server.handle.operations.command({
      fleet: testFleet,
      device: "worker",
      name: "report",
      body: { deep: true },
      timeoutMs: 20_000,
    });
    const command = await asked;
    assert.deepEqual([command.name, JSON.parse(command.json)], ["report", { deep: true }]);
    const { correlation } = device.envelopes.find(({ body }) => body === command) ?? { correlation: "" };
    await device.send(
      { type: "commandResult", code: "ok", json: JSON.stringify({ answer: 42 }) },
      correlation,
    );
    assert.deepEqual(await answer, { code: "ok", result: { answer: 42 } });
    await assert.rejects(
      server.handle.operations.command({
        fleet: testFleet,
        device: "worker",
        name: "report",
        body: {},
        timeoutMs: 30,
      }),
      {
        code: "TIMED_OUT",
      },
    );
    const waiting = server.handle.operations.command({
      fleet: testFleet,
      device: "worker",
      name: "report",
      body: {},
      timeoutMs: 20_000,
    });
    const gone = assert.rejects(waiting, { code: "SERVER_UNREACHABLE" });
    await device.close();
    await gone;
  });
});
