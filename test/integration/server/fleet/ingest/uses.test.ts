// What a record uses, over the wire: data stream, checkpoints and optimizer state come as tensors. A
// hash gives no bytes of these either, sizes are declared first, and a cut stream goes on where it was.
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { opaqueModelSource } from "../../../../../shared/save/model-source.js";
import type { SavedModel } from "../../../../../shared/save/save-model.js";
import type { SaveUses, TreeSource } from "../../../../../shared/save/save-uses.js";
import { decodeTree } from "../../../../../shared/model/tree-object.js";
import type { Hash } from "../../../../../shared/tensor/tensor.js";
import type { Block, Body, BodyOf, Want } from "../../../../../shared/wire/messages.js";
import { streamObjectOfBytes } from "../../../../../shared/wire/transfer/stream.js";
import { streamOf } from "../../../../helpers/object-stores.js";
import { noiseBytes } from "../../../../helpers/noise-bytes.js";
import { smallProvenance } from "../../../../helpers/small-provenance.js";
import { pollUntil } from "../../../../helpers/poll-until.js";
import { ScriptedDevice, type ScriptedDeviceOptions } from "../../../../helpers/scripted-device.js";
import { startTestServer, type TestServer } from "../../../../helpers/test-server.js";
import { fetchObjects } from "./fetched-models.js";

/** Larger than what a server takes as small objects here. */
const data = noiseBytes(700_000, 910);
const provenance = smallProvenance(9);
const limits = {
  maxObjectBytes: 128 * 1024,
  maxUsesBytes: 4_000_000,
  spoolBytes: 6_000_000,
  spoolBytesPerDevice: 4_000_000,
};

const tree = (seed: number): TreeSource =>
  opaqueModelSource([{ name: "w", dtype: "F32", shape: [1000], bytes: noiseBytes(4000, seed) }]);
const usesOf = (seed: number): SaveUses => ({
  engine: { id: "e".repeat(64) as Hash },
  data: [{ source: streamOf(data) }, { source: streamOf(new Uint8Array(0)) }],
  optimizer: tree(seed + 1),
  checkpoints: [10, 20, 30].map((iteration) => ({ iteration, model: tree(seed + iteration) })),
});

type Answer = BodyOf<"want" | "receipt" | "refusal">;
const isAnswer =
  (versionId: Hash) =>
  (message: Body): message is Answer =>
    (message.type === "want" || message.type === "receipt" || message.type === "refusal") &&
    message.versionId === versionId;
const isEnd =
  (versionId: Hash) =>
  (message: Body): message is BodyOf<"receipt" | "refusal"> =>
    (message.type === "receipt" || message.type === "refusal") && message.versionId === versionId;
const wantedKinds = (want: Want): readonly string[] => [
  ...want.tensorIndices.map(() => "tensor"),
  ...want.objects.map(({ kind }) => kind),
];
function dataId({ record }: SavedModel): Hash {
  const id = record.uses?.data?.find((one) => one !== undefined);
  assert.ok(id);
  return id;
}

describe("what a record uses", () => {
  let server: TestServer;
  let owner: ScriptedDevice;
  let first: SavedModel;
  before(async () => {
    server = await startTestServer({ limits });
    owner = await connect("owner");
    first = await owner.save({ w: noiseBytes(4000, 1) }, { sequence: 1, uses: usesOf(100), provenance });
    await owner.announce(first);
    await owner.receipt("stored", first.versionId);
  });
  after(async () => {
    await owner.close();
    await server.remove();
  });
  async function connect(name: string, options: ScriptedDeviceOptions = {}): Promise<ScriptedDevice> {
    const device = await ScriptedDevice.connect(await server.enroll(name), options);
    await device.birth();
    return device;
  }

  it("is requested in one transfer, but for the engine, and comes back to the device that sent it", async () => {
    const want = await owner.want(first.versionId, "tensors");
    const kinds = [...Array<string>(5).fill("tensor"), "data", "data"];
    assert.deepEqual(wantedKinds(want), kinds);
    assert.equal(want.ownReferences, true);
    assert.ok(
      !owner.messages.some((one) => one.type === "want" && one.objects.some(({ kind }) => kind === "engine")),
    );
    const fetched = await fetchObjects(
      owner,
      first.versionId,
      [
        { kind: "data", id: dataId(first), byteLength: 0 },
        { kind: "tensor", id: tree(120).leaves[0]?.tensor as Hash, byteLength: 4000 },
        { kind: "openings", id: first.record.objects.openings as Hash, byteLength: 0 },
      ],
      "0a".repeat(8),
    );
    assert.deepEqual(fetched, Buffer.concat([data, noiseBytes(4000, 120), provenance.openings]));
  });

  it("is not requested again with the next version, which shares it", async () => {
    const next = await owner.save(
      { w: noiseBytes(4000, 2) },
      { sequence: 2, base: first.versionId, uses: { ...usesOf(100), optimizer: tree(300) } },
    );
    await owner.announce(next);
    assert.deepEqual(wantedKinds(await owner.want(next.versionId, "tensors")), ["tensor", "tensor"]);
    await owner.receipt("recorded", next.versionId);
  });

  it("of another device is not given for its hash, and other bytes are refused whether or not it is here", async () => {
    const refusals: BodyOf<"refusal">[] = [];
    for (const [name, claimed] of [
      ["thief-present", data],
      ["thief-absent", noiseBytes(700_000, 912)],
    ] as const) {
      const thief = await connect(name);
      const saved = await thief.save(
        { w: noiseBytes(4000, 3) },
        { sequence: 1, uses: { data: [{ source: streamOf(claimed) }] } },
      );
      thief.streamedObject = () => streamObjectOfBytes(noiseBytes(700_000, 913));
      await thief.announce(saved);
      assert.deepEqual(wantedKinds(await thief.want(saved.versionId, "tensors")), ["tensor", "data"]);
      const end = await thief.find(isEnd(saved.versionId));
      assert.equal(end.type, "refusal");
      if (end.type === "refusal") refusals.push(end);
      const refused = thief.next("refusal", { transfer: "0b".repeat(8) });
      await thief.send({
        type: "fetch",
        versionId: first.versionId,
        transfer: "0b".repeat(8),
        objects: [{ kind: "data", id: dataId(first), byteLength: 0 }],
        blockBytes: 0,
        part: 0,
        parts: 1,
      });
      assert.equal((await refused).code, "NOT_ALLOWED");
      await thief.close();
    }
    assert.deepEqual(
      refusals.map(({ code }) => code),
      ["OBJECT_HASH_MISMATCH", "OBJECT_HASH_MISMATCH"],
    );
    const texts = refusals.map(({ message }) => message.replaceAll(/[0-9a-f]{64}/g, "ID"));
    assert.equal(texts[0], texts[1]);
  });

  it("is not part of a model that the server gives: neither offered nor served", async () => {
    const enrolment = await server.enroll("given", ["line"], { line: "owner-model:1" });
    const device = await ScriptedDevice.connect(enrolment, { answerWants: false });
    await device.birth();
    const offer = await device.find(
      (message): message is BodyOf<"offer"> =>
        message.type === "offer" && message.versionId === first.versionId,
    );
    const kinds = offer.objects.map(({ kind }) => kind).sort();
    assert.deepEqual(kinds, ["environment", "names", "owner-map", "provenance", "tree"]);
    const [leaf] = decodeTree(offer.objects.find(({ kind }) => kind === "tree")?.data as Uint8Array).leaves;
    const parts = [
      ["data", dataId(first)],
      ["openings", first.record.objects.openings],
      ["tree", first.record.uses?.checkpoints?.[0]?.tree],
      ["tensor", tree(110).leaves[0]?.tensor],
      ["engine", first.record.uses?.engine],
    ] as const;
    for (const [at, [kind, id]] of parts.entries()) {
      const objects = [{ kind, id: id as Hash, byteLength: 0 }];
      const transfer = `c${at}`.repeat(8);
      const refused = device.next("refusal", { transfer });
      await device.send({
        type: "fetch",
        versionId: first.versionId,
        transfer,
        objects,
        blockBytes: 0,
        part: 0,
        parts: 1,
      });
      assert.equal((await refused).code, "NOT_ALLOWED", kind);
    }
    // Given the model completely, it still has to send data that it names.
    const ref = { kind: "tensor" as const, id: leaf?.tensor as Hash, byteLength: 4000 };
    await fetchObjects(device, first.versionId, [ref], "0c".repeat(8));
    const claim = await device.save(
      { w: noiseBytes(4000, 1) },
      {
        sequence: 1,
        uses: { data: [{ source: streamOf(data) }], checkpoints: [{ iteration: 10, model: tree(110) }] },
      },
    );
    await device.announce(claim);
    const answer = await device.find(isAnswer(claim.versionId));
    assert.equal(answer.type, "want");
    assert.deepEqual(answer.type === "want" && wantedKinds(answer).slice(-1), ["data"]);
    await device.close();
  });

  it("has declared sizes: a wrong count, too much, and a stream of another length are refused", async () => {
    const liar = await connect("liar");
    const saved = await liar.save(
      { w: noiseBytes(4000, 4) },
      { sequence: 1, uses: { data: [{ source: streamOf(data) }] } },
    );
    const refusalOf = async (changed: Partial<BodyOf<"announce">>): Promise<string> => {
      const refused = liar.next("refusal", { versionId: saved.versionId });
      await liar.announce(saved, changed);
      return (await refused).code;
    };
    assert.equal(await refusalOf({ streamedBytes: undefined }), "ANNOUNCE_INVALID");
    assert.equal(await refusalOf({ streamedBytes: [1, 2] }), "ANNOUNCE_INVALID");
    assert.equal(await refusalOf({ streamedBytes: [limits.maxUsesBytes + 1] }), "SIZE_OVER_LIMIT");
    assert.equal(await refusalOf({ usesTensorBytes: limits.maxUsesBytes }), "SIZE_OVER_LIMIT");
    assert.equal(await refusalOf({ usesTensorBytes: 1 }), "ANNOUNCE_INVALID");
    for (const lie of [data.length - 1, data.length + 1])
      assert.equal(await refusalOf({ streamedBytes: [lie] }), "TRANSFER_MANIFEST_INVALID");
    await liar.close();
  });

  it("arrives over a link that loses, repeats and damages blocks, and goes on after the device was gone", async () => {
    let count = 0;
    const flip = (block: Block): Block => {
      const bytes = new Uint8Array(block.data);
      bytes[0] = (bytes[0] ?? 0) ^ 1;
      return { ...block, data: bytes };
    };
    const device = await connect("unlucky", {
      blockBytes: 16 * 1024,
      intercept: (message) => {
        if (message.type !== "block") return [message];
        count++;
        // The stream is cut here; the device comes back below.
        if (count > 30) return [];
        return count % 7 === 0 ? [flip(message), message] : [message, message];
      },
    });
    const saved = await device.save({ w: noiseBytes(4000, 5) }, { sequence: 1, uses: usesOf(400) });
    await device.announce(saved);
    const want = await device.want(saved.versionId, "tensors");
    await pollUntil("the cut of the stream", () => count > 30);
    await device.close();
    const later = await ScriptedDevice.connect(server.withCurrentAddress(device.enrolment), {
      session: 2,
      previousSession: 1,
      blockBytes: 16 * 1024,
      store: device.store,
    });
    for (const [id, model] of device.models) later.models.set(id, model);
    await later.birth();
    await later.announce(saved);
    assert.equal((await later.want(saved.versionId, "tensors")).transfer, want.transfer, "it goes on");
    await later.receipt("stored", saved.versionId);
    assert.ok(
      later.sentBlocks < (700_000 + 23_000) / (16 * 1024),
      `${later.sentBlocks} blocks were sent again`,
    );
    await later.close();
  });

  it("leaves room for others where a device announces much and sends nothing", async () => {
    const hoarder = await connect("hoarder", {
      blockBytes: 64 * 1024,
      // The first blocks of each transfer make the server reserve its space.
      intercept: (message) => (message.type === "block" && message.index > 2 ? [] : [message]),
    });
    for (let sequence = 1; sequence <= 8; sequence++) {
      const saved = await hoarder.save(
        { w: noiseBytes(4000, 20 + sequence) },
        { sequence, uses: { data: [{ source: streamOf(noiseBytes(900_000, 20 + sequence)) }] } },
      );
      await hoarder.announce(saved);
      const isItsTransfer = (transfer: string): boolean =>
        hoarder.messages.some(
          (one) => one.type === "want" && one.versionId === saved.versionId && one.transfer === transfer,
        );
      await hoarder.find(
        (one): one is BodyOf<"blockRequest" | "refusal"> =>
          (one.type === "blockRequest" &&
            isItsTransfer(one.transfer) &&
            one.blocks.some((block) => block >= 8)) ||
          (one.type === "refusal" && one.versionId === saved.versionId),
      );
    }
    const honest = await connect("honest");
    const saved = await honest.save(
      { w: noiseBytes(4000, 40) },
      { sequence: 1, uses: { data: [{ source: streamOf(noiseBytes(900_000, 41)) }] } },
    );
    await honest.announce(saved);
    const end = await honest.find(isEnd(saved.versionId));
    assert.equal(end.type, "receipt", end.type === "refusal" ? end.message : "");
    await honest.close();
    await hoarder.close();
  });
});
