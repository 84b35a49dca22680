/** A conversation of a device without a network, and the history of the server that it talks with. */
import assert from "node:assert/strict";
import { ClockError } from "../../agent/session/clock-error.js";
import { Outbox } from "../../agent/outbox/outbox.js";
import { Uploads } from "../../agent/outbox/uploads.js";
import { Conversation } from "../../agent/session/conversation.js";
import { ServerMessages } from "../../agent/session/server-messages.js";
import { silentLog } from "../../shared/adapters/node-ports.js";
import { ReleaseTrust } from "../../agent/releases/release-trust.js";
import { startMs } from "./release-owner.js";
import { memoryFiles } from "./files/memory-files.js";
import type { Hash } from "../../shared/tensor/tensor.js";
import { parseEnrolment } from "../../shared/trust/enrolment.js";
import { generateKey } from "../../shared/trust/keys.js";
import type { Body, BodyOf, BodyType, Receipt, Welcome } from "../../shared/wire/messages.js";
import { tinySource } from "./agent-fixtures.js";
import { manualClock, seededRandom, type ManualClock } from "./manual-clock.js";
import { TestHistory } from "./server-history.js";

export const random = seededRandom("conversation");
export const serverKey = generateKey(random);
const deviceKey = generateKey(random);
export const enrolment = parseEnrolment({
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
export const session = 7;

/** A conversation without a network: what it sent, and a way to deliver messages to it. */
export interface ConversationUnderTest {
  readonly conversation: Conversation;
  readonly outbox: Outbox;
  readonly clock: ManualClock;
  readonly sent: Body[];
  /** Of the messages in `sent`. */
  readonly correlations: string[];
  /** Checks payloads for the conversation; `deliver` passes messages that it has checked. */
  readonly messages: ServerMessages;
  readonly events: string[];
  /** Of the events; without those of the connection. */
  readonly texts: string[];
  readonly receipts: string[];
  readonly deliver: (body: Body, fromSession?: number) => Promise<void>;
  /** Delivers the server's answer to the last birth. */
  readonly welcome: (more?: Partial<Welcome>, fromSession?: number) => Promise<void>;
  /** Delivers a receipt, proven from the head that was sent last. */
  readonly receipt: (versionId: Hash, kind: Receipt["kind"], more?: Partial<Receipt>) => Promise<void>;
  server: TestHistory;
  readonly save: (seed: string, base?: Hash) => Promise<Hash>;
  readonly sentOf: <Type extends BodyType>(type: Type) => BodyOf<Type>[];
}

/** @param pin the root of releases that the device demands; undefined: it does not look at releases */
export async function startConversation(pin?: string): Promise<ConversationUnderTest> {
  const clock = manualClock();
  const log = silentLog();
  const releases = await ReleaseTrust.open({
    files: memoryFiles(),
    home: "/agent",
    pin: pin === undefined ? undefined : { root: pin, policy: "required" },
    policy: pin === undefined ? "off" : "required",
    nowMs: () => startMs,
    onEvent: (name) => events.push(name),
  });
  const outbox = await Outbox.open({ files: memoryFiles(), folder: "/outbox", clock, random, log });
  const sent: Body[] = [];
  const events: string[] = [];
  const texts: string[] = [];
  const receipts: string[] = [];
  const correlations: string[] = [];
  const send = (body: Body, { correlation = "" }: { readonly correlation?: string } = {}): boolean => {
    sent.push(body);
    correlations.push(correlation);
    return true;
  };
  const messages = new ServerMessages({ enrolment, clock, random, log });
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
      deviceKey,
      outbox,
      uploads,
      clock,
      clockError: new ClockError(),
      messages,
      log,
      isClaim: () => Promise.resolve(false),
      send,
      restoreOwner: () => releases.restoreOwner(enrolment.fleet),
      onNotAdmitted: (why) => {
        events.push(`refused: ${why}`);
      },
      birth: () => ({ agentVersion: "0", profile: "test", runtime: "test", oldestProtocol: 1 }),
    },
    {
      onWelcomed: () => undefined,
      onOwnerTime: () => Promise.resolve(false),
      onReleasePart: (part) => releases.receive(part),
      onReceipt: (line, { kind }) => {
        receipts.push(`${line} ${kind}`);
      },
      onOffer: (offer, isEcho) => {
        events.push(`offer ${offer.name} ${isEcho ? "echo" : "new"}`);
      },
      onManifest: () => undefined,
      onTransferRefused: () => false,
      onCommand: () => Promise.resolve({ type: "commandResult", code: "", json: "{}" }),
      onEvent: (name, text) => {
        events.push(name);
        texts.push(text);
      },
    },
  );
  const deliver = async (body: Body, fromSession = session): Promise<void> => {
    conversation.receive({
      envelope: { protocol: 1, session: fromSession, sequence: 1, correlation: "c", expiresMs: 0, body },
    });
    await conversation.idle();
  };
  const sentOf = <Type extends BodyType>(type: Type) =>
    sent.filter((body): body is BodyOf<Type> => body.type === type);
  const underTest: ConversationUnderTest = {
    conversation,
    outbox,
    clock,
    sent,
    correlations,
    messages,
    events,
    texts,
    receipts,
    deliver,
    server: await TestHistory.start(serverKey),
    welcome: async (more = {}, fromSession = session) => {
      const birth = sentOf("birth").at(-1);
      assert.ok(birth !== undefined);
      await deliver({ ...(await underTest.server.welcome(birth)), ...more }, fromSession);
    },
    receipt: async (versionId, kind, more = {}) => {
      await deliver(await underTest.server.receipt(versionId, kind, { session, ...more }));
    },
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
    sentOf,
  };
  await underTest.server.grow(5);
  return underTest;
}
