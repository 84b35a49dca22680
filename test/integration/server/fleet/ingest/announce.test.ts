// A model's way from a device to the server's disk over a real broker: successful uploads, order, repetition,
// refusals.
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { verifyReceipt } from "../../../../../shared/trust/signatures.js";
import { noiseBytes } from "../../../../helpers/noise-bytes.js";
import { ScriptedDevice } from "../../../../helpers/scripted-device.js";
import { startTestServer, tensorBytes, testFleet, type TestServer } from "../../../../helpers/test-server.js";

describe("announcing over a real broker", () => {
  let server: TestServer;
  before(async () => {
    server = await startTestServer();
  });
  after(() => server.remove());

  it("receives a model, sends three signed receipts, and recovers it bit for bit", async () => {
    const enrolment = await server.enroll("happy");
    const device = await ScriptedDevice.connect(enrolment);
    const welcome = await device.birth();
    assert.equal(welcome.restored, false);
    const a = noiseBytes(700_000, 1);
    const b = noiseBytes(400, 2);
    const stored = async (): Promise<number> =>
      (await server.handle.operations.stats({ fleet: testFleet })).packBytes;
    const before = await stored();
    const saved = await device.save({ a, b }, { sequence: 1 });
    await device.announce(saved);
    for (const kind of ["recorded", "stored", "released"] as const) {
      const receipt = await device.receipt(kind, saved.versionId);
      verifyReceipt(
        {
          serverPublicKey: enrolment.serverPublicKey,
          fleet: testFleet,
          device: "happy",
          generation: 1,
          session: 1,
        },
        receipt,
      );
    }
    const { storedBytes } = await server.handle.operations.model({
      fleet: testFleet,
      model: saved.versionId,
    });
    assert.equal(storedBytes, (await stored()) - before);
    assert.deepEqual(await tensorBytes(server.handle.operations, saved.versionId), {
      a: Buffer.from(a),
      b: Buffer.from(b),
    });
    await device.close();
  });

  it("requests only the tensors that the fleet lacks, by their positions in the tree", async () => {
    const device = await ScriptedDevice.connect(await server.enroll("partial"));
    await device.birth();
    const head = noiseBytes(300_000, 3);
    const base = await device.save({ body: noiseBytes(300_000, 4), head }, { sequence: 1 });
    await device.announce(base);
    await device.receipt("recorded", base.versionId);
    const child = await device.save(
      { body: noiseBytes(300_000, 4), head: noiseBytes(300_000, 5) },
      { sequence: 2, base: base.versionId },
    );
    await device.announce(child);
    const want = await device.want(child.versionId);
    assert.deepEqual(want.tensorIndices, [1]);
    await device.receipt("recorded", child.versionId);
    const report = await server.handle.operations.model({ fleet: testFleet, model: child.versionId });
    assert.deepEqual(
      report.leaves.map(({ name, owner }) => [name, owner.versionId]),
      [
        ["body", base.versionId],
        ["head", child.versionId],
      ],
    );
    await device.close();
  });

  it("asks for one of the tensors that are tied, and recovers them all", async () => {
    const device = await ScriptedDevice.connect(await server.enroll("tied"));
    await device.birth();
    const tied = noiseBytes(300_000, 6);
    const saved = await device.save({ embed: tied, head: tied, own: noiseBytes(400, 7) }, { sequence: 1 });
    await device.announce(saved);
    assert.equal((await device.want(saved.versionId)).tensorIndices.length, 2);
    await device.receipt("released", saved.versionId);
    const recovered = await tensorBytes(server.handle.operations, saved.versionId);
    assert.deepEqual([recovered["embed"], recovered["head"]], [Buffer.from(tied), Buffer.from(tied)]);
    await device.close();
  });

  it("asks for small objects that did not fit into the announcement", async () => {
    const device = await ScriptedDevice.connect(await server.enroll("large-objects"));
    await device.birth();
    const saved = await device.save(
      { w: [1, 2, 3] },
      { sequence: 1, attachments: [{ name: "log.txt", bytes: noiseBytes(900_000, 6) }] },
    );
    await device.announce(saved, { inline: false });
    const want = await device.want(saved.versionId, "objects");
    assert.ok(want.objects.some(({ kind }) => kind === "attachment"));
    await device.receipt("recorded", saved.versionId);
    await device.close();
  });

  it("answers a repeated announcement with the same receipts and one version", async () => {
    const device = await ScriptedDevice.connect(await server.enroll("again"));
    await device.birth();
    const saved = await device.save({ w: noiseBytes(100_000, 7) }, { sequence: 1 });
    await Promise.all([device.announce(saved), device.announce(saved), device.announce(saved)]);
    const first = await device.receipt("released", saved.versionId);
    const from = device.messages.length;
    await device.announce(saved);
    const again = await device.find(
      (message): message is typeof first =>
        message.type === "receipt" && message.kind === "released" && message.versionId === saved.versionId,
      from,
    );
    assert.equal(again.position, first.position);
    assert.equal((await server.handle.operations.models({ fleet: testFleet, device: "again" })).length, 1);
    await device.close();
  });

  it("records an equal save as a version of its own without asking for a tensor", async () => {
    const device = await ScriptedDevice.connect(await server.enroll("equal"));
    await device.birth();
    const base = await device.save({ w: noiseBytes(80_000, 8) }, { sequence: 1 });
    await device.announce(base);
    await device.receipt("recorded", base.versionId);
    const same = await device.save({ w: noiseBytes(80_000, 8) }, { sequence: 2, base: base.versionId });
    await device.announce(same);
    await device.receipt("recorded", same.versionId);
    assert.notEqual(same.versionId, base.versionId);
    assert.equal(
      device.messages.some((message) => message.type === "want" && message.versionId === same.versionId),
      false,
    );
    await device.close();
  });

  it("parks a child announced before its base, and receives it after the base", async () => {
    const device = await ScriptedDevice.connect(await server.enroll("parked"));
    await device.birth();
    const base = await device.save({ w: noiseBytes(50_000, 9) }, { sequence: 1 });
    const child = await device.save({ w: noiseBytes(50_000, 10) }, { sequence: 2, base: base.versionId });
    await device.announce(child);
    const want = await device.want(child.versionId, "base");
    assert.deepEqual(want.bases, [base.versionId]);
    await device.announce(base);
    await device.receipt("recorded", base.versionId);
    const receipt = await device.receipt("recorded", child.versionId);
    assert.equal(receipt.version, 2);
    await device.close();
  });

  it("receives a child raw when no device or server has its base", async () => {
    const device = await ScriptedDevice.connect(await server.enroll("orphan"));
    await device.birth();
    const base = await device.save(
      { kept: noiseBytes(50_000, 11), w: noiseBytes(50_000, 12) },
      { sequence: 1 },
    );
    const child = await device.save(
      { kept: noiseBytes(50_000, 11), w: noiseBytes(50_000, 13) },
      { sequence: 2, base: base.versionId },
    );
    await device.announce(child);
    await device.want(child.versionId, "base");
    await device.send({
      type: "refusal",
      code: "BASE_MISSING",
      message: "gone",
      versionId: child.versionId,
      transfer: "",
      retry: false,
      retryAfterMs: 0,
    });
    const want = await device.want(child.versionId, "raw");
    assert.deepEqual(want.tensorIndices, [0, 1]);
    await device.receipt("recorded", child.versionId);
    assert.deepEqual(
      (await tensorBytes(server.handle.operations, child.versionId))["kept"],
      Buffer.from(noiseBytes(50_000, 11)),
    );
    await device.close();
  });

  it("receives a child raw when its base is retired", async () => {
    const device = await ScriptedDevice.connect(await server.enroll("retired-base"));
    await device.birth();
    const base = await device.save(
      { kept: noiseBytes(50_000, 21), w: noiseBytes(50_000, 22) },
      { sequence: 1 },
    );
    await device.announce(base);
    await device.receipt("released", base.versionId);
    await server.handle.operations.retire({ fleet: testFleet, model: base.versionId, because: "test" });
    await server.handle.operations.collect({
      fleet: testFleet,
      ...(await server.handle.operations.planCollection({ fleet: testFleet })),
    });
    const child = await device.save(
      { kept: noiseBytes(50_000, 21), w: noiseBytes(50_000, 23) },
      { sequence: 2, base: base.versionId },
    );
    await device.announce(child);
    assert.equal((await device.want(child.versionId, "raw")).tensorIndices.length, 2);
    await device.receipt("recorded", child.versionId);
    await server.handle.operations.verify({ fleet: testFleet, model: child.versionId });
    await device.close();
  });

  it("transfers two lines of one device concurrently", async () => {
    const device = await ScriptedDevice.connect(await server.enroll("two-lines", ["front", "rear"]));
    await device.birth();
    const front = await device.save({ w: noiseBytes(900_000, 14) }, { sequence: 1, line: "front" });
    const rear = await device.save({ w: noiseBytes(900_000, 15) }, { sequence: 1, line: "rear" });
    await Promise.all([device.announce(front), device.announce(rear)]);
    await Promise.all([
      device.receipt("released", front.versionId),
      device.receipt("released", rear.versionId),
    ]);
    await device.close();
  });

  it("survives loss, repetition and reordering of blocks and manifests", async () => {
    let count = 0;
    let kept: Parameters<NonNullable<ScriptedDevice["intercept"]>>[0] | undefined;
    const device = await ScriptedDevice.connect(await server.enroll("lossy"), {
      blockBytes: 8 * 1024,
      intercept: (message) => {
        count++;
        if (count % 7 === 0) return [message, message];
        // Sometimes a message is sent after the next one, sometimes it is lost.
        if (count % 5 === 0 && kept === undefined) {
          kept = message;
          return [];
        }
        if (kept !== undefined) {
          const late = kept;
          kept = undefined;
          return [message, late];
        }
        return [message];
      },
    });
    await device.birth();
    const saved = await device.save({ w: noiseBytes(400_000, 16) }, { sequence: 1 });
    await device.announce(saved);
    await device.receipt("stored", saved.versionId);
    assert.deepEqual(
      (await tensorBytes(server.handle.operations, saved.versionId))["w"],
      Buffer.from(noiseBytes(400_000, 16)),
    );
    await device.close();
  });
});

describe("refusals", () => {
  let server: TestServer;
  before(async () => {
    server = await startTestServer({ limits: { maxModelBytes: 1_000_000 } });
  });
  after(() => server.remove());

  it("refuses another device's identity inside the record", async () => {
    const device = await ScriptedDevice.connect(await server.enroll("foreigner"));
    await device.birth();
    const saved = await device.save({ w: [1] }, { sequence: 1, device: "somebody-else" });
    await device.announce(saved);
    assert.equal((await device.refusal(saved.versionId)).code, "IDENTITY_FOREIGN");
    const stray = await device.save({ w: [1] }, { sequence: 1, line: "no-such-line" });
    await device.announce(stray);
    assert.equal((await device.refusal(stray.versionId)).code, "IDENTITY_FOREIGN");
    await device.close();
  });

  it("refuses a signature by another key", async () => {
    const device = await ScriptedDevice.connect(await server.enroll("forger"));
    await device.birth();
    const saved = await device.save({ w: [1] }, { sequence: 1 });
    await device.announce(saved, { signature: "00".repeat(64) });
    assert.equal((await device.refusal(saved.versionId)).code, "SIGNATURE_INVALID");
    await device.close();
  });

  it("refuses a declared size over the limit, and one that differs from the tree's", async () => {
    const device = await ScriptedDevice.connect(await server.enroll("big"));
    await device.birth();
    const big = await device.save({ w: noiseBytes(1_200_000, 1) }, { sequence: 1 });
    await device.announce(big);
    assert.equal((await device.refusal(big.versionId)).code, "SIZE_OVER_LIMIT");
    const from = device.messages.length;
    await device.announce(big, { tensorBytes: 10 });
    const refusal = await device.find(
      (message): message is Awaited<ReturnType<ScriptedDevice["refusal"]>> => message.type === "refusal",
      from,
    );
    assert.equal(refusal.code, "SIZE_OVER_LIMIT");
    const small = await device.save({ w: [1, 2] }, { sequence: 2 });
    await device.announce(small, { tensorBytes: 4 });
    assert.equal((await device.refusal(small.versionId)).code, "ANNOUNCE_INVALID");
    await device.close();
  });

  it("refuses blocks that do not match their manifest, and keeps nothing", async () => {
    const device = await ScriptedDevice.connect(await server.enroll("corrupt"), {
      intercept: (message) => {
        if (message.type !== "block") return [message];
        const data = Uint8Array.from(message.data);
        data[0] = (data[0] ?? 0) ^ 1;
        return [{ ...message, data }];
      },
    });
    await device.birth();
    const saved = await device.save({ w: noiseBytes(100_000, 2) }, { sequence: 1 });
    await device.announce(saved);
    assert.equal((await device.refusal(saved.versionId)).code, "BLOCK_HASH_MISMATCH");
    assert.deepEqual(await server.handle.operations.models({ fleet: testFleet, device: "corrupt" }), []);
    await device.close();
  });

  it("refuses a stream that matches its manifest but not the announced tensors", async () => {
    const device = await ScriptedDevice.connect(await server.enroll("liar"));
    await device.birth();
    const honest = await device.save({ w: noiseBytes(100_000, 3) }, { sequence: 1 });
    const other = await device.save({ w: noiseBytes(100_000, 4) }, { sequence: 2 });
    const instead = device.models.get(other.versionId);
    assert.ok(instead);
    device.models.set(honest.versionId, { ...honest, leaves: instead.leaves });
    await device.announce(honest);
    const refusal = await device.refusal(honest.versionId);
    assert.equal(refusal.code, "OBJECT_HASH_MISMATCH");
    assert.equal(refusal.retry, false);
    await device.close();
  });

  it("refuses a second model with a sequence number in use", async () => {
    const device = await ScriptedDevice.connect(await server.enroll("counter"));
    await device.birth();
    const first = await device.save({ w: [1] }, { sequence: 1 });
    await device.announce(first);
    await device.receipt("recorded", first.versionId);
    const second = await device.save({ w: [2] }, { sequence: 1 });
    await device.announce(second);
    assert.equal((await device.refusal(second.versionId)).code, "ANNOUNCE_INVALID");
    await device.close();
  });

  it("answers malformed messages with a typed refusal and stays connected", async () => {
    const device = await ScriptedDevice.connect(await server.enroll("mumbler"));
    await device.birth();
    await device.sendRaw(noiseBytes(200, 5));
    assert.equal(
      (await device.refusal()).code.startsWith("ENVELOPE_") ||
        (await device.refusal()).code === "PROTOCOL_VERSION_UNSUPPORTED",
      true,
    );
    await device.birth();
    await device.close();
  });
});
