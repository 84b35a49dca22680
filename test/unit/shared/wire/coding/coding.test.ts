/**
 * The pure parts of coded transfers: which encodings are valid, what a tensor is coded against, and that the same
 * input gives the same stream.
 */
import assert from "node:assert/strict";
import { encodingCodes } from "../../../../../shared/delta/encoded.js";
import { listReferences } from "../../../../../shared/delta/links.js";
import { describe, it } from "node:test";
import { isStemmaError, type ErrorCode } from "../../../../../shared/errors.js";
import { memoryFiles } from "../../../../helpers/files/memory-files.js";
import type { LeafTable } from "../../../../../shared/model/model.js";
import { memoryStore } from "../../../../../shared/objects/memory-store.js";
import { sourceOfTensor, type Hash, type Tensor } from "../../../../../shared/tensor/tensor.js";
import {
  codeStream,
  estimateStream,
  type CodedStream,
  type CodingWork,
} from "../../../../../shared/wire/coding/code-stream.js";
import { openCodingSpool } from "../../../../../shared/wire/coding/coding-spool.js";
import {
  checkEncoding,
  maxEncodedBytes,
  rawOnly,
  type AllowedCoding,
} from "../../../../../shared/wire/coding/encodings.js";
import { referencesOfTensors } from "../../../../../shared/wire/coding/references.js";
import { openTensorCoder, type TensorCoder } from "../../../../../shared/wire/coding/tensor-coder.js";
import { maxWireCodedTensorBytes } from "../../../../../shared/wire/limits.js";
import type { Encoding } from "../../../../../shared/wire/messages.js";
import { manualClock } from "../../../../helpers/manual-clock.js";
import {
  fineTuned,
  continueTuning,
  lowRankPair,
  noiseTensor,
  weights,
} from "../../../../helpers/related-tensors.js";

const id = (digit: string): Hash => digit.repeat(64) as Hash;
const allowed: AllowedCoding = { codec: 1, tensors: new Set([id("a"), id("b")]) };

describe("encodings of a manifest", () => {
  const outcome = (encoding: Encoding, rawBytes = 10_000, by = allowed): ErrorCode | "taken" => {
    try {
      checkEncoding(encoding, 0, rawBytes, by);
      return "taken";
    } catch (error) {
      if (isStemmaError(error)) return error.code;
      throw error;
    }
  };
  it("are accepted where the want allows them", () => {
    assert.equal(outcome({ code: 0, byteLength: 10_000 }), "taken");
    assert.equal(outcome({ code: 0, byteLength: 10_000 }, 10_000, rawOnly), "taken");
    assert.equal(outcome({ code: 2, byteLength: maxEncodedBytes(10_000) }), "taken");
    assert.equal(outcome({ code: 3, byteLength: 1, against: id("a"), previous: id("b") }), "taken");
    assert.equal(outcome({ code: 1, byteLength: 0, against: id("b") }), "taken");
    const second: AllowedCoding = { ...allowed, codec: 2 };
    assert.equal(outcome({ code: 7, byteLength: 50, against: id("a") }, 10_000, second), "taken");
    assert.equal(maxEncodedBytes(10_000), 10_010);
    const many = [..."abcdef01"].map(id);
    const third: AllowedCoding = { ...second, tensors: new Set(many) };
    const [against, previous, ...references] = many;
    assert.equal(outcome({ code: 7, byteLength: 50, against, previous, references }, 10_000, third), "taken");
  });
  it("are refused where they name a tensor twice, or a third without a second", () => {
    const many: AllowedCoding = { codec: 2, tensors: new Set([..."abcdef01"].map(id)) };
    for (const named of [
      { against: id("a"), previous: id("b"), references: [id("a")] },
      { against: id("a"), previous: id("b"), references: [id("c"), id("c")] },
      { against: id("a"), previous: id("b"), references: [id("9")] },
      { against: id("a"), references: [id("c")] },
    ])
      assert.equal(outcome({ code: 7, byteLength: 50, ...named }, 10_000, many), "TRANSFER_MANIFEST_INVALID");
  });
  it("are refused with a typed error elsewhere", () => {
    for (const [encoding, rawBytes = 10_000, by = allowed] of [
      [{ code: 2, byteLength: 10_011 }],
      [{ code: 7, byteLength: 50, against: id("a") }],
      [{ code: 0, byteLength: 9_999 }],
      [{ code: 0, byteLength: 10_000, against: id("a") }],
      [{ code: 1, byteLength: 1, against: id("a") }],
      [{ code: 1, byteLength: 0 }],
      [{ code: 2, byteLength: 5, against: id("c") }],
      [{ code: 2, byteLength: 5, against: id("a"), previous: id("c") }],
      [{ code: 2, byteLength: 5, previous: id("a") }],
      [{ code: 2, byteLength: 5 }, 10_000, rawOnly],
      [{ code: 2, byteLength: 5 }, maxWireCodedTensorBytes + 4],
    ] as readonly (readonly [Encoding, number?, AllowedCoding?])[])
      assert.equal(outcome(encoding, rawBytes, by), "TRANSFER_MANIFEST_INVALID", JSON.stringify(encoding));
    assert.equal(outcome({ code: 6, byteLength: 5 }), "DELTA_CODE_UNKNOWN");
    assert.equal(outcome({ code: 2 ** 31, byteLength: 5 }), "DELTA_CODE_UNKNOWN");
  });
});

describe("what a tensor is coded against", () => {
  const leaves = (...tensors: readonly string[]): LeafTable =>
    tensors.map((digit, at) => ({ path: `layer/${at}`, tensor: id(digit), dtype: "F32", shape: [1] }));
  const base = { versionId: id("8"), bases: [id("9")], leaves: leaves("1", "2", "3") };
  const before = { versionId: id("9"), bases: [], leaves: leaves("4", "2", "3") };

  it("is the base's tensor at the same path, and the predecessor's where it differs", () => {
    const found = referencesOfTensors({ bases: [id("8")], leaves: leaves("a", "b", "3", "c") }, [
      base,
      before,
    ]);
    assert.deepEqual(
      [...found],
      [
        [id("a"), { base: id("1"), previous: id("4") }],
        [id("b"), { base: id("2") }],
      ],
    );
  });
  it("needs no predecessor, and is absent where the base is not shared", () => {
    assert.deepEqual(
      [...referencesOfTensors({ bases: [id("8")], leaves: leaves("a") }, [base])],
      [[id("a"), { base: id("1") }]],
    );
    assert.deepEqual([...referencesOfTensors({ bases: [id("7")], leaves: leaves("a") }, [base, before])], []);
    assert.deepEqual([...referencesOfTensors({ bases: [], leaves: leaves("a") }, [])], []);
  });
  it("is from every base that has the path, in their order, and appears once for shared tensors", () => {
    const other = { versionId: id("7"), bases: [], leaves: leaves("5", "6", "7", "d") };
    assert.deepEqual(
      [
        ...referencesOfTensors(
          {
            bases: [id("8"), id("7")],
            leaves: [
              ...leaves("a", "a", "b"),
              { path: "layer/3", tensor: id("c"), dtype: "F32", shape: [1] },
            ],
          },
          [other, base],
        ),
      ],
      [
        [id("a"), { base: id("1"), previous: id("5") }],
        [id("b"), { base: id("3"), previous: id("7") }],
        [id("c"), { base: id("d") }],
      ],
    );
  });
  it("names all bases of an average, eight at most", () => {
    const held = [..."12345678"].map((digit) => ({ versionId: id(digit), bases: [], leaves: leaves(digit) }));
    const bases = held.map(({ versionId }) => versionId);
    const found = referencesOfTensors({ bases, leaves: leaves("a") }, held).get(id("a")) ?? {};
    assert.deepEqual(listReferences(found), bases);
  });
});

describe("a coded stream", () => {
  const one = weights([300, 200], 1);
  const tuned = fineTuned(one, 1e-4, 2);
  const onward = continueTuning(tuned, one, { share: 0.8, stepSize: 1e-5, seed: 3 });
  const counts = noiseTensor("I64", [30], 4);

  async function work(
    coder: TensorCoder,
    tensors: readonly Tensor[] = [one, tuned, onward, counts],
  ): Promise<CodingWork & { readonly ids: readonly Hash[] }> {
    const objects = memoryStore({ clock: manualClock() });
    const pack = await objects.begin();
    const ids: Hash[] = [];
    for (const tensor of tensors) ids.push(await pack.putTensor(sourceOfTensor(tensor)));
    await pack.commit();
    const [first, second, third] = ids as [Hash, Hash, Hash];
    return {
      ids,
      objects,
      coder,
      format: 1,
      tensors: ids,
      maxTensorBytes: 2 ** 24,
      references: new Map([
        [second, { base: first }],
        [third, { base: second, previous: first }],
      ]),
    };
  }
  async function bytesOf({ objects }: CodedStream): Promise<readonly Buffer[]> {
    return await Promise.all(
      objects.map(async (object) => {
        const parts: Uint8Array[] = [];
        for await (const part of object.chunks()) parts.push(part.slice());
        return Buffer.concat(parts);
      }),
    );
  }

  it("has low-rank predictions where they are looked for", async () => {
    const { base, child } = lowRankPair("F32", [64, 80], {
      split: 1,
      rank: 1,
      size: 0.01,
      noise: 0,
      seed: 8,
    });
    const coder = openTensorCoder(0);
    for (const format of [1, 2]) {
      const given = await work(coder, [base, child]);
      const files = memoryFiles();
      const spool = await openCodingSpool(files, "/t.coded", 2 ** 20, 2 ** 30);
      const { encodings } = await codeStream({ ...given, format }, spool);
      assert.equal(encodings[1]?.code === encodingCodes.lowRank, format === 2);
      await spool.remove();
    }
    await coder.close();
  });

  it("is the same from a thread and the event loop, from a file and from memory, and decodes to the tensors", async () => {
    const streams: (readonly Buffer[])[] = [];
    const encodings: (readonly Encoding[])[] = [];
    for (const [totalBytes, memoryBytes] of [
      [0, 2 ** 30],
      [Infinity, 0],
    ] as const) {
      const files = memoryFiles();
      const coder = openTensorCoder(totalBytes);
      const given = await work(coder);
      await files.makeFolder("/transfers");
      const spool = await openCodingSpool(files, "/transfers/t.coded", 2 ** 20, memoryBytes);
      const stream = await codeStream(given, spool);
      streams.push(await bytesOf(stream));
      encodings.push(stream.encodings);
      assert.equal(
        stream.byteLength,
        stream.objects.reduce((sum, { byteLength }) => sum + byteLength, 0),
      );
      assert.equal((await files.list("/transfers")).length, memoryBytes === 0 ? 1 : 0);
      await spool.remove();
      assert.deepEqual(await files.list("/transfers"), []);
      const held = new Map(
        given.ids.map((tensor, at) => [tensor, [one, tuned, onward, counts][at] as Tensor]),
      );
      for (const [at, encoding] of stream.encodings.entries()) {
        const tensor = held.get(given.ids[at] as Hash) as Tensor;
        checkEncoding(encoding, at, tensor.bytes.length, { codec: 1, tensors: new Set(given.ids) });
        const copy = (from: Hash | undefined): Tensor | undefined => {
          const found = from === undefined ? undefined : held.get(from);
          return found && { ...found, bytes: found.bytes.slice() };
        };
        const base = copy(encoding.against);
        const previous = copy(encoding.previous);
        assert.deepEqual(
          await coder.decode(
            tensor,
            { code: encoding.code, bytes: new Uint8Array(streams.at(-1)?.[at] ?? []) },
            { ...(base && { base }), ...(previous && { previous }) },
            tensor.bytes.length,
          ),
          tensor.bytes,
        );
      }
      await coder.close();
    }
    assert.deepEqual(streams[0], streams[1]);
    assert.deepEqual(encodings[0], encodings[1]);
    assert.deepEqual(
      encodings[0]?.map(({ against, previous }) => [against !== undefined, previous !== undefined]),
      [
        [false, false],
        [true, false],
        [true, true],
        [false, false],
      ],
    );
  });

  it("is about as long as estimated", async () => {
    const given = await work(openTensorCoder(0));
    const { rawBytes, codedBytes } = await estimateStream(given);
    const { byteLength } = await codeStream(
      given,
      await openCodingSpool(memoryFiles(), "/t", 2 ** 20, 2 ** 30),
    );
    assert.equal(rawBytes, 3 * one.bytes.length + counts.bytes.length);
    assert.ok(
      Math.abs(codedBytes - byteLength) < 0.08 * byteLength,
      `expected ${codedBytes} bytes, got ${byteLength}`,
    );
  });

  it("leaves large tensors raw, encodes without base when the base is gone, and stops when it is aborted", async () => {
    const given = await work(openTensorCoder(0));
    const spool = await openCodingSpool(memoryFiles(), "/t", 2 ** 20, 2 ** 30);
    assert.deepEqual(
      (await codeStream({ ...given, maxTensorBytes: 1000 }, spool)).encodings
        .map(({ code }) => code)
        .slice(0, 3),
      [0, 0, 0],
    );
    const alone = await codeStream(
      { ...given, references: new Map(given.ids.map((tensor) => [tensor, { base: id("f") }])) },
      spool,
    );
    assert.ok(alone.encodings.every(({ against }) => against === undefined));
    await assert.rejects(codeStream({ ...given, signal: AbortSignal.abort() }, spool), (error) =>
      isStemmaError(error, "INTERRUPTED"),
    );
    await assert.rejects(codeStream({ ...given, tensors: [id("e")] }, spool), (error) =>
      isStemmaError(error, "OBJECT_MISSING"),
    );
  });

  it("leaves the loop free while a large tensor is coded", async () => {
    const coder = openTensorCoder(Infinity);
    const large = weights([2000, 1500], 7);
    let turns = 0;
    let done = false;
    const coding = coder.encode(fineTuned(large, 1e-4, 8), { base: large }).finally(() => {
      done = true;
    });
    while (!done) {
      turns++;
      await new Promise((resolve) => {
        setImmediate(resolve);
      });
    }
    assert.equal((await coding).against.base, true);
    assert.ok(turns > 100, `only ${turns} turns of the event loop meanwhile`);
    await coder.close();
  });

  it("gets whatever is searched for other offsets, also where little is coded in all", async () => {
    const file = (bytes: Uint8Array): Tensor => ({ dtype: "U8", shape: [bytes.length], bytes });
    const base = Buffer.from(noiseTensor("U8", [76_800], 1).bytes);
    for (const [child, other] of [
      [base.subarray(9, 1000), Buffer.concat(Array.from({ length: 30 }, () => base))],
      [Buffer.concat([base.subarray(0, 99), base]), base],
    ] as const) {
      const coder = openTensorCoder(0);
      const [searched, estimated] = [1, 2].map(() => file(new Uint8Array(other)));
      const coding = coder.encode(file(new Uint8Array(child)), { base: searched });
      const estimating = coder.estimate(file(new Uint8Array(child)), { base: estimated });
      // They have moved to the thread.
      assert.deepEqual([searched!.bytes.length, estimated!.bytes.length], [0, 0]);
      assert.equal((await coding).code, encodingCodes.derived);
      assert.ok((await estimating).bytes < child.length);
      await coder.close();
    }
  });

  it("refuses buffers that were transferred before, and answers later requests correctly", async () => {
    const coder = openTensorCoder(Infinity);
    const given = { ...one, bytes: one.bytes.slice() };
    const first = coder.encode(given, {});
    const again = coder.encode(given, {});
    const after = coder.encode({ ...counts, bytes: counts.bytes.slice() }, {});
    await assert.rejects(again);
    assert.equal((await first).against.base, false);
    const { code, bytes } = await after;
    assert.deepEqual(await coder.decode(counts, { code, bytes }, {}, counts.bytes.length), counts.bytes);
    await coder.close();
  });

  it("fails with a typed error when its thread ends, and passes on errors of the codec", async () => {
    const coder = openTensorCoder(Infinity);
    await assert.rejects(
      coder.decode(one, { code: 2, bytes: new Uint8Array(3) }, {}, one.bytes.length),
      (error) => isStemmaError(error, "DELTA_MALFORMED"),
    );
    await assert.rejects(
      coder.decode(one, { code: 77, bytes: new Uint8Array(3) }, {}, one.bytes.length),
      (error) => isStemmaError(error, "DELTA_CODE_UNKNOWN"),
    );
    const waiting = coder.encode({ ...one, bytes: one.bytes.slice() }, {});
    await coder.close();
    await assert.rejects(waiting, (error) => isStemmaError(error, "INTERRUPTED"));
    await assert.rejects(coder.encode(one, {}), (error) => isStemmaError(error, "INTERRUPTED"));
  });
});
