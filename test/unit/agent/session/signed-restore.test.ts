/**
 * A device that demands releases, and a server that says that it was restored: the device goes on after the
 * signature of the fleet's owner, for this restore in this history, and after nothing else.
 */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { Hash } from "../../../../shared/tensor/tensor.js";
import { partsOf } from "../../../../shared/trust/releases/release-set.js";
import {
  session,
  startConversation,
  type ConversationUnderTest,
} from "../../../helpers/conversation-under-test.js";
import { fleetOwner, type FleetOwner } from "../../../helpers/release-owner.js";

const fleet = "test-fleet";

interface Scene {
  readonly device: ConversationUnderTest;
  readonly owner: FleetOwner;
  /** Recorded after the copy to which the server is put back. */
  readonly recorded: Hash;
  readonly copyLength: number;
}

/** The server was restored to a copy without the device's newest model, and nobody has signed that. */
async function startScene(owner = fleetOwner({ fleet })): Promise<Scene> {
  const device = await startConversation(owner.roots[0]);
  device.conversation.onOpen(session);
  await device.welcome();
  const copyLength = device.server.length;
  const recorded = await device.save("1");
  await device.receipt(recorded, "recorded");
  device.server = await device.server.restored(copyLength);
  await device.server.grow(20);
  return { device, owner, recorded, copyLength };
}

async function reconnect({ conversation, welcome }: ConversationUnderTest): Promise<void> {
  conversation.onClosed();
  conversation.onOpen(session);
  await welcome();
}

const standing = ({ device, recorded }: Scene): string | undefined => device.outbox.entry(recorded)?.standing;

function assertWaits(scene: Scene, why: RegExp): void {
  const { device } = scene;
  assert.equal(device.conversation.isWelcomed, false);
  assert.equal(standing(scene), "recorded");
  assert.equal(device.outbox.state.distrust?.unsigned, true);
  assert.match(device.outbox.state.distrust.text, why);
}

describe("a restore on a device that demands releases", () => {
  it("waits for the owner's signature, keeps and trains, then announces what came after", async () => {
    const scene = await startScene();
    const { device, owner } = scene;
    const { events, sentOf, save, outbox, deliver, welcome } = device;
    await reconnect(device);
    assertWaits(scene, /waits for the signature of the fleet's owner/);
    assert.deepEqual(events, ["server-history-rewritten"]);
    const announced = sentOf("announce").length;
    const more = await save("2", scene.recorded);
    await deliver({ type: "command", name: "train", json: "{}" });
    assert.deepEqual([outbox.entry(more)?.standing, sentOf("announce").length], ["pending", announced]);
    assert.deepEqual(await outbox.forget(0, "stored"), []);
    await device.server.approve((restore) => owner.restored(restore));
    // The server answers the birth of this session once more.
    await welcome();
    assert.equal(device.conversation.isWelcomed, true);
    assert.deepEqual(events, ["server-history-rewritten", "server-restored", "server-believed"]);
    assert.equal(standing(scene), "pending");
    // The later model is announced when its base is recorded.
    assert.equal(sentOf("announce").length, announced + 1);
    assert.equal(outbox.state.distrust, undefined);
  });

  it("is explained first by a declaration, then by the signature, as the device says each time", async () => {
    const scene = await startScene();
    const { device, copyLength } = scene;
    const declared = device.server;
    device.server = await device.server.copy(copyLength);
    await reconnect(device);
    assert.equal(device.outbox.state.distrust?.unsigned, undefined);
    const sinceMs = device.outbox.state.distrust?.atMs;
    device.server = declared;
    await device.welcome();
    assertWaits(scene, /signature/);
    assert.equal(device.outbox.state.distrust?.atMs, sinceMs);
    assert.equal(device.events.length, 2);
  });

  it("needs as many signatures of targets as the threshold, of this fleet", async () => {
    const scene = await startScene();
    const { device, owner } = scene;
    for (const [sign, why] of [
      [(restore) => owner.restored(restore, []), /0 of the 1 signatures/],
      [(restore) => owner.restored(restore, ["e"]), /0 of the 1 signatures/],
      // Keys of other roles.
      [(restore) => owner.restored(restore, ["d"]), /0 of the 1 signatures/],
      [(restore) => owner.restored({ ...restore, fleet: "other" }), /of the fleet other/],
      [() => "{}", /malformed/],
      [() => "[".repeat(4000), /not JSON/],
    ] as const satisfies readonly [Parameters<typeof device.server.approve>[0], RegExp][]) {
      device.server = await device.server.copy(device.server.length);
      await device.server.approve(sign);
      await reconnect(device);
      assertWaits(scene, /waits for the signature/);
      assert.match(device.texts.at(-1) ?? "", why);
    }
    await device.server.approve((restore) => owner.restored(restore));
    await reconnect(device);
    assert.equal(device.conversation.isWelcomed, true);
  });

  it("takes no signature of another restore, nor of this one in another history", async () => {
    const scene = await startScene();
    const { device, owner, copyLength } = scene;
    const genuine = device.server;
    let signature = "";
    await genuine.approve((restore) => (signature = owner.restored(restore)));
    // The thief of the server's key declares another restore, or the same fact in a history of his own.
    const other = await (await genuine.copy(copyLength)).restored(copyLength);
    const forged = await genuine.copy(copyLength - 1);
    await forged.grow(1);
    await forged.append({ type: "session", atMs: 1, device: "thief", session: 1 });
    const fact = genuine.factAt(genuine.restores.at(-1)?.factPosition ?? 0);
    await forged.append(fact);
    for (const server of [other, forged]) {
      await server.approve(() => signature);
      await server.grow(50);
      device.server = server;
      await reconnect(device);
      assertWaits(scene, /waits for the signature/);
      assert.match(device.texts.at(-1) ?? "", /of another journal/);
    }
    device.server = genuine;
    await reconnect(device);
    assert.equal(device.conversation.isWelcomed, true);
  });

  it("is signed again when the server is put back once more; one signature covers restores before it", async () => {
    const scene = await startScene();
    const { device, owner } = scene;
    const { events } = device;
    // Nobody signed the first; what is signed is the journal with both.
    device.server = await device.server.restored(device.server.length - 5);
    await device.server.approve((restore) => owner.restored(restore));
    const signed = await device.server.copy(device.server.length);
    await reconnect(device);
    assert.equal(device.conversation.isWelcomed, true);
    await device.receipt(scene.recorded, "recorded");
    // Put back to the copy with the signature: it explains nothing any more.
    device.server = await signed.copy(signed.length);
    await device.server.grow(99);
    await reconnect(device);
    assert.equal(device.conversation.isWelcomed, false);
    assert.equal(device.outbox.state.distrust?.unsigned, undefined);
    // And with a new declaration that only the server's key made.
    device.server = await signed.restored(signed.length);
    await reconnect(device);
    assertWaits(scene, /signature/);
    await device.server.approve((restore) => owner.restored(restore));
    await reconnect(device);
    assert.equal(device.conversation.isWelcomed, true);
    assert.equal(events.filter((name) => name === "server-restored").length, 2);
  });

  it("is signed by keys that the device learns meanwhile, from the server that it does not believe", async () => {
    const scene = await startScene();
    const { device, owner } = scene;
    await device.server.approve((restore) => owner.restored(restore));
    const before = device.server;
    const set = owner.rotate({ root: ["a"], targets: ["c"], online: ["d"] });
    device.server = await before.copy(before.length);
    await device.server.approve((restore) => owner.restored(restore));
    await reconnect(device);
    assertWaits(scene, /signature/);
    const births = device.sentOf("birth").length;
    for (const part of partsOf(set)) await device.deliver(part);
    assert.equal(device.sentOf("birth").length, births + 1, "asks again, with the root that it trusts now");
    // What a key signed that the owner has replaced counts no more.
    device.server = before;
    await device.welcome();
    assertWaits(scene, /signature/);
    device.server = await before.copy(before.length);
    await device.server.approve((restore) => owner.restored(restore));
    await device.welcome();
    assert.equal(device.conversation.isWelcomed, true);
  });

  it("does not concern a device that has seen nothing of what is lost", async () => {
    const scene = await startScene();
    const fresh = await startConversation(scene.owner.roots[0]);
    fresh.server = scene.device.server;
    fresh.conversation.onOpen(session);
    await fresh.welcome();
    assert.equal(fresh.conversation.isWelcomed, true);
  });
});
