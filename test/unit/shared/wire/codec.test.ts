/** The codec of envelopes: golden vectors, limits of size, and refused messages. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { isStemmaError, type ErrorCode } from "../../../../shared/errors.js";
import { allocateBlock } from "../../../../shared/wire/block-frame.js";
import { bodyTypes, decodeEnvelope, encodeEnvelope } from "../../../../shared/wire/codec.js";
import { stemma } from "../../../../shared/wire/generated/stemma-protocol.js";
import { blockOverheadBytes, maxBlockBytes, maxMessageBytes } from "../../../../shared/wire/limits.js";
import type { Hash } from "../../../../shared/tensor/tensor.js";
import type { Body, Envelope } from "../../../../shared/wire/messages.js";

interface Vector {
  readonly envelope: Envelope;
  readonly hex: string;
}
/** {"hex": …} stands for bytes. */
function withBytes(_key: string, value: unknown): unknown {
  if (typeof value !== "object" || value === null) return value;
  const names = Object.keys(value);
  return names.length === 1 && names[0] === "hex"
    ? Buffer.from((value as { hex: string }).hex, "hex")
    : value;
}
function vectorsOf(name: string): Vector[] {
  return JSON.parse(
    readFileSync(new URL(`../../../vectors/wire/${name}.json`, import.meta.url), "utf8"),
    (key, value: unknown) => withBytes(key, value),
  ) as Vector[];
}
const vectors = ["envelopes", "release-part", "activation-receipt", "owner-time"].flatMap(vectorsOf);

function envelopeOf(body: Body): Envelope {
  return { protocol: 1, session: 1, sequence: 1, correlation: "", expiresMs: 0, body };
}
function throwsCode(code: ErrorCode, action: () => unknown): void {
  assert.throws(action, (error) => isStemmaError(error, code));
}
const largest = { maxBytes: maxBlockBytes + blockOverheadBytes };

test("golden vectors of every type of message", () => {
  assert.deepEqual(vectors.map(({ envelope }) => envelope.body.type).sort(), [...bodyTypes].sort());
  for (const { envelope, hex } of vectors) {
    assert.equal(Buffer.from(encodeEnvelope(envelope)).toString("hex"), hex, envelope.body.type);
    assert.deepEqual(
      JSON.parse(JSON.stringify(decodeEnvelope(Buffer.from(hex, "hex")))),
      JSON.parse(JSON.stringify(envelope)),
      envelope.body.type,
    );
  }
});

test(
  "golden vectors of coded transfers, and of what a record uses; messages without these fields keep " +
    "their bytes",
  () => {
    const files = [
      "coded-envelopes",
      "many-references",
      "uses-envelopes",
      "optimizer-envelopes",
      "release-envelopes",
      "restore-envelopes",
      "pipeline-envelopes",
      "numbered-activations",
    ];
    for (const { envelope, hex } of files.flatMap(vectorsOf)) {
      assert.equal(Buffer.from(encodeEnvelope(envelope)).toString("hex"), hex, envelope.body.type);
      assert.deepEqual(
        JSON.parse(JSON.stringify(decodeEnvelope(Buffer.from(hex, "hex")))),
        JSON.parse(JSON.stringify(envelope)),
        envelope.body.type,
      );
    }
    for (const {
      envelope: { body },
      hex,
    } of vectors) {
      if (body.type !== "want" && body.type !== "fetch") continue;
      const read = decodeEnvelope(Buffer.from(hex, "hex")).body;
      assert.ok(
        !("codec" in read) && !("references" in read) && !("streamBytes" in read),
        "a message of an older peer has no encodings",
      );
    }
    throwsCode("ENVELOPE_MALFORMED", () =>
      encodeEnvelope(
        envelopeOf({
          type: "fetch",
          versionId: "ab".repeat(32) as Hash,
          transfer: "0123456789abcdef",
          objects: [],
          blockBytes: 0,
          part: 0,
          parts: 1,
          references: Array.from({ length: 17 }, () => "ab".repeat(32) as Hash),
        }),
      ),
    );
  },
);

test("a block framed in place has the bytes of a copied one, and its headroom is used once", () => {
  for (const [index, length] of [
    [0, 1],
    [1, 127],
    [127, 128],
    [128, 4096],
    [2 ** 22, 256 * 1024],
  ] as const) {
    const data = allocateBlock(length).fill(7);
    const copied = Buffer.from(
      encodeEnvelope(envelopeOf({ type: "block", index, data: Uint8Array.from(data) })),
    );
    const framed = encodeEnvelope(envelopeOf({ type: "block", index, data }));
    assert.equal(framed.buffer, data.buffer, "no copy");
    assert.deepEqual(Buffer.from(framed), copied);
    const again = encodeEnvelope(envelopeOf({ type: "block", index: 9, data }));
    assert.notEqual(again.buffer, data.buffer, "the first message may still be on its way");
    assert.deepEqual(Buffer.from(framed), copied);
    assert.deepEqual(decodeEnvelope(again, largest).body, {
      type: "block",
      index: 9,
      data: Buffer.from(data),
    });
  }
});

test("an encoding that names nine tensors is refused, written and read", () => {
  const ids = Array.from({ length: 9 }, (_, at) => at.toString(16).padStart(64, "0") as Hash);
  const manifestNaming = (references: readonly Hash[]): Envelope =>
    envelopeOf({
      type: "manifest",
      transfer: "0123456789abcdef",
      part: 0,
      parts: 1,
      byteLength: 4,
      blockBytes: 4096,
      blockHashes: [ids[0] as Hash],
      encodings: [{ code: 10, byteLength: 4, against: ids[0], previous: ids[1], references }],
    });
  const eight = encodeEnvelope(manifestNaming(ids.slice(2, 8)));
  const { body } = decodeEnvelope(eight);
  assert.ok(body.type === "manifest" && body.encodings[0]?.references?.length === 6);
  throwsCode("ENVELOPE_MALFORMED", () => encodeEnvelope(manifestNaming(ids.slice(2))));
  // The bytes of a peer that does not keep the limit, made by the bare protobuf code.
  const forged = stemma.v1.Envelope.decode(eight);
  forged.manifest?.encodings?.[0]?.references?.push(Buffer.from(ids[8] as string, "hex"));
  const nine = stemma.v1.Envelope.encode(forged).finish();
  assert.equal(nine.length, eight.length + 34);
  throwsCode("ENVELOPE_MALFORMED", () => decodeEnvelope(nine));
});

test("outgoing messages are limited in size", () => {
  throwsCode("ENVELOPE_TOO_LARGE", () =>
    encodeEnvelope(envelopeOf({ type: "command", name: "train", json: "x".repeat(maxMessageBytes) })),
  );
  const event = { type: "event", name: "n", text: "t", line: "l" } as const;
  throwsCode("ENVELOPE_MALFORMED", () => encodeEnvelope(envelopeOf({ ...event, text: "x".repeat(5000) })));
  throwsCode("ENVELOPE_MALFORMED", () => encodeEnvelope(envelopeOf({ ...event, text: "a\0b" })));
  throwsCode("ENVELOPE_MALFORMED", () => encodeEnvelope(envelopeOf({ ...event, text: "\ud800" })));
  throwsCode("ENVELOPE_MALFORMED", () => encodeEnvelope({ ...envelopeOf(event), session: 2 ** 53 }));
  throwsCode("ENVELOPE_MALFORMED", () => encodeEnvelope({ ...envelopeOf(event), session: -1 }));
  throwsCode("ENVELOPE_MALFORMED", () =>
    encodeEnvelope(envelopeOf({ type: "transferDone", transfer: "../../etc" })),
  );
  throwsCode("ENVELOPE_MALFORMED", () => encodeEnvelope(envelopeOf({ type: "nonsense" } as unknown as Body)));
});

test("received bytes are bounded by kind before they are decoded", () => {
  throwsCode("ENVELOPE_TOO_LARGE", () => decodeEnvelope(new Uint8Array(maxMessageBytes + 1)));
  throwsCode("PROTOCOL_VERSION_UNSUPPORTED", () => decodeEnvelope(new Uint8Array(0)));
  // A message as long as a block, on a topic for blocks.
  const long = Buffer.concat([
    encodeEnvelope(envelopeOf({ type: "event", name: "", text: "", line: "" })),
    Buffer.of(0xc2, 0x0c, 0x80, 0x80, 0x08),
    Buffer.alloc(2 ** 17),
  ]);
  throwsCode("ENVELOPE_TOO_LARGE", () => decodeEnvelope(long, largest));
  const block = encodeEnvelope(envelopeOf({ type: "block", index: 0, data: new Uint8Array(maxBlockBytes) }));
  assert.equal(decodeEnvelope(block, largest).body.type, "block");
  throwsCode("ENVELOPE_MALFORMED", () =>
    encodeEnvelope(envelopeOf({ type: "block", index: 0, data: new Uint8Array(maxBlockBytes + 1) })),
  );
});

test("invalid envelopes are refused: other protocols, no body, two bodies, counts beyond 2^53, groups", () => {
  const event = Buffer.from(encodeEnvelope(envelopeOf({ type: "event", name: "n", text: "", line: "" })));
  throwsCode("PROTOCOL_VERSION_UNSUPPORTED", () =>
    decodeEnvelope(Buffer.concat([Buffer.of(8, 2), event.subarray(2)])),
  );
  throwsCode("PROTOCOL_VERSION_UNSUPPORTED", () => decodeEnvelope(event.subarray(2)));
  throwsCode("ENVELOPE_MALFORMED", () => decodeEnvelope(Buffer.of(8, 1)));
  throwsCode("ENVELOPE_MALFORMED", () => decodeEnvelope(Buffer.concat([event, event])));
  throwsCode("ENVELOPE_MALFORMED", () =>
    decodeEnvelope(Buffer.concat([event, Buffer.of(0x10, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x1f)])),
  );
  throwsCode("ENVELOPE_MALFORMED", () =>
    decodeEnvelope(Buffer.concat([event, Buffer.of(0xcb, 0x0c, 0xcc, 0x0c)])),
  );
  throwsCode("ENVELOPE_MALFORMED", () =>
    decodeEnvelope(Buffer.concat([event.subarray(0, 2), Buffer.alloc(200, Buffer.of(0x28, 1))])),
  );
});

test("a hash of another length is refused, in both directions", () => {
  const parked = { type: "parked", versionId: "ab".repeat(31), expiresMs: 0 } as unknown as Body;
  throwsCode("ENVELOPE_MALFORMED", () => encodeEnvelope(envelopeOf(parked)));
  const good = Buffer.from(
    encodeEnvelope(
      envelopeOf({ type: "parked", versionId: "ab".repeat(32), expiresMs: 0 } as unknown as Body),
    ),
  );
  // protocol, session, sequence; then parked (26) of 34 bytes: 0a 20 and the hash
  const cut = Buffer.concat([
    good.subarray(0, good.length - 35),
    Buffer.of(33, 0x0a, 31),
    good.subarray(good.length - 31),
  ]);
  throwsCode("ENVELOPE_MALFORMED", () => decodeEnvelope(cut));
});
