/**
 * A server that is put back to an older copy, as a device lives through it: what it refuses, what it keeps, what it
 * announces again, what it reports.
 */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { sha256 } from "../../../../shared/tensor/hash.js";
import type { Hash } from "../../../../shared/tensor/tensor.js";
import {
  session,
  startConversation,
  type ConversationUnderTest,
} from "../../../helpers/conversation-under-test.js";
import { TestHistory } from "../../../helpers/server-history.js";

/** A device that has one model released and one recorded; the server's copy has neither. */
interface Scene {
  readonly device: ConversationUnderTest;
  readonly released: Hash;
  readonly recorded: Hash;
  /** The server's history before the models. */
  readonly copyLength: number;
}

async function startScene(): Promise<Scene> {
  const device = await startConversation();
  const { conversation, save, welcome, receipt } = device;
  conversation.onOpen(session);
  await welcome();
  const copyLength = device.server.length;
  const released = await save("1");
  await receipt(released, "recorded");
  await receipt(released, "released");
  const recorded = await save("2", released);
  await receipt(recorded, "recorded");
  assert.equal(device.outbox.state.seen?.length, device.server.length);
  return { device, released, recorded, copyLength };
}

async function reconnect({ conversation, welcome }: ConversationUnderTest): Promise<void> {
  conversation.onClosed();
  conversation.onOpen(session);
  await welcome();
}

const command = { type: "command", name: "train", json: "{}" } as const;

describe("a server that was put back", () => {
  it("is refused, also once it has grown past what the device has seen; nothing is announced or deleted", async () => {
    const { device, released, copyLength } = await startScene();
    device.server = await device.server.copy(copyLength);
    await device.server.grow(100);
    const announced = device.sentOf("announce").length;
    await reconnect(device);
    const { outbox, deliver, events, sentOf, receipt, conversation, save, clock } = device;
    assert.equal(conversation.isWelcomed, false);
    assert.deepEqual(events, ["server-history-rewritten"]);
    assert.match(outbox.state.distrust?.text ?? "", /declare-restore/);
    for (const minutes of [1, 8, 2]) {
      clock.advance(minutes * 60_000);
      await conversation.idle();
    }
    assert.equal(sentOf("birth").length, 3, "asked again after ten minutes, not before");
    await device.welcome();
    assert.deepEqual(events, ["server-history-rewritten"], "reported once in a session");
    const pending = await save("3");
    await receipt(pending, "released");
    await deliver(command);
    await deliver({ ...(await device.server.welcome({ seenJournalLength: 0 })) });
    assert.equal(outbox.entry(pending)?.standing, "pending");
    assert.equal(sentOf("announce").length, announced);
    assert.deepEqual(
      sentOf("commandResult").map(({ code }) => code),
      ["HISTORY_UNPROVEN"],
    );
    assert.deepEqual(await outbox.forget(0, "stored"), [], "what the server may have lost is kept");
    assert.ok(outbox.entry(released) !== undefined);
  });

  it("is believed again when it has the history back, and models are forgotten again", async () => {
    const { device, released, recorded, copyLength } = await startScene();
    const { server, outbox, receipt, sentOf } = device;
    device.server = await server.copy(copyLength);
    await reconnect(device);
    assert.ok(outbox.state.distrust !== undefined);
    device.server = server;
    await reconnect(device);
    assert.equal(outbox.state.distrust, undefined);
    assert.deepEqual(device.events, ["server-history-rewritten", "server-believed"]);
    assert.ok(sentOf("announce").length > 2, "what awaits receipts is announced again");
    await receipt(recorded, "released");
    assert.ok((await outbox.forget(0, "stored")).includes(released));
  });

  it("gets everything announced again after a restore, and losses are named, once", async () => {
    const { device, released, recorded, copyLength } = await startScene();
    const { outbox, events, receipt, sentOf } = device;
    await receipt(recorded, "released");
    await outbox.append({ type: "forgotten", atMs: 0, versionId: released });
    device.server = await device.server.restored(copyLength);
    await device.server.grow(50);
    const announced = sentOf("announce").length;
    await reconnect(device);
    assert.deepEqual(events, ["server-restored", "model-lost"]);
    assert.deepEqual(
      outbox.state.lost.map(({ versionId }) => versionId),
      [released],
    );
    assert.equal(outbox.entry(recorded)?.standing, "pending");
    assert.equal(sentOf("announce").length, announced + 1);
    await receipt(recorded, "released");
    await reconnect(device);
    assert.deepEqual(events, ["server-restored", "model-lost"], "not a second time");
    assert.equal(outbox.entry(recorded)?.standing, "released");
    // Put back again, to a copy that has the same restore.
    device.server = await device.server.copy(copyLength + 10);
    await device.server.grow(1000);
    await device.server.append({ type: "session", atMs: 0, device: "v1", session: 99 });
    await reconnect(device);
    assert.deepEqual(events.slice(2), ["server-history-rewritten"]);
    assert.equal(outbox.entry(recorded)?.standing, "released");
  });

  it("is believed after 20 restores that this device slept through, shown on several pages", async () => {
    const { device, recorded, copyLength } = await startScene();
    const { outbox, events, sentOf, conversation, deliver } = device;
    device.server = await device.server.restored(copyLength);
    for (let count = 0; count < 19; count++) {
      await device.server.grow(30);
      device.server = await device.server.restored(device.server.length - 2);
    }
    conversation.onClosed();
    conversation.onOpen(session);
    const births = sentOf("birth").length;
    const first = await device.server.welcome(device.sentOf("birth").at(-1) ?? assert.fail());
    await deliver(first);
    assert.equal(conversation.isWelcomed, false);
    assert.equal(sentOf("birth").length, births + 1);
    // A duplicate does not count as the next page.
    await deliver(first);
    await device.welcome();
    assert.equal(conversation.isWelcomed, true);
    assert.equal(outbox.state.knownRestores.length, 20);
    assert.deepEqual(events, ["server-restored"]);
    assert.equal(outbox.entry(recorded)?.standing, "pending");
    await reconnect(device);
    assert.equal(conversation.isWelcomed, true);
    assert.equal(sentOf("birth").at(-1)?.restoresFrom, undefined);
  });

  it("is refused within a session, by a receipt or by a welcome to an older birth", async () => {
    const { device, recorded, copyLength } = await startScene();
    const { conversation, outbox, events, deliver, server } = device;
    const fork = await server.copy(copyLength);
    await fork.append({ type: "session", atMs: 0, device: "thief", session: 1 });
    await fork.grow(9);
    fork.sent = outbox.state.seen?.length ?? 0;
    await deliver(await fork.receipt(recorded, "released", { session }));
    assert.equal(conversation.isWelcomed, false);
    assert.deepEqual(events, ["server-history-rewritten"]);
    assert.equal(outbox.entry(recorded)?.standing, "recorded");
    // The server process behind another broker is started again, on a copy that knows the birth's head.
    const births = device.sentOf("birth").length;
    await deliver(await fork.welcome({ seenJournalLength: 0 }));
    assert.equal(device.sentOf("birth").length, births + 1, "the device states its newest head");
    await device.welcome();
    assert.equal(conversation.isWelcomed, true);
    assert.equal(outbox.state.distrust, undefined);
  });

  it("is asked for its proof again when a message was lost, and refused when it never gives it", async () => {
    const { device, recorded } = await startScene();
    const { conversation, clock, server, receipt, sentOf, outbox, welcome, deliver, events } = device;
    await server.grow(1);
    server.sent = server.length;
    await server.grow(1);
    await receipt(recorded, "released");
    assert.equal(outbox.entry(recorded)?.standing, "recorded");
    assert.equal(conversation.isWelcomed, false);
    const births = sentOf("birth").length;
    clock.advance(5000);
    await conversation.idle();
    assert.equal(sentOf("birth").length, births + 1);
    await welcome();
    await receipt(recorded, "released");
    assert.equal(outbox.entry(recorded)?.standing, "released");
    await server.grow(1);
    for (let i = 0; i < 4; i++) await deliver(await server.welcome({ seenJournalLength: 0 }));
    assert.deepEqual(events, ["server-history-rewritten"]);
    assert.ok(sentOf("birth").length < births + 6);
  });

  it("is another one when the device was enrolled with another key: everything is announced to it", async () => {
    const { device, released, recorded } = await startScene();
    const { outbox, events } = device;
    await outbox.append({ type: "server", atMs: 0, publicKey: sha256("another server") });
    device.server = await TestHistory.start(device.server.key);
    await device.server.grow(2);
    await reconnect(device);
    assert.deepEqual(events, ["server-changed"]);
    assert.deepEqual(
      [released, recorded].map((versionId) => outbox.entry(versionId)?.standing),
      ["pending", "pending"],
    );
  });
});
