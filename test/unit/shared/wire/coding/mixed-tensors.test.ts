/** Tensors in mixed bits, of which a few bytes take seconds to decode: what may be declared, and where they run. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { encodingCodes } from "../../../../../shared/delta/encoded.js";
import { writeMixed } from "../../../../../shared/delta/mixed.js";
import { isStemmaError } from "../../../../../shared/errors.js";
import { codedBytesOf } from "../../../../../shared/objects/decoding/decode-steps.js";
import { memoryStore } from "../../../../../shared/objects/memory-store.js";
import { seededNumbers } from "../../../../../shared/random/seeded-numbers.js";
import { tensorId } from "../../../../../shared/tensor/hash.js";
import { sourceOfTensor, type Hash, type Tensor } from "../../../../../shared/tensor/tensor.js";
import { codeStream } from "../../../../../shared/wire/coding/code-stream.js";
import { openCodingSpool } from "../../../../../shared/wire/coding/coding-spool.js";
import {
  checkEncoding,
  MixedTensors,
  type AllowedCoding,
} from "../../../../../shared/wire/coding/encodings.js";
import { openTensorCoder, type TensorCoder } from "../../../../../shared/wire/coding/tensor-coder.js";
import { maxWireMixedBytes } from "../../../../../shared/wire/limits.js";
import type { Encoding } from "../../../../../shared/wire/messages.js";
import { memoryFiles } from "../../../../helpers/files/memory-files.js";
import { manualClock } from "../../../../helpers/manual-clock.js";

const id = (digit: string): Hash => digit.repeat(64) as Hash;

/** Bits that follow a rhythm with errors, as bytes: what mixed bits are good for. */
function masks(byteLength: number, seed: number): Tensor {
  const random = seededNumbers(seed);
  const bytes = Uint8Array.from({ length: byteLength }, (_, i) => (i % 7 < 3 !== random() < 0.02 ? 1 : 0));
  return { dtype: "BOOL", shape: [byteLength], bytes };
}

describe("tensors in mixed bits, of which a few bytes take seconds to decode", () => {
  const mixed = (byteLength = 100, against?: Hash): Encoding => ({
    code: encodingCodes.mixed,
    byteLength,
    ...(against === undefined ? {} : { against }),
  });
  const inOneTransfer = (): AllowedCoding => ({
    codec: 3,
    tensors: new Set([id("a")]),
    own: new Map([
      [id("c"), 0],
      [id("d"), 1],
    ]),
    mixed: new MixedTensors(),
  });
  const refused = (by: AllowedCoding, index: number, rawBytes: number, encoding = mixed()): boolean => {
    try {
      checkEncoding(encoding, index, rawBytes, by);
      return false;
    } catch (error) {
      assert.ok(isStemmaError(error) && error.code === "TRANSFER_MANIFEST_INVALID");
      return true;
    }
  };

  it("are bounded in all bytes of one transfer, each counted once", () => {
    const allowed = inOneTransfer();
    const half = maxWireMixedBytes / 2;
    assert.equal(refused(allowed, 0, half), false);
    assert.equal(refused(allowed, 0, half), false, "the same part a second time");
    assert.equal(refused(allowed, 1, half), false);
    assert.equal(refused(allowed, 2, 1), true);
    assert.equal(refused(inOneTransfer(), 0, maxWireMixedBytes + 1), true);
  });
  it("are not what others of the transfer are coded against, in whatever order they are declared", () => {
    const packed: Encoding = { code: encodingCodes.packed, byteLength: 5, against: id("c") };
    const allowed = inOneTransfer();
    assert.equal(refused(allowed, 0, 1000), false);
    assert.equal(refused(allowed, 1, 1000, packed), true);
    const later = inOneTransfer();
    assert.equal(refused(later, 1, 1000, packed), false);
    assert.equal(refused(later, 0, 1000), true);
  });
  it("are left out by a sender beyond that bound, and where another is coded against them", async () => {
    const quarter = maxWireMixedBytes / 4;
    const tensors = [1, 2, 3].map((seed) => ({
      dtype: "U8" as const,
      shape: [quarter],
      bytes: new Uint8Array(quarter).fill(seed),
    }));
    const store = memoryStore({ clock: manualClock() });
    const pack = await store.begin();
    for (const tensor of tensors) await pack.putTensor(sourceOfTensor(tensor));
    await pack.commit();
    const ids = tensors.map((tensor) => tensorId(tensor, tensor.bytes));
    // An encoder that takes mixed bits wherever it may.
    const coder: Pick<TensorCoder, "encode"> = {
      encode: (_tensor, _references, options) =>
        Promise.resolve({
          code: options?.mixed === true ? encodingCodes.mixed : encodingCodes.general,
          bytes: new Uint8Array(8),
          against: { base: false, previous: false },
        }),
    };
    const codesOf = async (references: ReadonlyMap<Hash, { readonly base: Hash }>): Promise<number[]> => {
      const work = {
        tensors: [...ids, ...ids],
        references,
        objects: store,
        coder: coder as TensorCoder,
        maxTensorBytes: 2 ** 30,
        format: 3,
      };
      const spool = await openCodingSpool(memoryFiles(), "spool", 2 ** 20, 2 ** 20);
      return (await codeStream(work, spool)).encodings.map(({ code }) => code);
    };
    const { mixed: nine, general: eight } = encodingCodes;
    assert.deepEqual(await codesOf(new Map()), [nine, nine, nine, nine, eight, eight]);
    assert.deepEqual(await codesOf(new Map([[ids[1]!, { base: ids[0]! }]])), [
      eight,
      nine,
      nine,
      eight,
      nine,
      nine,
    ]);
  });
  it("are decoded in a thread: the event loop goes on", async () => {
    const tensor = masks(2 ** 15, 4);
    const stream = writeMixed(tensor.bytes, { width: 1, columns: 1, base: undefined }, 0);
    const encoded = { code: encodingCodes.mixed, bytes: stream };
    const coder = openTensorCoder(tensor.bytes.length);
    let turns = 0;
    let isDone = false;
    const turn = (): void => {
      turns++;
      if (!isDone) setImmediate(turn);
    };
    setImmediate(turn);
    try {
      const decoded = await coder.decode(tensor, encoded, {}, tensor.bytes.length);
      assert.ok(Buffer.from(decoded).equals(tensor.bytes));
      // Inline it would be done after three.
      assert.ok(turns >= 20, `${turns} turns of the event loop`);
    } finally {
      isDone = true;
      await coder.close();
    }
    const step = {
      header: tensor,
      byteLength: tensor.bytes.length,
      lastUseOf: [],
      id: id("a"),
      stored: encoded.bytes,
    };
    const costOf = (code: number): number =>
      codedBytesOf({
        steps: [{ ...step, code }],
        references: new Map(),
        wanted: new Set(),
        canMoveStored: false,
      });
    assert.ok(costOf(encodingCodes.mixed) >= 64 * costOf(encodingCodes.packed));
  });
});
