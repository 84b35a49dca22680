// A device that reports without end: what it repeats is recorded once, and the rest is answered with the time to
// wait, so that the journal grows by a bounded number of facts.
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { Body, BodyOf } from "../../../../../shared/wire/messages.js";
import { ScriptedDevice } from "../../../../helpers/scripted-device.js";
import { startTestServer, testFleet } from "../../../../helpers/test-server.js";

describe("a device that reports without end", () => {
  it("adds a bounded number of facts, and is told when to come again", async (t) => {
    const server = await startTestServer({ limits: { factsPerHour: 60, factsAtOnce: 20 } });
    t.after(() => server.remove());
    const length = async (): Promise<number> =>
      (await server.handle.operations.fleets()).find(({ fleet }) => fleet === testFleet)?.journalLength ?? 0;
    const device = await ScriptedDevice.connect(await server.enroll("flood"));
    await device.birth();
    const saved = await device.save({ w: [1, 2, 3] }, { sequence: 1 });
    await device.announce(saved);
    await device.receipt("released", saved.versionId);
    const { versionId } = saved;
    const activated = (atMs: number): Promise<void> =>
      device.send({ type: "activated", versionId, line: "line", atMs, clockErrorMs: 0 });
    const before = await length();
    for (let n = 0; n < 200; n++) await activated(1);
    await device.birth();
    assert.equal((await length()) - before, 1, "the same report is one fact");
    for (let n = 0; n < 300; n++) await activated(n + 2);
    await device.birth();
    assert.ok((await length()) - before <= 20, `${(await length()) - before} facts`);
    const refusals = device.messages.filter(
      (message: Body): message is BodyOf<"refusal"> => message.type === "refusal",
    );
    assert.ok(refusals.length >= 280);
    assert.ok(
      refusals.every(
        ({ code, retry, retryAfterMs }) => code === "QUOTA_EXCEEDED" && retry && retryAfterMs > 0,
      ),
    );
    // Nor versions: an announcement is answered alike, and nothing is asked for.
    const next = await device.save({ w: [1, 2, 4] }, { sequence: 2, base: versionId });
    await device.announce(next);
    assert.equal((await device.refusal(next.versionId)).code, "QUOTA_EXCEEDED");
    await device.close();
    // Nor sessions: CONNACK 3, so that it does not take itself for one that is not admitted any more.
    await assert.rejects(
      ScriptedDevice.connect(device.enrolment, { session: 2, previousSession: 1 }),
      (error: Error & { readonly code?: number }) => error.code === 3,
    );
  });
});

describe("a device that fetches without end", () => {
  it("gets an object as often as its allowance, and is told when to come again", async (t) => {
    const server = await startTestServer({ limits: { fetchesPerHour: 60, fetchesAtOnce: 20 } });
    t.after(() => server.remove());
    const device = await ScriptedDevice.connect(await server.enroll("hungry"));
    await device.birth();
    const saved = await device.save({ w: [1, 2, 3] }, { sequence: 1 });
    await device.announce(saved);
    await device.receipt("recorded", saved.versionId);
    const { versionId } = saved;
    const objects = [{ kind: "record", id: versionId, byteLength: 0 }] as const;
    const fetch = (n: number): Promise<void> => {
      const transfer = (n % 3).toString(16).padStart(16, "0");
      return device.send({ type: "fetch", versionId, transfer, objects, blockBytes: 0, part: 0, parts: 1 });
    };
    for (let n = 0; n < 100; n++) await fetch(n);
    await device.birth();
    const refusals = device.messages.filter(
      (message: Body): message is BodyOf<"refusal"> => message.type === "refusal",
    );
    assert.equal(refusals.length, 80);
    for (const { code, retry, retryAfterMs, transfer } of refusals)
      assert.ok(code === "QUOTA_EXCEEDED" && retry && retryAfterMs > 0 && transfer !== "");
    await device.close();
  });
});
