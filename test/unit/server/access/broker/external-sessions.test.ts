/** A device at an external broker is asked to leave where it is not served at all, and not where it may come again. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { BrokerEvent, Refused } from "../../../../../server/access/broker/broker-port.js";
import { ExternalSessions } from "../../../../../server/access/broker/external-sessions.js";
import { encodeEnvelope } from "../../../../../shared/wire/codec.js";
import { protocolVersion } from "../../../../../shared/wire/limits.js";

const identity = { fleet: "cars", device: "van" };
const state = encodeEnvelope({
  protocol: protocolVersion,
  session: 3,
  sequence: 1,
  correlation: "",
  expiresMs: 0,
  body: { type: "state", online: true, previousSession: 2, generation: 1, signature: "00".repeat(64) },
});

for (const { refused, isAsked } of [
  { refused: { refused: "revoked", code: "DEVICE_REVOKED" }, isAsked: true },
  { refused: { refused: "its clock", code: "CLOCK_NOT_TRUSTED", isForNow: true }, isAsked: false },
  { refused: undefined, isAsked: false },
] satisfies readonly { refused: Refused | undefined; isAsked: boolean }[])
  test(`a state message is answered: ${refused?.code ?? "admitted"}`, async () => {
    const events: BrokerEvent[] = [];
    let asked = 0;
    const sessions = new ExternalSessions({
      address: "mqtt://broker:1883",
      admit: () => Promise.resolve(refused),
      emit: (event) => events.push(event),
      askToLeave: () => {
        asked++;
        return Promise.resolve();
      },
      log: { warn: () => undefined } as unknown as ConstructorParameters<typeof ExternalSessions>[0]["log"],
    });
    await sessions.handleState(identity, state);
    assert.equal(asked > 0, isAsked);
    assert.equal(sessions.isOpen(identity), refused === undefined);
    // The operator sees a refusal in either case.
    assert.deepEqual(
      events.map(({ type }) => type),
      [refused === undefined ? "connected" : "refused"],
    );
  });
