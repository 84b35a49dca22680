/** Offers and activations: a device is offered what it is assigned, and what it activates is recorded. */
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { objectId } from "../../../../../shared/tensor/hash.js";
import { decodeTree } from "../../../../../shared/model/tree-object.js";
import { decodeSaveRecord } from "../../../../../shared/model/save-record.js";
import { verifyOffer } from "../../../../../shared/trust/signatures.js";
import { noiseBytes } from "../../../../helpers/noise-bytes.js";
import { ScriptedDevice } from "../../../../helpers/scripted-device.js";
import { startTestServer, testFleet, type TestServer } from "../../../../helpers/test-server.js";
import { fetchObjects, importModel } from "./fetched-models.js";

describe("offers", () => {
  let server: TestServer;
  before(async () => {
    server = await startTestServer();
  });
  after(() => server.remove());

  it("offers an assigned model with a signature, serves its tensors, records its activation, and then stops offering it", async () => {
    const bytes = noiseBytes(500_000, 1);
    const versionId = await importModel(server, "base-model", bytes);
    const enrolment = await server.enroll("receiver", ["line"], { line: "base-model" });
    const device = await ScriptedDevice.connect(enrolment, { session: 1 });
    const offering = device.next("offer", { line: "line" });
    await device.birth();
    const offer = await offering;
    assert.equal(offer.versionId, versionId);
    verifyOffer(
      enrolment.serverPublicKey,
      { fleet: testFleet, device: "receiver", generation: 1, line: "line", versionId: offer.versionId },
      offer.signature,
    );
    assert.equal(objectId("record", offer.record), offer.versionId);
    const record = decodeSaveRecord(offer.record);
    const tree = offer.objects.find(({ kind }) => kind === "tree");
    assert.ok(tree);
    assert.equal(objectId("tree", tree.data), record.objects.tree);
    const leaf = decodeTree(tree.data).leaves[0];
    assert.ok(leaf);
    const stream = await fetchObjects(
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
    const versionId = await importModel(server, "later", noiseBytes(4000, 2));
    const device = await ScriptedDevice.connect(await server.enroll("waiting"), { session: 1 });
    await device.birth();
    const offer = device.next("offer", { line: "line" });
    await server.handle.operations.assign({
      fleet: testFleet,
      device: "waiting",
      line: "line",
      model: "later:1",
      force: true,
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
    const offer = device.next("offer", { versionId: first.versionId });
    await server.handle.operations.assign({
      fleet: testFleet,
      device: "returning",
      line: "line",
      model: "returning-model:1",
      force: true,
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
});
