/**
 * Transfers over links that lose, repeat, reorder and corrupt: the same bytes arrive, or a typed error ends
 * them.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { isErrorCode } from "../../../../shared/errors.js";
import type { Hash } from "../../../../shared/tensor/tensor.js";
import { seededNumbers } from "../../../../shared/random/seeded-numbers.js";
import { depth } from "../../../helpers/test-depth.js";
import { testSeed } from "../../../helpers/crash-states.js";
import { TransferNetwork, type Faults } from "./transfer-network.js";

const blockBytes = 4096;
const transfer = "00112233445566778899aabbccddeeff";
const calm: Faults = {
  loss: 0,
  repeat: 0,
  delay: 0,
  corrupt: 0,
  breakLink: 0,
  restartSender: 0,
  restartReceiver: 0,
  secondSession: 0,
};
const runs = depth(400, 20_000);
const firstSeed = testSeed();

function sourceOf(random: () => number, byteLength: number): Uint8Array {
  const bytes = new Uint8Array(byteLength);
  // Uint8Array.from with a function takes ten times as long.
  for (let at = 0; at < byteLength; at++) bytes[at] = random() * 256;
  return bytes;
}
function encodingsOf(
  random: () => number,
  byteLength: number,
  count: number,
): { code: number; byteLength: number; against?: Hash }[] {
  let left = byteLength;
  return Array.from({ length: count }, (_, index) => {
    const own = index === count - 1 ? left : Math.floor((random() * left) / 2);
    left -= own;
    return { code: index % 3, byteLength: own, ...(index % 3 === 1 && { against: "ab".repeat(32) as Hash }) };
  });
}

test(`any loss, duplication, reordering, corruption, restart and second session ends with the same bytes or a typed error (${runs} seeds from ${firstSeed})`, () => {
  let whole = 0;
  for (let seed = firstSeed; seed < firstSeed + runs; seed++) {
    const random = seededNumbers(seed);
    // Up to 200 blocks, so that manifests have several parts; also empty and one-byte streams.
    const byteLength =
      random() < 0.1
        ? Math.floor(random() * 3)
        : Math.floor(random() * (random() < 0.15 ? 200 : 24) * blockBytes);
    const source = sourceOf(random, byteLength);
    const objects = random() < 0.2 ? 600 : 3;
    const encodings = random() < 0.5 ? [] : encodingsOf(random, byteLength, objects);
    const rough = (): number => (random() < 0.4 ? 0 : random() * 0.3);
    const rare = (): number => (random() < 0.5 ? 0 : random() * 0.02);
    const faults: Faults = {
      loss: rough(),
      repeat: rough(),
      delay: rough() * 3,
      corrupt: rough() / 4,
      breakLink: rare(),
      restartSender: rare(),
      restartReceiver: rare(),
      secondSession: rare(),
    };
    const network = new TransferNetwork(
      source,
      {
        receiver: {
          transfer,
          objects,
          rawBytes: byteLength,
          maxBytes: 2 ** 30,
          maxBlockBytes: blockBytes,
          window: 1 + Math.floor(random() * 12),
        },
        blockBytes,
        encodings,
      },
      faults,
      seed,
    );
    const label = `seed ${seed}: ${JSON.stringify({ byteLength, objects, encodings: encodings.length, faults })}`;
    let outcome;
    try {
      outcome = network.run();
    } catch (cause) {
      throw new Error(label, { cause });
    }
    if (outcome.bytes !== undefined) {
      whole++;
      assert.equal(Buffer.compare(Buffer.from(outcome.bytes), Buffer.from(source)), 0, label);
      assert.deepEqual(outcome.encodings, encodings, label);
    } else assert.ok(outcome.error !== undefined && isErrorCode(outcome.error.code), label);
  }
  // Typed errors are for links that corrupt the same block repeatedly, not the usual end.
  assert.ok(whole > runs * 0.9, `only ${whole} of ${runs} transfers arrived`);
});

test("a reliable link sends every block once", () => {
  const random = seededNumbers(1);
  const source = sourceOf(random, 150 * blockBytes + 17);
  const outcome = new TransferNetwork(
    source,
    {
      receiver: {
        transfer,
        objects: 1,
        rawBytes: source.length,
        maxBytes: 2 ** 30,
        maxBlockBytes: blockBytes,
      },
      blockBytes,
      encodings: [],
    },
    calm,
    1,
  ).run();
  assert.equal(outcome.blocksSent, 151);
  assert.deepEqual(outcome.bytes, source);
});

test("a link that loses everything ends with TRANSFER_STALLED, one that corrupts everything with BLOCK_HASH_MISMATCH", () => {
  const source = sourceOf(seededNumbers(2), 10 * blockBytes);
  const options = {
    transfer,
    objects: 1,
    rawBytes: source.length,
    maxBytes: 2 ** 30,
    maxBlockBytes: blockBytes,
  };
  assert.equal(
    new TransferNetwork(
      source,
      { receiver: options, blockBytes, encodings: [] },
      { ...calm, loss: 1 },
      3,
    ).run().error?.code,
    "TRANSFER_STALLED",
  );
  assert.equal(
    new TransferNetwork(
      source,
      { receiver: options, blockBytes, encodings: [] },
      { ...calm, corrupt: 1 },
      4,
    ).run().error?.code,
    "BLOCK_HASH_MISMATCH",
  );
});

test("a stream longer than the limit or the want is refused with a typed error", () => {
  const source = sourceOf(seededNumbers(5), 10 * blockBytes);
  const options = {
    transfer,
    objects: 1,
    rawBytes: source.length,
    maxBytes: 2 ** 30,
    maxBlockBytes: blockBytes,
  };
  assert.equal(
    new TransferNetwork(
      source,
      { receiver: { ...options, maxBytes: 1000 }, blockBytes, encodings: [] },
      calm,
      6,
    ).run().error?.code,
    "SIZE_OVER_LIMIT",
  );
  assert.equal(
    new TransferNetwork(
      source,
      { receiver: { ...options, rawBytes: source.length - 1 }, blockBytes, encodings: [] },
      calm,
      7,
    ).run().error?.code,
    "TRANSFER_MANIFEST_INVALID",
  );
  assert.equal(
    new TransferNetwork(
      source,
      { receiver: options, blockBytes: 2 * blockBytes, encodings: [] },
      calm,
      8,
    ).run().error?.code,
    "TRANSFER_MANIFEST_INVALID",
  );
});
