/** Properties of random streams, sample segments and dataset readers given damaged files. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import fc from "fast-check";
import "../../../helpers/property-seed.js";
import { gzipSync } from "node:zlib";
import { StemmaError } from "../../../../shared/errors.js";
import { parseIdx } from "../../../../shared/train/datasets/idx-file.js";
import { parseDischargeCsv } from "../../../../shared/train/datasets/nasa-battery.js";
import {
  decodeSegment,
  samplesOf,
  encodeSample,
  segmentMagic,
  type Sample,
} from "../../../../shared/train/datasets/sample-format.js";
import { splitByTime } from "../../../../shared/train/datasets/sample-set.js";
import { Streams } from "../../../../shared/random/streams.js";

const full = process.env["STEMMA_TEST_FULL"] === "1";
const numRuns = full ? 20_000 : 400;
const finite = fc.float({ noNaN: true, noDefaultInfinity: true });
const arbitrarySample = fc
  .record({
    id: fc
      .string({ minLength: 1, maxLength: 20 })
      .filter((text) => Buffer.from(text, "utf8").toString("utf8") === text),
    timeMs: fc.maxSafeInteger(),
    split: fc.constantFrom("train", "validation", "held-out"),
    label: fc.array(finite, { minLength: 1, maxLength: 4 }).map((label) => label.map((value) => value + 0)),
    values: fc.array(finite, { minLength: 1, maxLength: 12 }),
  })
  .map(({ values, ...rest }): Sample => ({
    ...rest,
    shape: [values.length],
    values: Float32Array.from(values),
  }));

/** Asserts that `read` returns or throws a StemmaError. */
function refusesOrReads(read: () => unknown): boolean {
  try {
    read();
    return true;
  } catch (error) {
    assert.ok(error instanceof StemmaError, String(error));
    return true;
  }
}

describe("training properties", () => {
  it("the numbers of a stream depend only on their position", () => {
    fc.assert(
      fc.property(fc.bigInt(0n, 2n ** 64n - 1n), fc.nat(50), fc.nat(200), (seed, invocation, skip) => {
        const read = new Streams(String(seed), invocation).stream("s");
        const sought = new Streams(String(seed), invocation).stream("s");
        for (let i = 0; i < skip; i++) read.word();
        sought.seek(skip);
        assert.equal(sought.word(), read.word());
      }),
      { numRuns: Math.min(numRuns, 2000) },
    );
  });

  it("a permutation holds every index once", () => {
    fc.assert(
      fc.property(fc.nat(300), fc.nat(1000), (length, seed) => {
        assert.deepEqual(
          [...new Streams(String(seed), 0).stream("p").permutation(length)].sort((a, b) => a - b),
          Array.from({ length }, (_, i) => i),
        );
      }),
      { numRuns: Math.min(numRuns, 2000) },
    );
  });

  it("a split has three parts that cover everything in order", () => {
    fc.assert(
      fc.property(
        fc.nat(100_000),
        fc.integer({ min: 1, max: 500 }),
        fc.integer({ min: 1, max: 500 }),
        (count, heldOut, validation) => {
          const { trainEnd, validationEnd } = splitByTime(count, heldOut, validation);
          assert.ok(0 <= trainEnd && trainEnd <= validationEnd && validationEnd <= count);
        },
      ),
      { numRuns },
    );
  });

  it("samples are read from a segment bit for bit", () => {
    fc.assert(
      fc.property(fc.array(arbitrarySample, { maxLength: 5 }), (samples) => {
        const decoded = decodeSegment(Buffer.concat([segmentMagic, ...samples.map(encodeSample)]));
        const { torn } = decoded;
        const read = samplesOf(decoded);
        assert.equal(torn, false);
        assert.deepEqual(
          read.map(({ values, ...rest }) => ({
            ...(JSON.parse(JSON.stringify(rest)) as object),
            values: Buffer.from(values.buffer, values.byteOffset, values.byteLength).toString("hex"),
          })),
          samples.map(({ values, ...rest }) => ({
            ...(JSON.parse(JSON.stringify(rest)) as object),
            values: Buffer.from(values.buffer).toString("hex"),
          })),
        );
      }),
      { numRuns },
    );
  });

  it("a segment cut anywhere gives a prefix of its samples, and reports its good bytes", () => {
    fc.assert(
      fc.property(fc.array(arbitrarySample, { minLength: 1, maxLength: 5 }), fc.nat(), (samples, cut) => {
        const complete = Buffer.concat([segmentMagic, ...samples.map(encodeSample)]);
        const bytes = complete.subarray(0, cut % (complete.length + 1));
        const decoded = decodeSegment(bytes);
        const { goodBytes, torn } = decoded;
        const read = samplesOf(decoded);
        assert.deepEqual(
          read.map(({ id }) => id),
          samples.slice(0, read.length).map(({ id }) => id),
        );
        assert.ok(goodBytes <= bytes.length && torn === goodBytes < bytes.length);
        assert.deepEqual(samplesOf(decodeSegment(bytes.subarray(0, goodBytes))).length, read.length);
      }),
      { numRuns },
    );
  });

  it("a reader rejects a damaged file with a typed error only", () => {
    const segment = Buffer.concat([
      segmentMagic,
      encodeSample({
        id: "a",
        timeMs: 1,
        split: "train",
        label: [1],
        shape: [2],
        values: new Float32Array(2),
      }),
    ]);
    const csv = Buffer.from(
      "循环次数,平均放电电压,平均放电温度,等压降放电时间,容量\n1,3.5,32,1600,1.8\n2,3.5,32,1590,1.7\n",
    );
    const idx = Buffer.from([0, 0, 8, 1, 0, 0, 0, 3, 1, 2, 3]);
    fc.assert(
      fc.property(
        fc.array(fc.tuple(fc.nat(), fc.nat(255)), { minLength: 1, maxLength: 6 }),
        fc.nat(),
        (edits, cut) => {
          const damaged = (bytes: Buffer): Buffer => {
            const copy = Buffer.from(bytes);
            for (const [at, value] of edits) copy[at % copy.length] = value;
            return copy.subarray(0, copy.length - (cut % 5));
          };
          refusesOrReads(() => decodeSegment(damaged(segment)));
          refusesOrReads(() => parseDischargeCsv(damaged(csv), "x.csv"));
          refusesOrReads(() => parseIdx(damaged(gzipSync(idx)), "x"));
          refusesOrReads(() => parseIdx(damaged(idx), "x"));
          refusesOrReads(() => parseIdx(gzipSync(damaged(idx)), "x"));
        },
      ),
      { numRuns },
    );
  });
});
