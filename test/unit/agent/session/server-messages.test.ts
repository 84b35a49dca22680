/** Which messages on its topics a device takes: those of its server, for it, now, and each once. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { ServerMessages } from "../../../../agent/session/server-messages.js";
import { isErrorCode, isStemmaError } from "../../../../shared/errors.js";
import { sha256 } from "../../../../shared/tensor/hash.js";
import { signOffer } from "../../../../shared/trust/signatures.js";
import { generateKey, type PrivateKey } from "../../../../shared/trust/keys.js";
import type { MessageRecipient } from "../../../../shared/trust/server-message.js";
import { encodeEnvelope } from "../../../../shared/wire/codec.js";
import type { Body, Envelope } from "../../../../shared/wire/messages.js";
import { enrolment, random, serverKey } from "../../../helpers/conversation-under-test.js";
import { manualClock, type ManualClock } from "../../../helpers/manual-clock.js";
import { orderEnvelope, signedEnvelope } from "../../../helpers/signed-messages.js";

const session = 7;
const hour = 3_600_000;
const serverStart = Date.UTC(2026, 0, 1);
const command: Body = { type: "command", name: "activate", json: '{"line":"cam"}' };
const welcome = (clockMs: number): Body => ({
  type: "welcome",
  serverVersion: "1",
  protocol: 1,
  clockMs,
  restored: false,
  restoredPosition: 0,
  known: [],
  blockBytes: 8192,
  window: 8,
  head: undefined,
});

/** A device and its server, whose clocks are set apart. */
class Scene {
  readonly clock: ManualClock = manualClock();
  readonly device: ServerMessages;
  /** What the device warned of. */
  readonly warnings: string[] = [];
  challenge = "";
  sequence = 0;
  #serverOffsetMs = 0;

  constructor(atMs?: number) {
    if (atMs !== undefined) this.clock.set(atMs);
    const log = { warn: (event: string) => void this.warnings.push(event) };
    this.device = new ServerMessages({ enrolment, clock: this.clock, random, log });
    this.device.opened(session);
    this.setServerClock(serverStart);
  }
  get serverMs(): number {
    return this.clock.monotonic() + this.#serverOffsetMs;
  }
  setServerClock(ms: number): void {
    this.#serverOffsetMs = ms - this.clock.monotonic();
  }
  born(): void {
    this.challenge = this.device.challenge();
  }
  signed(
    body: Body,
    about: Partial<Envelope> = {},
    to: Partial<MessageRecipient> = {},
    key?: PrivateKey,
  ): Uint8Array {
    const { fleet, device, generation } = enrolment;
    const recipient = { fleet, device, generation, challenge: this.challenge, ...to };
    const times = { session, sequence: ++this.sequence, issuedMs: this.serverMs };
    return signedEnvelope(key ?? serverKey, recipient, orderEnvelope(body, { ...times, ...about }));
  }
  welcomed(): Uint8Array {
    this.born();
    const payload = this.signed(welcome(this.serverMs));
    assert.equal(this.device.read(payload)?.stale, undefined);
    return payload;
  }
  /** How the device takes a payload. */
  judge(payload: Uint8Array): "acted on" | "stale" | "ignored" {
    try {
      const message = this.device.read(payload);
      if (message === undefined) return "ignored";
      return message.stale === undefined ? "acted on" : "stale";
    } catch (error) {
      assert.ok(isStemmaError(error) && isErrorCode(error.code));
      return "ignored";
    }
  }
}

function welcomedScene(atMs?: number): Scene {
  const scene = new Scene(atMs);
  scene.welcomed();
  return scene;
}

describe("messages on a device's topics", () => {
  it("are taken once from its server, and in no other way", () => {
    const scene = welcomedScene();
    const order = scene.signed(command);
    assert.equal(scene.judge(order), "acted on");
    assert.equal(scene.judge(order), "ignored", "sent again");
    assert.equal(scene.judge(scene.signed(command, {}, { device: "v2" })), "ignored", "another device's");
    assert.equal(scene.judge(scene.signed(command, {}, { fleet: "other" })), "ignored", "another fleet's");
    assert.equal(scene.judge(scene.signed(command, {}, { generation: 2 })), "ignored", "another enrolment's");
    assert.equal(scene.judge(scene.signed(command, { session: 6 })), "ignored", "an earlier session's");
    assert.equal(
      scene.judge(scene.signed(command, {}, { challenge: "0".repeat(32) })),
      "ignored",
      "an older birth's",
    );
    assert.equal(scene.judge(scene.signed(command, {}, { challenge: "" })), "ignored", "of no birth");
    assert.equal(
      scene.judge(scene.signed(command, {}, {}, generateKey(random))),
      "ignored",
      "a foreign key's",
    );
    assert.equal(scene.judge(scene.signed(command)), "acted on", "the server is still heard");
  });
  it("of a server with another key are not believed, and a person is told once that there is one", () => {
    const scene = new Scene();
    scene.born();
    const other = generateKey(random);
    const hash = sha256("x");
    const head = { length: 1, chain: hash, root: hash, signature: "00".repeat(64) };
    const welcomeOf = ({ publicKey }: PrivateKey): Body =>
      ({ ...welcome(0), head: { ...head, publicKey } }) as Body;
    // Altered on the way, or of a key that it only names: nobody with another key has answered.
    assert.equal(scene.judge(scene.signed(welcomeOf(other), {}, {}, generateKey(random))), "ignored");
    assert.equal(scene.judge(scene.signed(welcomeOf(other), {}, { challenge: "" }, other)), "ignored");
    assert.deepEqual(scene.warnings, []);
    for (let times = 0; times < 3; times++)
      assert.equal(scene.judge(scene.signed(welcomeOf(other), {}, {}, other)), "ignored");
    assert.deepEqual(scene.warnings, ["server-key-other"]);
  });
  it("cannot be unsigned, or signed as something else", () => {
    const scene = welcomedScene();
    const envelope = orderEnvelope(command, { session, sequence: 5, issuedMs: scene.serverMs });
    assert.equal(scene.judge(encodeEnvelope(envelope)), "ignored");
    const { fleet, device } = enrolment;
    const versionId = sha256("a model");
    const signature = signOffer(serverKey, { fleet, device, line: "cam", versionId, generation: 1 });
    const trailer = Buffer.concat([Buffer.of(0x32, 64), Buffer.from(signature, "hex")]);
    assert.equal(scene.judge(Buffer.concat([encodeEnvelope(envelope), trailer])), "ignored");
  });
  it("are refused with any bit flipped, any part cut off, and anything added", () => {
    const scene = welcomedScene();
    const order = scene.signed(command);
    for (let bit = 0; bit < order.length * 8; bit++) {
      const flipped = Buffer.from(order);
      flipped[bit >> 3] = (flipped[bit >> 3] ?? 0) ^ (1 << (bit & 7));
      assert.equal(scene.judge(flipped), "ignored", `bit ${bit}`);
    }
    for (let end = 0; end < order.length; end++)
      assert.equal(scene.judge(order.subarray(0, end)), "ignored", `cut at ${end}`);
    assert.equal(scene.judge(Buffer.concat([order, Buffer.of(0)])), "ignored");
    assert.equal(scene.judge(Buffer.concat([order, order])), "ignored");
    assert.equal(scene.judge(order), "acted on");
  });
  it("are orders only in the server's order: an older one after a newer one is not acted on", () => {
    const scene = welcomedScene();
    const [older, newer] = [scene.signed(command), scene.signed(command)];
    assert.equal(scene.judge(newer), "acted on");
    assert.equal(scene.judge(older), "stale");
    const done: Body = { type: "transferDone", transfer: "0".repeat(16) };
    const [first, second] = [scene.signed(done), scene.signed(done)];
    assert.equal(scene.judge(second), "acted on");
    assert.equal(scene.judge(first), "acted on", "other messages may overtake each other");
  });
  it("are not taken across sessions and births, whatever their numbers are", () => {
    const scene = welcomedScene();
    const [held, lateWelcome] = [scene.signed(command), scene.signed(welcome(scene.serverMs))];
    scene.welcomed();
    assert.equal(scene.judge(held), "ignored", "of the birth before");
    assert.equal(scene.judge(lateWelcome), "ignored");
    const beforeSession = scene.signed(command);
    scene.device.opened(session + 1);
    assert.equal(scene.judge(beforeSession), "ignored");
    scene.born();
    assert.equal(scene.judge(beforeSession), "ignored");
  });
  it("of the answered birth are still taken while a newer birth waits for its answer", () => {
    const scene = welcomedScene();
    const order = scene.signed(command);
    scene.born();
    assert.equal(scene.judge(order), "acted on");
  });
  it("of a server that starts again and counts from 1 make the device ask anew, and a replay no more than that", () => {
    const scene = welcomedScene();
    for (let i = 0; i < 5; i++) assert.equal(scene.judge(scene.signed(command)), "acted on");
    scene.sequence = 0;
    assert.equal(scene.judge(scene.signed(welcome(scene.serverMs))), "stale");
    scene.welcomed();
    assert.equal(scene.judge(scene.signed(command)), "acted on");
  });
  it("say before a welcome only that the device is not admitted", () => {
    const scene = new Scene();
    const refusal = (code: string): Body => ({
      type: "refusal",
      code,
      message: "",
      transfer: "",
      retry: false,
      retryAfterMs: 0,
    });
    assert.equal(scene.judge(scene.signed(refusal("DEVICE_REVOKED"))), "acted on");
    assert.equal(scene.judge(scene.signed(refusal("DEVICE_REVOKED"), { session: 6 })), "ignored");
    assert.equal(scene.judge(scene.signed(refusal("QUOTA_EXCEEDED"))), "ignored");
    assert.equal(scene.judge(scene.signed(command)), "ignored");
  });
});

describe("the time of orders", () => {
  const clocks: readonly [string, number][] = [
    ["at 1970", 0],
    ["years in the past", Date.UTC(2019, 5, 1)],
    ["right", serverStart],
    ["in the future", Date.UTC(2060, 0, 1)],
  ];
  for (const [where, atMs] of clocks)
    it(`does not depend on the device's clock: ${where}`, () => {
      const scene = welcomedScene(atMs);
      assert.equal(scene.judge(scene.signed(command)), "acted on");
      const held = scene.signed(command);
      scene.clock.advance(hour + 1);
      assert.equal(scene.judge(held), "stale", "held back for longer than it is valid");
      assert.equal(scene.judge(scene.signed(command)), "acted on");
      scene.clock.advance(30 * 24 * hour);
      assert.equal(scene.judge(scene.signed(command, { issuedMs: scene.serverMs - hour - 1 })), "stale");
      assert.equal(scene.judge(scene.signed(command)), "acted on", "after a month in one session");
    });
  it("counts a welcome that was held back as old as its birth", () => {
    const scene = new Scene();
    scene.born();
    const late = scene.signed(welcome(scene.serverMs));
    const order = scene.signed(command, { expiresMs: 60_000 });
    scene.clock.advance(hour);
    assert.equal(scene.judge(late), "acted on");
    assert.equal(scene.judge(order), "stale");
  });
  it("is asked for again when the device's clock was set, and when the server's was", () => {
    const scene = welcomedScene(0);
    scene.clock.set(serverStart);
    assert.equal(scene.judge(scene.signed(command)), "stale", "the device's clock was set");
    scene.welcomed();
    assert.equal(scene.judge(scene.signed(command)), "acted on");
    for (const stepMs of [10 * 365 * 24 * hour, -20 * 365 * 24 * hour]) {
      scene.setServerClock(scene.serverMs + stepMs);
      assert.equal(scene.judge(scene.signed(command)), "stale", "the server's clock was set");
      scene.welcomed();
      assert.equal(scene.judge(scene.signed(command)), "acted on");
    }
  });
  it("is unknown after a sleep that the monotonic clock does not count", () => {
    const scene = welcomedScene(serverStart);
    const held = scene.signed(command);
    scene.clock.set(scene.clock.now() + 8 * hour);
    assert.equal(scene.judge(held), "stale");
  });
});
