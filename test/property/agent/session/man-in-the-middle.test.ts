/**
 * Somebody who reads everything that goes to a device, and can write to its topics: forges, alters and repeats
 * messages between those of the server. Nothing of it changes what the device keeps, does or reports.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { inspect } from "node:util";
import fc from "fast-check";
import "../../../helpers/property-seed.js";
import { isErrorCode, isStemmaError } from "../../../../shared/errors.js";
import type { Hash } from "../../../../shared/tensor/tensor.js";
import { generateKey } from "../../../../shared/trust/keys.js";
import { signServerMessage, type MessageRecipient } from "../../../../shared/trust/server-message.js";
import { encodeEnvelope } from "../../../../shared/wire/codec.js";
import type { Body } from "../../../../shared/wire/messages.js";
import {
  enrolment,
  random,
  serverKey,
  startConversation,
  type ConversationUnderTest,
} from "../../../helpers/conversation-under-test.js";
import { orderEnvelope, signedEnvelope } from "../../../helpers/signed-messages.js";
import { depth } from "../../../helpers/test-depth.js";
import { envelopes } from "../../shared/wire/envelope-arbitraries.js";

const strangerKey = generateKey(random);
const { fleet, device, generation } = enrolment;

/** What the server does next. */
const serverSteps = ["reconnect", "welcome", "command", "offer", "save", "refusal"] as const;
type ServerStep = (typeof serverSteps)[number];

/** A device, its server, and the messages that went between them. */
class Wire {
  readonly recorded: Uint8Array[] = [];
  session = 1;
  #sequence = 0;
  #newest: Hash | undefined;
  private constructor(readonly under: ConversationUnderTest) {}

  static async start(): Promise<Wire> {
    const wire = new Wire(await startConversation());
    wire.under.conversation.onOpen(wire.session);
    await wire.serverDoes("welcome");
    assert.ok(wire.under.conversation.isWelcomed);
    return wire;
  }

  get challenge(): string {
    const { sent, correlations } = this.under;
    return correlations[sent.findLastIndex(({ type }) => type === "birth")] ?? "";
  }

  /** A message of the server, delivered at once, as a device without an enemy gets it. */
  async #send(body: Body, correlation = ""): Promise<void> {
    const { session } = this;
    const issuedMs = this.under.clock.now();
    const envelope = orderEnvelope(body, { session, sequence: ++this.#sequence, correlation, issuedMs });
    const payload = signedEnvelope(serverKey, this.#recipient({}), envelope);
    this.recorded.push(payload);
    await this.deliver(payload);
  }

  #recipient(changed: Partial<MessageRecipient>): MessageRecipient {
    return { fleet, device, generation, challenge: this.challenge, ...changed };
  }

  /** A message for somebody else, which the server did sign. */
  forOthers(body: Body, changed: Partial<MessageRecipient>): Uint8Array {
    const envelope = orderEnvelope(body, { session: this.session, sequence: this.#sequence + 1 });
    return signedEnvelope(serverKey, this.#recipient(changed), envelope);
  }
  forged(envelope: Parameters<typeof encodeEnvelope>[0]): Uint8Array {
    return signServerMessage(strangerKey, this.#recipient({}), encodeEnvelope(envelope));
  }

  async deliver(payload: Uint8Array): Promise<void> {
    const { messages, conversation } = this.under;
    try {
      const message = messages.read(payload);
      if (message !== undefined) conversation.receive(message);
    } catch (error) {
      assert.ok(isStemmaError(error) && isErrorCode(error.code), inspect(error));
    }
    await conversation.idle();
  }

  async serverDoes(step: ServerStep): Promise<void> {
    const { conversation, server, sentOf, clock, save } = this.under;
    clock.advance(10_000);
    await conversation.idle();
    switch (step) {
      case "reconnect":
        conversation.onClosed();
        conversation.onOpen(++this.session);
        this.#sequence = 0;
        return this.serverDoes("welcome");
      case "welcome": {
        const birth = sentOf("birth").at(-1);
        assert.ok(birth !== undefined);
        return this.#send(await server.welcome(birth), this.challenge);
      }
      case "command":
        return this.#send({ type: "command", name: "report", json: "{}" }, "c");
      case "offer":
        return this.#send(anOffer(this.#newest));
      case "save": {
        this.#newest = await save(String(this.recorded.length), this.#newest);
        server.sent = this.under.outbox.state.seen?.length ?? 0;
        return this.#send(await server.receipt(this.#newest, "recorded", { session: this.session }));
      }
      case "refusal":
        return this.#send(aRefusal(this.#newest));
    }
  }

  /** Everything that somebody could notice of the device, but how often it asks for the server's answer. */
  get picture(): string {
    const { outbox, events, receipts, sent, conversation } = this.under;
    const said = sent.filter(({ type }) => type !== "birth");
    return inspect(
      { state: outbox.state, events, receipts, said, welcomed: conversation.isWelcomed },
      { depth: 12, maxArrayLength: null, maxStringLength: null },
    );
  }
}

function anOffer(versionId: Hash = "0".repeat(64) as Hash): Body {
  const signature = "0".repeat(128);
  return {
    type: "offer",
    line: "cam",
    versionId,
    record: Buffer.of(1),
    objects: [],
    signature,
    name: "m",
    version: 1,
  };
}
function aRefusal(versionId: Hash | undefined): Body {
  const refusal = {
    code: "SIZE_OVER_LIMIT",
    message: "",
    transfer: "",
    retry: false,
    retryAfterMs: 0,
  } as const;
  return { type: "refusal", ...refusal, versionId };
}

type Attack = (wire: Wire) => Uint8Array;
const recordedAt = (wire: Wire, part: number): Uint8Array =>
  wire.recorded[Math.floor(part * wire.recorded.length)] ?? new Uint8Array();
const part = fc.double({ min: 0, max: 0.999, noNaN: true });

const attacks: fc.Arbitrary<Attack> = fc.oneof(
  part.map(
    (at): Attack =>
      (wire) =>
        recordedAt(wire, at),
  ),
  fc.tuple(part, part, fc.nat(7)).map(([at, where, bit]): Attack => {
    return (wire) => {
      const altered = Buffer.from(recordedAt(wire, at));
      const index = Math.floor(where * altered.length);
      altered[index] = (altered[index] ?? 0) ^ (1 << bit);
      return altered;
    };
  }),
  fc.tuple(part, part).map(([at, cut]): Attack => {
    return (wire) => recordedAt(wire, at).subarray(0, Math.floor(cut * recordedAt(wire, at).length));
  }),
  // The signature of one message under the content of another.
  fc.tuple(part, part).map(([a, b]): Attack => {
    return (wire) => Buffer.concat([recordedAt(wire, a).subarray(0, -66), recordedAt(wire, b).subarray(-66)]);
  }),
  envelopes.map((envelope): Attack => {
    return (wire) => wire.forged({ ...envelope, session: wire.session, issuedMs: wire.under.clock.now() });
  }),
  envelopes.map(
    (envelope): Attack =>
      (wire) =>
        encodeEnvelope({ ...envelope, session: wire.session }),
  ),
  fc
    .constantFrom(
      { device: "v2" },
      { fleet: "other" },
      { generation: 2 },
      { challenge: "" },
      { challenge: "a" },
    )
    .map(
      (changed): Attack =>
        (wire) =>
          wire.forOthers(anOffer(), changed),
    ),
  fc.uint8Array({ maxLength: 200 }).map(
    (bytes): Attack =>
      () =>
        bytes,
  ),
);

test("what is written to a device's topics between the server's messages changes nothing on the device", async () => {
  const steps = fc.array(
    fc.record({ server: fc.constantFrom(...serverSteps), attacks: fc.array(attacks, { maxLength: 4 }) }),
    { minLength: 1, maxLength: 12 },
  );
  await fc.assert(
    fc.asyncProperty(steps, async (script) => {
      const wire = await Wire.start();
      for (const step of script) {
        await wire.serverDoes(step.server);
        assert.ok(wire.under.conversation.isWelcomed, "the server is heard all the while");
        for (const attack of step.attacks) {
          const before = wire.picture;
          await wire.deliver(attack(wire));
          assert.equal(wire.picture, before);
        }
      }
    }),
    { numRuns: depth(40, 1_000) },
  );
});
