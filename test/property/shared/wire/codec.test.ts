/**
 * Any envelope survives encoding and decoding, also one of a later version; a truncated one never does
 * harm.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import "../../../helpers/property-seed.js";
import { isStemmaError } from "../../../../shared/errors.js";
import { decodeEnvelope, encodeEnvelope, maxEnvelopeBytes } from "../../../../shared/wire/codec.js";
import { envelopes } from "./envelope-arbitraries.js";
import { depth } from "../../../helpers/test-depth.js";
import { testSeed } from "../../../helpers/crash-states.js";

const seed = testSeed();

/** Converts Buffers to Uint8Arrays, so that they compare equal. */
function plain(value: unknown): unknown {
  return JSON.parse(
    JSON.stringify(value, (_key, one: unknown) =>
      one instanceof Uint8Array
        ? { hex: Buffer.from(one).toString("hex") }
        : isBufferJson(one)
          ? { hex: Buffer.from(one.data).toString("hex") }
          : one,
    ),
  );
}
function isBufferJson(value: unknown): value is { type: "Buffer"; data: number[] } {
  return (
    typeof value === "object" &&
    value !== null &&
    (value as { type?: unknown }).type === "Buffer" &&
    Array.isArray((value as { data?: unknown }).data)
  );
}

test(`every envelope is decoded as it was encoded (seed ${seed})`, () => {
  fc.assert(
    fc.property(envelopes, (envelope) => {
      const bytes = encodeEnvelope(envelope);
      const limits = { maxBytes: maxEnvelopeBytes(envelope.body.type) };
      assert.deepEqual(plain(decodeEnvelope(bytes, limits)), plain(envelope));
      assert.deepEqual(Buffer.from(encodeEnvelope(decodeEnvelope(bytes, limits))), Buffer.from(bytes));
    }),
    { seed, numRuns: depth(500, 50_000) },
  );
});

test(`fields of later versions are ignored, at both levels (seed ${seed})`, () => {
  fc.assert(
    fc.property(envelopes, fc.uint8Array({ maxLength: 40 }), (envelope, value) => {
      // field 200, length-delimited: tag 200 << 3 | 2 = 1602
      const unknown = Buffer.concat([Buffer.of(0xc2, 0x0c, value.length), value]);
      const bytes = Buffer.concat([encodeEnvelope(envelope), unknown]);
      assert.deepEqual(plain(decodeEnvelope(bytes)), plain(envelope));
    }),
    { seed, numRuns: depth(100, 300) },
  );
});

test(`every truncation gives an envelope or a typed error (seed ${seed})`, () => {
  fc.assert(
    fc.property(envelopes, fc.double({ min: 0, max: 1, noNaN: true }), (envelope, part) => {
      const bytes = encodeEnvelope(envelope);
      try {
        decodeEnvelope(bytes.subarray(0, Math.floor(bytes.length * part)));
      } catch (error) {
        assert.ok(
          isStemmaError(error) &&
            ["ENVELOPE_MALFORMED", "ENVELOPE_TOO_LARGE", "PROTOCOL_VERSION_UNSUPPORTED"].includes(error.code),
          String(error),
        );
      }
    }),
    { seed, numRuns: depth(250, 50_000) },
  );
});
