/** The messages of a session, including forged, late, foreign and repeated ones. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { sha256 } from "../../../../shared/tensor/hash.js";
import { generateKey } from "../../../../shared/trust/keys.js";
import { signReceipt } from "../../../../shared/trust/signatures.js";
import type { Body, Receipt } from "../../../../shared/wire/messages.js";
import { random, session, startConversation } from "../../../helpers/conversation-under-test.js";
import { TestHistory } from "../../../helpers/server-history.js";

describe("a conversation", () => {
  it("reports its state, and announces nothing before the welcome", async () => {
    const { conversation, save, sentOf, welcome } = await startConversation();
    conversation.onOpen(session);
    const versionId = await save("1");
    assert.equal(sentOf("birth").length, 1);
    assert.equal(sentOf("announce").length, 0);
    await welcome();
    assert.equal(sentOf("announce").length, 1);
    assert.equal(sentOf("announce")[0]?.tensorBytes, 92);
    assert.ok(
      sentOf("announce")[0]?.objects.some(({ kind }) => kind === "tree"),
      "small objects come along",
    );
    assert.equal(conversation.attempt(versionId)?.phase, "announced");
  });
  it("asks again when it is not welcomed", async () => {
    const { conversation, clock, sentOf } = await startConversation();
    conversation.onOpen(session);
    clock.advance(30_000);
    await conversation.idle();
    assert.equal(sentOf("birth").length, 2);
  });
  it("ignores welcomes and receipts of another server, session, device or fleet, and altered ones", async () => {
    const device = await startConversation();
    const { conversation, save, deliver, welcome, outbox, sentOf, receipts } = device;
    const stranger = generateKey(random);
    conversation.onOpen(session);
    const { server } = device;
    device.server = await TestHistory.start(stranger);
    await welcome();
    assert.equal(conversation.isWelcomed, false);
    device.server = server;
    await welcome({}, session - 1);
    assert.equal(conversation.isWelcomed, false);
    await welcome();
    const versionId = await save("1");
    const signed = async (kind: Receipt["kind"], more: Partial<Receipt> = {}): Promise<Receipt> => {
      server.sent = outbox.state.seen?.length ?? 0;
      return await server.receipt(versionId, kind, { session, ...more });
    };
    const { type: _, ...released } = await signed("released");
    await deliver(signReceipt(stranger, released));
    await deliver(await signed("released", { session: session - 1 }));
    await deliver(await signed("released", { device: "v2" }));
    await deliver(await signed("released", { fleet: "other" }));
    await deliver({ ...(await signed("recorded")), kind: "released" });
    assert.equal(outbox.entry(versionId)?.standing, "pending");
    assert.deepEqual(receipts, []);
    const recorded = await signed("recorded");
    await deliver(recorded);
    await deliver(recorded);
    assert.equal(outbox.entry(versionId)?.standing, "recorded");
    assert.equal(sentOf("announce").length, 1);
  });
  it("does not act on stale orders, says so of commands, and asks the server again, at most every five seconds", async () => {
    const { conversation, clock, events, sentOf, welcome } = await startConversation();
    conversation.onOpen(session);
    await welcome();
    const stale = async (body: Body): Promise<void> => {
      const envelope = { protocol: 1, session, sequence: 9, correlation: "c", expiresMs: 0, body };
      conversation.receive({ envelope, stale: "it was valid until yesterday" });
      await conversation.idle();
    };
    await stale({ type: "command", name: "train", json: "{}" });
    assert.equal(sentOf("commandResult")[0]?.code, "TIMED_OUT");
    assert.equal(sentOf("birth").length, 2);
    const offer = {
      type: "offer",
      line: "cam",
      versionId: sha256("m"),
      record: Buffer.of(1),
      objects: [],
    } as const;
    for (let times = 0; times < 9; times++)
      await stale({ ...offer, signature: "0".repeat(128), name: "m", version: 1 });
    assert.deepEqual(events, []);
    assert.equal(sentOf("birth").length, 2);
    clock.advance(5_000);
    await conversation.idle();
    assert.equal(sentOf("birth").length, 3);
    clock.advance(60_000);
    await conversation.idle();
    assert.equal(sentOf("birth").length, 3);
    assert.ok(conversation.isWelcomed);
  });
  it("sends its birth again every 15 minutes of a session, so that the server repeats what was lost", async () => {
    const { conversation, clock, sentOf, welcome } = await startConversation();
    conversation.onOpen(session);
    await welcome();
    const births: number[] = [];
    for (let minute = 1; minute <= 40; minute++) {
      clock.advance(60_000);
      await conversation.idle();
      if (sentOf("birth").length > births.length + 1) births.push(minute);
      if (minute === 15) await welcome();
    }
    // The answer to the second one is lost.
    assert.deepEqual(births, [15, 30]);
    conversation.onClosed();
    clock.advance(3_600_000);
    await conversation.idle();
    assert.equal(sentOf("birth").length, 3);
  });
  it("keeps a refused model, reports it once, and tries it again in the next session", async () => {
    const { conversation, save, deliver, outbox, events, sentOf, welcome } = await startConversation();
    conversation.onOpen(session);
    await welcome();
    const versionId = await save("1");
    const refusal = {
      type: "refusal",
      code: "SIZE_OVER_LIMIT",
      message: "too big",
      versionId,
      transfer: "",
      retry: false,
      retryAfterMs: 0,
    } as const;
    await deliver(refusal);
    assert.equal(outbox.entry(versionId)?.refusal?.code, "SIZE_OVER_LIMIT");
    assert.deepEqual(events, ["model-refused"]);
    assert.equal((await outbox.record(versionId)).record.name, "m");
    conversation.onClosed();
    conversation.onOpen(session);
    await welcome();
    assert.equal(sentOf("announce").length, 2);
  });
  it("announces again when the server asks it to wait, and after silence", async () => {
    const { conversation, save, deliver, clock, sentOf, welcome } = await startConversation();
    conversation.onOpen(session);
    await welcome();
    const versionId = await save("1");
    await deliver({
      type: "refusal",
      code: "QUOTA_EXCEEDED",
      message: "later",
      versionId,
      transfer: "",
      retry: true,
      retryAfterMs: 5_000,
    });
    clock.advance(5_000);
    await conversation.idle();
    assert.equal(sentOf("announce").length, 2);
    clock.advance(10 * 60_000);
    await conversation.idle();
    assert.ok(sentOf("announce").length >= 3);
  });
  it("announces at once what the server did not answer before it started again", async () => {
    const { conversation, save, sentOf, welcome } = await startConversation();
    conversation.onOpen(session);
    await welcome();
    await save("1");
    assert.equal(sentOf("announce").length, 1);
    // As a server behind another broker answers after a restart: it has received nothing meanwhile.
    await welcome();
    const [first, again] = sentOf("announce");
    assert.ok(first !== undefined);
    assert.deepEqual(again, first);
  });
  it("announces a base on request, and refuses when it does not have it", async () => {
    const { conversation, save, deliver, sentOf, welcome, receipt } = await startConversation();
    const base = await save("1");
    conversation.onOpen(session);
    await welcome();
    await receipt(base, "released");
    const child = await save("2", base);
    const want = {
      type: "want",
      reason: "base",
      versionId: child,
      transfer: "",
      objects: [],
      bases: [base],
      blockBytes: 0,
      part: 0,
      parts: 1,
      more: false,
      tensorIndices: [],
    } as const;
    const before = sentOf("announce").length;
    await deliver(want);
    assert.equal(sentOf("announce").length, before + 1);
    await deliver({ ...want, bases: [sha256("never seen")] });
    assert.deepEqual(
      sentOf("refusal").map(({ code, versionId }) => [code, versionId]),
      [["BASE_MISSING", child]],
    );
    await deliver({ ...want, reason: "tensors", versionId: sha256("nobody's"), transfer: "0".repeat(16) });
    assert.equal(sentOf("refusal").at(-1)?.code, "MODEL_NOT_FOUND");
  });
  it("reports activations once their versions are recorded, with the clock's error", async () => {
    const { conversation, save, sentOf, outbox, welcome, receipt } = await startConversation();
    conversation.onOpen(session);
    await welcome();
    const versionId = await save("1");
    await outbox.append({ type: "activated", atMs: 5, versionId, line: "cam", clockErrorMs: 3, session });
    conversation.onOutboxChange();
    await conversation.idle();
    assert.equal(sentOf("activated").length, 0);
    await receipt(versionId, "recorded");
    assert.deepEqual(
      sentOf("activated").map(({ atMs, clockErrorMs }) => [atMs, clockErrorMs]),
      [[5, 3]],
    );
    await welcome({ known: [{ line: "cam", sequence: 1, versionId, activeVersionId: versionId }] });
    assert.equal(sentOf("activated").length, 1);
  });
  for (const code of ["QUOTA_EXCEEDED", "DISK_FULL"])
    it(`reports activations again when the server asked to wait (${code}), and not before`, async () => {
      const { conversation, clock, save, deliver, sentOf, outbox, welcome, receipt } =
        await startConversation();
      conversation.onOpen(session);
      await welcome();
      const versionId = await save("1");
      for (const atMs of [5, 6])
        await outbox.append({ type: "activated", atMs, versionId, line: "cam", clockErrorMs: 3, session });
      await receipt(versionId, "recorded");
      assert.equal(sentOf("activated").length, 2);
      await deliver({
        type: "refusal",
        code,
        message: "later",
        versionId,
        transfer: "",
        retry: true,
        retryAfterMs: 60_000,
      });
      conversation.onOutboxChange();
      await conversation.idle();
      assert.equal(sentOf("activated").length, 2, "not yet");
      clock.advance(60_000);
      await conversation.idle();
      assert.deepEqual(
        sentOf("activated").map(({ atMs }) => atMs),
        [5, 6, 5, 6],
      );
    });
  it("stops sending when it is not admitted", async () => {
    const { conversation, deliver, events } = await startConversation();
    conversation.onOpen(session);
    await deliver({
      type: "refusal",
      code: "DEVICE_QUARANTINED",
      message: "cloned",
      transfer: "",
      retry: false,
      retryAfterMs: 0,
    });
    assert.deepEqual(events, ["not-admitted", "refused: cloned"]);
  });
});
