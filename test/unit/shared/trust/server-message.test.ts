/** Signed messages of a server: whom they are for, and what of them may not change. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { isSignatureValid, keyOfSeed } from "../../../../shared/trust/keys.js";
import {
  messageSignatureBytes,
  openServerMessage,
  signServerMessage,
  type MessageRecipient,
} from "../../../../shared/trust/server-message.js";

const server = keyOfSeed("1".repeat(64));
const recipient: MessageRecipient = { fleet: "cars", device: "van-7", generation: 3, challenge: "birth-9" };
const envelope = Buffer.from("an envelope");
const payload = signServerMessage(server, recipient, envelope);
const opened = (
  bytes: Uint8Array,
  change: Partial<MessageRecipient> = {},
  key = server.publicKey,
): Uint8Array | undefined => openServerMessage(key, { ...recipient, ...change }, bytes);

describe("a signed message of a server", () => {
  it("is the envelope, then field 6 with 64 bytes: the signature over domain, recipient and envelope", () => {
    assert.equal(payload.length, envelope.length + messageSignatureBytes);
    assert.deepEqual([...payload.subarray(envelope.length, envelope.length + 2)], [0x32, 0x40]);
    const text = (value: string) => {
      const length = Buffer.alloc(4);
      length.writeUInt32LE(value.length);
      return Buffer.concat([length, Buffer.from(value)]);
    };
    const signed = Buffer.concat([
      Buffer.from("stemma-server-message-1\0"),
      text("cars"),
      text("van-7"),
      Buffer.of(3, 0, 0, 0),
      text("birth-9"),
      envelope,
    ]);
    assert.ok(isSignatureValid(server.publicKey, signed, payload.subarray(envelope.length + 2)));
  });

  it("is opened by whom it is for, and by nobody else", () => {
    assert.deepEqual(Buffer.from(opened(payload)!), envelope);
    assert.deepEqual(opened(signServerMessage(server, recipient, Buffer.alloc(0)))?.length, 0);
    for (const change of [
      { fleet: "vans" },
      { device: "van-8" },
      { generation: 4 },
      { generation: 3 + 256 },
      { challenge: "" },
      // The same texts, cut elsewhere.
      { fleet: "carsv", device: "an-7" },
    ])
      assert.equal(opened(payload, change), undefined, JSON.stringify(change));
    assert.equal(opened(payload, {}, keyOfSeed("2".repeat(64)).publicKey), undefined);
  });

  it("is not opened where any byte of it was changed, or where it is cut or longer", () => {
    for (let at = 0; at < payload.length; at++) {
      const changed = Uint8Array.from(payload);
      changed[at] = (changed[at] ?? 0) ^ 1;
      assert.equal(opened(changed), undefined, `byte ${at}`);
    }
    for (let length = 0; length < payload.length; length++)
      assert.equal(opened(payload.subarray(0, length)), undefined, `${length} bytes`);
    assert.equal(opened(Buffer.concat([payload, Buffer.of(0)])), undefined);
    assert.equal(opened(envelope), undefined);
  });
});
