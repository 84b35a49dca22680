/** A data set that grew shares its chunks with the one before, wherever the new bytes are. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { cutChunks } from "../../../../shared/data/cut-chunks.js";
import { sha256 } from "../../../../shared/tensor/hash.js";
import { noiseBytes } from "../../../helpers/noise-bytes.js";

const size = 600_000;
const noise = noiseBytes(size, 1);

async function cut(bytes: Uint8Array, pieceBytes = 65_537): Promise<readonly Uint8Array[]> {
  const pieces = Array.from({ length: Math.ceil(bytes.length / pieceBytes) }, (_, index) =>
    bytes.subarray(index * pieceBytes, (index + 1) * pieceBytes),
  );
  const chunks: Uint8Array[] = [];
  for await (const chunk of cutChunks(pieces)) chunks.push(chunk);
  return chunks;
}
const idsOf = (chunks: readonly Uint8Array[]): readonly string[] => chunks.map((chunk) => sha256(chunk));

/** Bytes of `grown` that are in no chunk of `before`. */
async function newBytes(before: Uint8Array, grown: Uint8Array): Promise<number> {
  const known = new Set(idsOf(await cut(before)));
  return (await cut(grown)).reduce((sum, chunk) => sum + (known.has(sha256(chunk)) ? 0 : chunk.length), 0);
}

test("chunks are the bytes in order, between 8 and 128 KiB, however the bytes arrive", async () => {
  const chunks = await cut(noise);
  assert.deepEqual(Buffer.concat(chunks), Buffer.from(noise));
  for (const { length } of chunks.slice(0, -1)) assert.ok(length >= 8192 && length <= 131_072, `${length}`);
  assert.deepEqual(idsOf(await cut(noise, 1000)), idsOf(chunks));
  assert.deepEqual(await cut(new Uint8Array()), []);
  assert.deepEqual(
    (await cut(new Uint8Array(300_000))).map(({ length }) => length),
    [131_072, 131_072, 37_856],
  );
});

test("boundaries stay as they are: other ones would store everything again", async () => {
  const lengths = (await cut(noise)).map(({ length }) => length);
  assert.deepEqual(
    lengths,
    [35896, 74007, 16707, 31095, 14524, 74763, 39951, 19850, 8921, 90277, 65013, 26655, 102341],
  );
});

test("bytes that are added at the end, in the middle or removed cost a few chunks", async () => {
  const added = noiseBytes(20_000, 2);
  const join = (...parts: readonly Uint8Array[]): Uint8Array => new Uint8Array(Buffer.concat(parts));
  const changes = {
    appended: join(noise, added),
    inserted: join(noise.subarray(0, 200_000), added, noise.subarray(200_000)),
    removed: join(noise.subarray(0, 200_000), noise.subarray(220_000)),
    replaced: join(noise.subarray(0, 200_000), added, noise.subarray(220_000)),
  };
  for (const [what, grown] of Object.entries(changes))
    assert.ok((await newBytes(noise, grown)) < 20_000 + 2 * 131_072, what);
});
