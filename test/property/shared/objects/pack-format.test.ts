/**
 * Pack indexes of both formats and index caches: what is encoded is decoded again, and any bytes give a typed error
 * or a consistent index.
 */
import assert from "node:assert/strict";
import { it } from "node:test";
import fc from "fast-check";
import "../../../helpers/property-seed.js";
import { linksTo } from "../../../../shared/delta/links.js";
import { StemmaError } from "../../../../shared/errors.js";
import { objectKinds } from "../../../../shared/model/model.js";
import { CompactPack } from "../../../../shared/objects/compact-pack.js";
import { decodeIndexCache, encodeIndexCache } from "../../../../shared/objects/index-cache.js";
import { packFormatOf, type PackEntry } from "../../../../shared/objects/pack-entry.js";
import {
  checkPackHeader,
  decodePackIndex,
  decodePackTrailer,
  encodePackIndex,
  encodePackTrailer,
  packBytes,
  packName,
  checkPackIndex,
} from "../../../../shared/objects/pack-format.js";
import { dtypes, tensorByteLength, type DType } from "../../../../shared/tensor/dtype.js";
import type { Hash } from "../../../../shared/tensor/tensor.js";

const hash = fc
  .uint8Array({ minLength: 32, maxLength: 32 })
  .map((bytes) => Buffer.from(bytes).toString("hex") as Hash);
const shape = fc.array(fc.nat({ max: 9 }), { maxLength: 5 });
const whole = (dtype: DType, dimensions: readonly number[]): boolean => {
  try {
    tensorByteLength(dtype, dimensions);
    return true;
  } catch {
    return false;
  }
};
const tensor = fc
  .record({ id: hash, dtype: fc.constantFrom(...dtypes), shape })
  .filter(({ dtype, shape: of }) => whole(dtype, of))
  .map(({ id, dtype, shape: of }) => ({
    id,
    kind: "tensor" as const,
    header: { dtype, shape: of },
    bytes: tensorByteLength(dtype, of),
  }));
const small = fc.record({ id: hash, kind: fc.constantFrom(...objectKinds), bytes: fc.nat({ max: 2 ** 40 }) });
const epoch = fc.oneof(fc.constant(0), fc.nat({ max: 2 ** 31 }));
const check = fc
  .uint8Array({ minLength: 8, maxLength: 8 })
  .map((bytes) => Buffer.from(bytes).toString("hex"));
const coded = fc
  .record({
    tensor,
    storedBytes: fc.nat({ max: 10_000 }),
    encodingCode: fc.integer({ min: 1, max: 255 }),
    epoch,
    references: fc.uniqueArray(hash, { maxLength: 8 }),
    checks: fc.array(check, { maxLength: 7 }),
  })
  .map(({ tensor: of, references, checks, ...how }) => ({
    ...of,
    ...how,
    ...linksTo(references),
    ...(checks.length > 0 && { planeChecks: checks }),
  }));
const rawPart = fc.oneof(small, tensor);
const anyPart = fc.oneof(
  rawPart,
  coded,
  fc.record({ of: rawPart, epoch }).map(({ of, epoch: at }) => ({ ...of, epoch: at })),
);
const parts = fc.oneof(fc.array(rawPart, { maxLength: 20 }), fc.array(anyPart, { maxLength: 20 }));

function entriesOf(given: readonly ({ readonly bytes: number } & Partial<PackEntry>)[]): PackEntry[] {
  let offset = 32;
  return given.map(({ bytes, storedBytes = bytes, ...rest }) => {
    const entry = {
      encodingCode: 0,
      epoch: 0,
      ...rest,
      offset,
      storedBytes,
      byteLength: bytes,
    } as PackEntry;
    offset += storedBytes;
    return entry;
  });
}
const endOf = (entries: readonly PackEntry[]): number =>
  entries.reduce((end, { storedBytes }) => end + storedBytes, 32);
const typed = (run: () => unknown): void => {
  try {
    run();
  } catch (error) {
    assert.ok(error instanceof StemmaError, String(error));
  }
};

it("decodes every index, written in the oldest format that can express it", () => {
  fc.assert(
    fc.property(parts, (given) => {
      const entries = entriesOf(given);
      const index = encodePackIndex(entries);
      const indexOffset = endOf(entries);
      const format = packFormatOf(entries);
      assert.equal(
        format === 1,
        entries.every((entry) => entry.encodingCode === 0 && entry.epoch === 0),
      );
      const name = packName(index, new Uint8Array(8));
      const bytes = indexOffset + index.length + 64;
      assert.equal(packBytes(entries), bytes);
      const trailer = decodePackTrailer(
        encodePackTrailer(format, indexOffset, index, entries.length),
        bytes,
        name,
      );
      assert.equal(trailer.format, format);
      assert.equal(checkPackIndex(index, trailer, name), entries.length);
      assert.deepEqual(decodePackIndex(index, trailer.indexOffset, name, trailer.format), entries);
      const pack = CompactPack.of({ name, bytes, entries });
      const cached = decodeIndexCache(encodeIndexCache([pack]), new Set([name])).get(name);
      for (const each of [pack, cached]) {
        assert.deepEqual(each?.entries, entries);
        assert.equal(each?.count, entries.length);
        assert.equal(each?.bytes, bytes);
      }
    }),
  );
});

it("answers any bytes with a typed error or an index that fits its pack", () => {
  fc.assert(
    fc.property(
      parts,
      fc.array(fc.tuple(fc.nat(), fc.nat({ max: 255 })), { maxLength: 4 }),
      fc.nat({ max: 200 }),
      fc.constantFrom(1 as const, 2 as const),
      (given, changes, cut, format) => {
        const entries = entriesOf(given);
        const index = encodePackIndex(entries);
        const indexOffset = endOf(entries);
        const mutated = index.slice(0, Math.max(0, index.length - (cut > 100 ? cut - 100 : 0)));
        for (const [at, byte] of changes) if (mutated.length > 0) mutated[at % mutated.length] = byte;
        typed(() => {
          for (const entry of decodePackIndex(mutated, indexOffset, "p", format)) {
            assert.ok(entry.offset >= 32 && entry.offset + entry.storedBytes <= indexOffset);
            assert.ok(
              entry.encodingCode === 0
                ? entry.storedBytes === entry.byteLength
                : entry.kind !== "tensor" || entry.byteLength <= 2 ** 30,
            );
            assert.ok(entry.previous === undefined || entry.base !== undefined);
            assert.ok(entry.base === undefined || (entry.kind === "tensor" && entry.encodingCode !== 0));
          }
        });
      },
    ),
    { numRuns: process.env["STEMMA_TEST_FULL"] === "1" ? 20_000 : 500 },
  );
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 300 }), fc.nat(), (bytes, size) => {
      typed(() => decodePackIndex(bytes, size, "p", 1));
      typed(() => decodePackIndex(bytes, size, "p", 2));
      typed(() => decodePackTrailer(bytes.slice(0, 64), size, "p"));
      typed(() => {
        checkPackHeader(bytes, "p");
      });
      assert.equal(decodeIndexCache(bytes, new Set()).size, 0);
    }),
  );
});
