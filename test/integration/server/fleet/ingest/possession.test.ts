// A hash is not a permission: a device that knows ids of objects of the fleet neither gets their bytes nor
// learns whether they are here. What it need not send is what it provably had (docs/design.md, "Trust").
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import type { SavedModel } from "../../../../../shared/save/save-model.js";
import type { Hash } from "../../../../../shared/tensor/tensor.js";
import type { Enrolment } from "../../../../../shared/trust/enrolment.js";
import type { Body, BodyOf, Want } from "../../../../../shared/wire/messages.js";
import { decodeSaveRecord } from "../../../../../shared/model/save-record.js";
import { smallObjectsOf } from "../../../../../shared/model/record-objects.js";
import { decodeTree } from "../../../../../shared/model/tree-object.js";
import { noiseBytes } from "../../../../helpers/noise-bytes.js";
import { pollUntil } from "../../../../helpers/poll-until.js";
import { ScriptedDevice, type ScriptedDeviceOptions } from "../../../../helpers/scripted-device.js";
import { startTestServer, tensorBytes, testFleet, type TestServer } from "../../../../helpers/test-server.js";
import { fetchObjects, importModel } from "./fetched-models.js";

const secret = noiseBytes(120_000, 901);
const attachment = { name: "route.log", bytes: noiseBytes(300_000, 902) };
/** Of the same size as the secret, and nowhere in the fleet. */
const guess = noiseBytes(120_000, 903);

type Answer = BodyOf<"want" | "receipt" | "refusal">;
const isAnswer =
  (versionId: Hash) =>
  (message: Body): message is Answer =>
    (message.type === "want" || message.type === "receipt" || message.type === "refusal") &&
    message.versionId === versionId;

/** What a want discloses, without the random id of its transfer. */
function disclosed({ type, reason, objects, tensorIndices, references, codec, streamBytes, bases }: Want) {
  return { type, reason, objects, tensorIndices, references, codec, streamBytes, bases };
}

describe("what a device need not send", () => {
  let server: TestServer;
  before(async () => {
    server = await startTestServer();
    const victim = await connect("victim");
    const saved = await victim.save({ secret }, { sequence: 1, attachments: [attachment] });
    await victim.announce(saved, { inline: false });
    await victim.receipt("stored", saved.versionId);
    await victim.close();
  });
  after(() => server.remove());

  async function connect(
    name: string,
    { enrolment, ...options }: ScriptedDeviceOptions & { readonly enrolment?: Enrolment } = {},
  ): Promise<ScriptedDevice> {
    const device = await ScriptedDevice.connect(enrolment ?? (await server.enroll(name)), options);
    await device.birth();
    return device;
  }
  const answerOf = (device: ScriptedDevice, { versionId }: SavedModel): Promise<Answer> =>
    device.find(isAnswer(versionId));
  async function offline(device: ScriptedDevice): Promise<void> {
    await device.close();
    const { device: name } = device.enrolment;
    await pollUntil(
      `${name} is offline`,
      async () => !(await server.handle.operations.device({ fleet: testFleet, device: name })).online,
    );
  }

  it("is never a tensor of another device: naming its id records nothing and gives no bytes", async () => {
    const thief = await connect("thief", { answerWants: false });
    const stolen = await thief.save({ secret }, { sequence: 1 });
    const leaf = thief.models.get(stolen.versionId)?.leaves[0];
    assert.ok(leaf);
    await thief.announce(stolen);
    const answer = await answerOf(thief, stolen);
    assert.equal(answer.type, "want", "recorded without a byte of it");
    assert.deepEqual(answer.tensorIndices, [0]);
    const refused = thief.next("refusal", { transfer: "ab".repeat(8) });
    await thief.send({
      type: "fetch",
      versionId: stolen.versionId,
      transfer: "ab".repeat(8),
      objects: [{ kind: "tensor", id: leaf.tensor, byteLength: secret.length }],
      blockBytes: 0,
      part: 0,
      parts: 1,
    });
    assert.equal((await refused).code, "NOT_ALLOWED");
    await thief.close();
  });

  it("is the same whether or not the fleet holds what was guessed", async () => {
    const thief = await connect("guesser", { answerWants: false });
    const shown = new Map<string, unknown[]>();
    let sequence = 0;
    for (const [bytes, file] of [
      [secret, attachment.bytes],
      [guess, noiseBytes(300_000, 904)],
    ] as const)
      for (const inline of [true, false]) {
        const attachments = inline ? [] : [{ name: "x", bytes: file }];
        const saved = await thief.save({ secret: bytes }, { sequence: ++sequence, attachments });
        await thief.announce(saved, { inline });
        const answer = await answerOf(thief, saved);
        assert.equal(answer.type, "want");
        const { objects, ...others } = disclosed(answer);
        const kinds = objects.map(({ kind, byteLength }) => [kind, byteLength]);
        shown.set(`inline ${inline}`, [...(shown.get(`inline ${inline}`) ?? []), { ...others, kinds }]);
      }
    for (const [present, absent] of shown.values()) assert.deepEqual(present, absent);
    const [small] = shown.get("inline false") as { kinds: unknown }[];
    assert.deepEqual(
      small?.kinds,
      ["tree", "names", "owner-map", "environment", "attachment"].map((kind) => [kind, 0]),
      "small objects are asked for, too",
    );
    await thief.close();
  });

  it("is refused alike where other bytes come for a tensor that is here and for one that is not", async () => {
    const answers: Answer[] = [];
    for (const [name, bytes] of [
      ["liar-present", secret],
      ["liar-absent", guess],
    ] as const) {
      const liar = await connect(name);
      const garbage = await liar.save({ secret: noiseBytes(120_000, 905) }, { sequence: 1 });
      const claimed = await liar.save({ secret: bytes }, { sequence: 2 });
      // It sends the garbage where the claimed tensor is wanted.
      const leaves = liar.models.get(garbage.versionId)?.leaves ?? [];
      liar.models.set(claimed.versionId, { ...claimed, leaves });
      await liar.announce(claimed);
      const from = liar.messages.length;
      const end = await liar.find(
        (message): message is BodyOf<"receipt" | "refusal"> =>
          (message.type === "receipt" || message.type === "refusal") &&
          message.versionId === claimed.versionId,
        Math.min(from, 0),
      );
      answers.push(end);
      await liar.close();
    }
    const [present, absent] = answers.map((answer) =>
      answer.type === "refusal"
        ? { ...answer, versionId: "", message: answer.message.replaceAll(/[0-9a-f]{64}/g, "ID") }
        : answer,
    );
    assert.equal(present?.type === "refusal" && present.code, "OBJECT_HASH_MISMATCH");
    assert.deepEqual(present, absent);
  });

  it("is deduplicated after it came: an honest device with an equal tensor is recorded, stored once", async () => {
    const before = await server.handle.operations.stats({ fleet: testFleet });
    const twin = await connect("honest-twin");
    const saved = await twin.save({ secret }, { sequence: 1 });
    await twin.announce(saved);
    await twin.receipt("stored", saved.versionId);
    const afterwards = await server.handle.operations.stats({ fleet: testFleet });
    assert.equal(afterwards.tensors, before.tensors);
    assert.deepEqual(
      (await tensorBytes(server.handle.operations, saved.versionId))["secret"],
      Buffer.from(secret),
    );
    await twin.close();
  });

  it("is what it sent in this generation: a successor sends everything itself and gets nothing", async () => {
    const enrolment = await server.enroll("succeeded");
    const first = await connect("succeeded", { enrolment });
    const base = await first.save({ body: noiseBytes(50_000, 906) }, { sequence: 1 });
    await first.announce(base);
    await first.receipt("stored", base.versionId);
    const child = await first.save({ body: noiseBytes(50_000, 906) }, { sequence: 2, base: base.versionId });
    await offline(first);
    // The same knowledge with a new enrolment (or a thief of the disk).
    const again = await server.enroll("succeeded");
    const second = await connect("succeeded", { enrolment: again, store: first.store });
    for (const [id, model] of first.models) second.models.set(id, model);
    const refused = second.next("refusal", { transfer: "cd".repeat(8) });
    await second.send({
      type: "fetch",
      versionId: base.versionId,
      transfer: "cd".repeat(8),
      objects: [{ kind: "tree", id: base.record.objects.tree, byteLength: 0 }],
      blockBytes: 0,
      part: 0,
      parts: 1,
    });
    assert.equal((await refused).code, "NOT_ALLOWED");
    await second.announce(child);
    const want = await second.want(child.versionId, "tensors");
    assert.deepEqual(want.tensorIndices, [0]);
    assert.deepEqual(want.references ?? [], []);
    await second.receipt("recorded", child.versionId);
    // From now on they are its own.
    const next = await second.save({ body: noiseBytes(50_000, 906) }, { sequence: 3, base: child.versionId });
    await second.announce(next);
    assert.equal((await answerOf(second, next)).type, "receipt");
    await second.close();
  });

  it("is what it was given: a model that it fetched completely, not one that it was only offered", async () => {
    const bytes = noiseBytes(200_000, 907);
    const versionId = (await importModel(server, "given-base", bytes)) as Hash;
    const device = await connect("receiver", {
      enrolment: await server.enroll("receiver", ["line"], { line: "given-base" }),
      answerWants: false,
    });
    const offer = await device.find(
      (message): message is BodyOf<"offer"> => message.type === "offer" && message.versionId === versionId,
    );
    const claim = await device.save({ w: bytes }, { sequence: 1 });
    await device.announce(claim);
    assert.equal((await answerOf(device, claim)).type, "want", "it was offered, and nothing was fetched");
    // It says that it has everything, without a block.
    const record = decodeSaveRecord(offer.record);
    const tree = offer.objects.find(({ kind }) => kind === "tree");
    const leaf = decodeTree(tree?.data ?? new Uint8Array(0)).leaves[0];
    assert.ok(leaf);
    const ref = { kind: "tensor" as const, id: leaf.tensor, byteLength: bytes.length };
    await device.send({
      type: "fetch",
      versionId,
      transfer: "1a".repeat(8),
      objects: [ref],
      blockBytes: 0,
      part: 0,
      parts: 1,
    });
    await device.send({ type: "transferDone", transfer: "1a".repeat(8) });
    const second = await device.save({ w: bytes }, { sequence: 2 });
    await device.announce(second);
    assert.equal((await answerOf(device, second)).type, "want", "no block of it was sent");
    const inline = new Set(offer.objects.map(({ kind }) => kind));
    const missing = smallObjectsOf(record).filter(({ kind }) => !inline.has(kind));
    if (missing.length > 0)
      await fetchObjects(
        device,
        versionId,
        missing.map((one) => ({ ...one, byteLength: 0 })),
        "2b".repeat(8),
      );
    assert.deepEqual(await fetchObjects(device, versionId, [ref], "3c".repeat(8)), Buffer.from(bytes));
    // The assignment is withdrawn; what was given remains given.
    await importModel(server, "other-base", noiseBytes(1000, 908));
    await server.handle.operations.assign({
      fleet: testFleet,
      device: "receiver",
      line: "line",
      model: "other-base",
      force: true,
    });
    const pack = await device.store.begin();
    await pack.put("record", offer.record);
    for (const { kind, data } of offer.objects) await pack.put(kind, data);
    await pack.commit();
    const child = await device.save({ w: bytes }, { sequence: 3, base: versionId });
    await device.announce(child);
    assert.equal((await answerOf(device, child)).type, "receipt", "nothing of it is asked for again");
    await device.close();
  });
});
