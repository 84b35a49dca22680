// Messages of an enrolled device with random alterations: no uncaught error, nothing recorded that was not
// announced, bounded memory, and valid devices are still served.
import assert from "node:assert/strict";
import { it } from "node:test";
import { memoryFiles } from "../../../../helpers/files/memory-files.js";
import { noiseBytes } from "../../../../helpers/noise-bytes.js";
import { seededChooser, Simulation } from "../../../../helpers/ingest-simulation.js";
import type { SimulatedMessage } from "../../../../helpers/simulated-device.js";

const count = Number(
  process.env["STEMMA_TEST_RUNS"] ?? (process.env["STEMMA_TEST_FULL"] === "1" ? 100_000 : 600),
);
const seed = Number(process.env["STEMMA_TEST_SEED"] ?? 5);

/** Flips bits, truncates, repeats or swaps ranges of bytes. */
function mutated(payload: Uint8Array, choose: (below: number) => number): Uint8Array {
  const bytes = Buffer.from(payload);
  const at = choose(Math.max(1, bytes.length));
  switch (choose(6)) {
    case 0:
      return bytes.subarray(0, at);
    case 1:
      return Buffer.concat([bytes.subarray(0, at), bytes]);
    case 2: {
      bytes.fill(choose(256), at, Math.min(bytes.length, at + 1 + choose(16)));
      return bytes;
    }
    case 3:
      return Buffer.concat([
        bytes.subarray(0, at),
        Buffer.from(noiseBytes(1 + choose(40), choose(1_000_000) + 1)),
        bytes.subarray(at),
      ]);
    default: {
      for (let flips = 1 + choose(4); flips > 0; flips--) {
        const index = choose(Math.max(1, bytes.length));
        bytes[index] = (bytes[index] ?? 0) ^ (1 << choose(8));
      }
      return bytes;
    }
  }
}

it(`survives ${count} altered messages (seed ${seed})`, async () => {
  const choose = seededChooser(seed);
  const simulation: Simulation = new Simulation({
    seed,
    files: memoryFiles({ now: () => simulation.clock.now() }),
  });
  await simulation.start();
  const device = await simulation.enroll("car", ["a"]);
  const seen: SimulatedMessage[] = [];
  const post = simulation.post.bind(simulation);
  simulation.post = (message) => {
    if (message.isFromDevice && seen.length < 200) seen.push(message);
    post(message);
  };
  const finish = async (): Promise<void> => {
    for (let step = 0; device.unreleased.length > 0; step++) {
      assert.ok(
        step < 2_000,
        `an honest device is not served any more: ${device.refusals.map(({ code }) => code).join(", ")}`,
      );
      await simulation.settle(2);
      if (simulation.messagesInFlight > 0) await simulation.deliver();
      else {
        simulation.clock.advance(15_000);
        await device.announce(step % 2 === 0);
      }
    }
  };
  await simulation.connect(device);
  device.send({
    type: "birth",
    agentVersion: "0",
    profile: "p",
    runtime: "r",
    oldestProtocol: 1,
    heads: [{ line: "a", sequence: 0 }],
    seenJournalLength: 0,
    unreleased: 0,
    clockMs: 0,
    clockErrorMs: null,
  });
  const base = await device.save("a", { body: noiseBytes(20_000, 1), head: noiseBytes(500, 2) });
  await device.announce(false);
  await finish();
  device.send({ type: "activated", versionId: base.versionId, line: "a", atMs: 5, clockErrorMs: 1 });
  device.send({
    type: "fetch",
    versionId: base.versionId,
    transfer: "ab".repeat(8),
    objects: [{ kind: "tree", id: base.record.objects.tree, byteLength: 0 }],
    blockBytes: 4096,
    part: 0,
    parts: 1,
  });
  device.send({ type: "blockRequest", transfer: "ab".repeat(8), blocks: [0], manifestParts: [0] });
  device.send({
    type: "refusal",
    code: "BASE_MISSING",
    message: "m",
    versionId: base.versionId,
    transfer: "",
    retry: false,
    retryAfterMs: 0,
  });
  device.send({ type: "event", name: "n", text: "t", line: "a" });
  const known = new Set(device.models.map(({ versionId }) => versionId));
  const heapBefore = process.memoryUsage().heapUsed;
  for (let at = 0; at < count; at++) {
    const message = seen[choose(seen.length)] as SimulatedMessage;
    await simulation.inject({ ...message, payload: mutated(message.payload, choose) });
    // Responses accumulate unread, as for a client that only sends.
    if (at % 50 === 49) {
      await simulation.settle(1);
      while (simulation.messagesInFlight > 0) await simulation.deliver();
    }
  }
  await simulation.settle(20);
  const grown = process.memoryUsage().heapUsed - heapBefore;
  assert.ok(grown < 200 * 2 ** 20, `the heap grew by ${grown} bytes`);
  for (const { versionId } of simulation.repository.versions({ includeRetired: true }))
    assert.ok(known.has(versionId), "something was recorded that nobody announced");
  await device.save("a", { body: noiseBytes(20_000, 3), head: noiseBytes(500, 4) }, base.versionId);
  await device.announce();
  await finish();
  assert.deepEqual((await simulation.repository.check()).problems, []);
});
