/** The messages of a session, including forged, late, foreign and repeated ones. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { ClockError } from "../../../../agent/session/clock-error.js";
import { Outbox } from "../../../../agent/outbox/outbox.js";
import { Uploads } from "../../../../agent/outbox/uploads.js";
import { Conversation } from "../../../../agent/session/conversation.js";
import { silentLog } from "../../../../shared/adapters/node-ports.js";
import { memoryFiles } from "../../../helpers/files/memory-files.js";
import { sha256 } from "../../../../shared/tensor/hash.js";
import type { Hash } from "../../../../shared/tensor/tensor.js";
import { parseEnrolment } from "../../../../shared/trust/enrolment.js";
import { generateKey, type PrivateKey } from "../../../../shared/trust/keys.js";
import { signReceipt } from "../../../../shared/trust/signatures.js";
import type { Body, BodyOf, BodyType, Receipt, Welcome } from "../../../../shared/wire/messages.js";
import { tinySource } from "../../../helpers/agent-fixtures.js";
import { manualClock, seededRandom, type ManualClock } from "../../../helpers/manual-clock.js";
import { signHead } from "../../../helpers/sign-head.js";

const random = seededRandom("conversation");
const serverKey = generateKey(random);
const deviceKey = generateKey(random);
const enrolment = parseEnrolment({
  kind: "stemma-enrolment",
  format: 1,
  fleet: "test-fleet",
  device: "v1",
  lines: ["cam"],
  mqtt: ["mqtt://127.0.0.1:1"],
  root: "stemma",
  token: "stemma_token_of_tests",
  deviceSeed: deviceKey.seed,
  devicePublicKey: deviceKey.publicKey,
  serverPublicKey: serverKey.publicKey,
  profile: "generic",
});
const session = 7;

/** A conversation without a network: what it sent, and a way to deliver messages to it. */
interface ConversationUnderTest {
  readonly conversation: Conversation;
  readonly outbox: Outbox;
  readonly clock: ManualClock;
  readonly sent: Body[];
  readonly events: string[];
  readonly receipts: string[];
  readonly deliver: (body: Body, fromSession?: number) => Promise<void>;
  readonly save: (seed: string, base?: Hash) => Promise<Hash>;
  readonly sentOf: <Type extends BodyType>(type: Type) => BodyOf<Type>[];
}

async function startConversation(): Promise<ConversationUnderTest> {
  const clock = manualClock();
  const log = silentLog();
  const outbox = await Outbox.open({ files: memoryFiles(), folder: "/outbox", clock, random, log });
  const sent: Body[] = [];
  const events: string[] = [];
  const receipts: string[] = [];
  const send = (body: Body): boolean => {
    sent.push(body);
    return true;
  };
  const uploads = new Uploads({
    objects: outbox.objects,
    clock,
    log,
    blockBytes: 8192,
    send: (_, message) => Promise.resolve(send(message)),
  });
  const conversation = new Conversation(
    {
      enrolment,
      outbox,
      uploads,
      clock,
      clockError: new ClockError(),
      log,
      send,
      onNotAdmitted: (why) => {
        events.push(`refused: ${why}`);
      },
      birth: () => ({ agentVersion: "0", profile: "test", runtime: "test", oldestProtocol: 1 }),
    },
    {
      onReceipt: (line, { kind }) => {
        receipts.push(`${line} ${kind}`);
      },
      onOffer: (offer, isEcho) => {
        events.push(`offer ${offer.name} ${isEcho ? "echo" : "new"}`);
      },
      onManifest: () => undefined,
      onTransferRefused: () => false,
      onCommand: () => Promise.resolve({ type: "commandResult", code: "", json: "{}" }),
      onEvent: (name) => {
        events.push(name);
      },
    },
  );
  const deliver = async (body: Body, fromSession = session): Promise<void> => {
    conversation.receive({
      protocol: 1,
      session: fromSession,
      sequence: 1,
      correlation: "c",
      expiresMs: 0,
      body,
    });
    await conversation.idle();
  };
  return {
    conversation,
    outbox,
    clock,
    sent,
    events,
    receipts,
    deliver,
    async save(seed, base) {
      const saved = await outbox.saveTrained(tinySource(seed), {
        name: "m",
        fleet: "test-fleet",
        device: "v1",
        line: "cam",
        base,
        metric: null,
        samples: null,
        environment: { backend: "none" },
      });
      conversation.onOutboxChange();
      await conversation.idle();
      return saved.versionId;
    },
    sentOf: <Type extends BodyType>(type: Type) =>
      sent.filter((body): body is BodyOf<Type> => body.type === type),
  };
}

function welcome(more: Partial<Welcome> = {}, length = 5, by: PrivateKey = serverKey): Welcome {
  return {
    type: "welcome",
    serverVersion: "1",
    protocol: 1,
    head: signHead(by, { length, chain: sha256(`chain ${length}`), root: sha256("root") }),
    clockMs: 1_700_000_000_000,
    restored: false,
    restoredPosition: 0,
    known: [],
    blockBytes: 65536,
    window: 4,
    ...more,
  };
}
function receiptOf(
  versionId: Hash,
  kind: Receipt["kind"],
  more: Partial<Receipt> = {},
  by: PrivateKey = serverKey,
): Receipt {
  const {
    type: _,
    publicKey: __,
    signature: ___,
    ...fields
  } = {
    type: "receipt",
    publicKey: "",
    signature: "",
    kind,
    versionId,
    fleet: "test-fleet",
    device: "v1",
    generation: 1,
    session,
    position: 9,
    backedUpTo: 0,
    name: "m",
    version: 1,
    head: signHead(by, { length: 10, chain: sha256("c"), root: sha256("r") }),
    ...more,
  };
  return signReceipt(by, fields);
}

describe("a conversation", () => {
  it("reports its state, and announces nothing before the welcome", async () => {
    const { conversation, save, sentOf, deliver } = await startConversation();
    conversation.onOpen(session);
    const versionId = await save("1");
    assert.equal(sentOf("birth").length, 1);
    assert.equal(sentOf("announce").length, 0);
    await deliver(welcome());
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
    const { conversation, save, deliver, outbox, sentOf, receipts } = await startConversation();
    const stranger = generateKey(random);
    conversation.onOpen(session);
    await deliver(welcome({}, 5, stranger));
    assert.equal(conversation.isWelcomed, false);
    await deliver(welcome(), session - 1);
    assert.equal(conversation.isWelcomed, false);
    await deliver(welcome());
    const versionId = await save("1");
    await deliver(receiptOf(versionId, "released", {}, stranger));
    await deliver(receiptOf(versionId, "released", { session: session - 1 }));
    await deliver(receiptOf(versionId, "released", { device: "v2" }));
    await deliver(receiptOf(versionId, "released", { fleet: "other" }));
    await deliver({ ...receiptOf(versionId, "recorded"), kind: "released" });
    assert.equal(outbox.entry(versionId)?.standing, "pending");
    assert.deepEqual(receipts, []);
    await deliver(receiptOf(versionId, "recorded"));
    await deliver(receiptOf(versionId, "recorded"));
    assert.equal(outbox.entry(versionId)?.standing, "recorded");
    assert.equal(sentOf("announce").length, 1);
  });
  it("keeps a refused model, reports it once, and tries it again in the next session", async () => {
    const { conversation, save, deliver, outbox, events, sentOf } = await startConversation();
    conversation.onOpen(session);
    await deliver(welcome());
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
    await deliver(welcome());
    assert.equal(sentOf("announce").length, 2);
  });
  it("announces again when the server asks it to wait, and after silence", async () => {
    const { conversation, save, deliver, clock, sentOf } = await startConversation();
    conversation.onOpen(session);
    await deliver(welcome());
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
  it("announces a base on request, and refuses when it does not have it", async () => {
    const { conversation, save, deliver, sentOf } = await startConversation();
    const base = await save("1");
    conversation.onOpen(session);
    await deliver(welcome());
    await deliver(receiptOf(base, "released"));
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
  it("announces nothing to a server with a different history", async () => {
    const { conversation, save, deliver, sentOf, events, outbox } = await startConversation();
    conversation.onOpen(session);
    await deliver(welcome({}, 9));
    conversation.onClosed();
    conversation.onOpen(session);
    const versionId = await save("1");
    await deliver(welcome({}, 8));
    assert.deepEqual(events, ["server-history-rewritten"]);
    await deliver(receiptOf(versionId, "released"));
    assert.equal(sentOf("announce").length, 0);
    assert.equal(outbox.entry(versionId)?.standing, "pending");
    await deliver(welcome({ restored: true, restoredPosition: 3 }, 8));
    assert.equal(sentOf("announce").length, 1);
  });
  it("reports activations once their versions are recorded, with the clock's error", async () => {
    const { conversation, save, deliver, sentOf, outbox } = await startConversation();
    conversation.onOpen(session);
    await deliver(welcome());
    const versionId = await save("1");
    await outbox.append({ type: "activated", atMs: 5, versionId, line: "cam", clockErrorMs: 3, session });
    conversation.onOutboxChange();
    await conversation.idle();
    assert.equal(sentOf("activated").length, 0);
    await deliver(receiptOf(versionId, "recorded"));
    assert.deepEqual(
      sentOf("activated").map(({ atMs, clockErrorMs }) => [atMs, clockErrorMs]),
      [[5, 3]],
    );
    await deliver(welcome({ known: [{ line: "cam", sequence: 1, versionId, activeVersionId: versionId }] }));
    assert.equal(sentOf("activated").length, 1);
  });
  it("reports activations again when the server asked to wait, and not before", async () => {
    const { conversation, clock, save, deliver, sentOf, outbox } = await startConversation();
    conversation.onOpen(session);
    await deliver(welcome());
    const versionId = await save("1");
    for (const atMs of [5, 6])
      await outbox.append({ type: "activated", atMs, versionId, line: "cam", clockErrorMs: 3, session });
    await deliver(receiptOf(versionId, "recorded"));
    assert.equal(sentOf("activated").length, 2);
    await deliver({
      type: "refusal",
      code: "QUOTA_EXCEEDED",
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
