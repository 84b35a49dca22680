/** Chunks of samples come back bit for bit in the shortest of their codings; what is malformed is refused. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { deflateRawSync } from "node:zlib";
import { codeChunk, decodeChunk } from "../../../../shared/data/chunk-coding.js";
import { hasCode } from "../../../helpers/object-stores.js";
import { noiseBytes } from "../../../helpers/noise-bytes.js";

const floats = (values: readonly number[]): Uint8Array => new Uint8Array(Float32Array.from(values).buffer);
const numbers = Array.from({ length: 4000 }, (_, index) => index);

test("noise, pictures and measured numbers take the coding that is shortest, and come back", async () => {
  const chunks = {
    noise: { bytes: noiseBytes(10_003, 1), coding: 0, atMost: 10_004 },
    pictures: {
      bytes: floats([...noiseBytes(4000, 3)].map((each) => (each % 16) / 255)),
      coding: 1,
      atMost: 4000,
    },
    measured: {
      bytes: floats(numbers.map((each) => 3.5 + Math.sin(each / 40) / 3)),
      coding: 2,
      atMost: 12_000,
    },
    short: { bytes: Uint8Array.of(1, 2, 3), coding: 0, atMost: 4 },
  };
  for (const [what, { bytes, coding, atMost }] of Object.entries(chunks)) {
    const coded = await codeChunk(bytes);
    assert.equal(coded[0], coding, what);
    assert.ok(coded.length <= atMost, `${what}: ${coded.length} bytes`);
    assert.deepEqual(Buffer.from(await decodeChunk(coded, bytes.length)), Buffer.from(bytes), what);
  }
});

test("an unknown coding, another length, and more bytes than the manifest states are refused", async () => {
  const bomb = Uint8Array.of(1, ...deflateRawSync(new Uint8Array(1_000_000)));
  for (const [coded, byteLength] of [
    [Uint8Array.of(), 1],
    [Uint8Array.of(3, 1), 1],
    [Uint8Array.of(0, 1, 2), 1],
    [Uint8Array.of(1, 255, 255), 1],
    [bomb, 1000],
    [bomb, 1_000_000],
  ] as const)
    await assert.rejects(decodeChunk(coded, byteLength), hasCode("DATA_MANIFEST_INVALID"));
});
