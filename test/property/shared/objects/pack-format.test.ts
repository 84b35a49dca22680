/** Pack indexes and index caches: what is encoded comes back, and whatever bytes come in, there is a typed error or an index that fits. */
import assert from "node:assert/strict";
import { it } from "node:test";
import fc from "fast-check";
import { StemmaError } from "../../../../shared/errors.js";
import { objectKinds } from "../../../../shared/model/model.js";
import { decodeIndexCache, encodeIndexCache } from "../../../../shared/objects/index-cache.js";
import { checkPackHeader, decodePackIndex, decodePackTrailer, encodePackIndex, encodePackTrailer, packName, readPackIndex, type PackEntry } from "../../../../shared/objects/pack-format.js";
import { dtypes, tensorByteLength, type DType } from "../../../../shared/tensor/dtype.js";
import type { Hash } from "../../../../shared/tensor/tensor.js";

const hash = fc.uint8Array({ minLength: 32, maxLength: 32 }).map((bytes) => Buffer.from(bytes).toString("hex") as Hash);
const shape = fc.array(fc.nat({ max: 9 }), { maxLength: 5 });
const whole = (dtype: DType, dimensions: readonly number[]): boolean => { try { tensorByteLength(dtype, dimensions); return true; } catch { return false; } };
const part = fc.oneof(
  fc.record({ id: hash, kind: fc.constantFrom(...objectKinds), bytes: fc.nat({ max: 2 ** 40 }) }),
  fc.record({ id: hash, dtype: fc.constantFrom(...dtypes), shape }).filter(({ dtype, shape }) => whole(dtype, shape)).map(({ id, dtype, shape }) => ({ id, kind: "tensor" as const, header: { dtype, shape }, bytes: tensorByteLength(dtype, shape) })),
);
const entriesOf = (parts: readonly { readonly bytes: number }[]): PackEntry[] => {
  let offset = 32;
  return parts.map(({ bytes, ...rest }) => { const entry = { ...rest, representation: 0, epoch: 0, offset, storedBytes: bytes, byteLength: bytes } as unknown as PackEntry; offset += bytes; return entry; });
};
const typed = (run: () => unknown): void => { try { run(); } catch (error) { assert.ok(error instanceof StemmaError, String(error)); } };

it("gives back every index", () => {
  fc.assert(fc.property(fc.array(part, { maxLength: 20 }), (parts) => {
    const entries = entriesOf(parts);
    const index = encodePackIndex(entries);
    const indexOffset = 32 + parts.reduce((sum, { bytes }) => sum + bytes, 0);
    const name = packName(index, new Uint8Array(8));
    const trailer = decodePackTrailer(encodePackTrailer(1, indexOffset, index, entries.length), indexOffset + index.length + 64, name);
    assert.deepEqual(readPackIndex(index, trailer, name), entries);
    const pack = { name, bytes: indexOffset + index.length + 64, entries };
    assert.deepEqual([...decodeIndexCache(encodeIndexCache([pack]), new Set([name])).values()], [pack]);
  }));
});

it("answers any bytes with a typed error or an index that fits its pack", () => {
  fc.assert(fc.property(fc.array(part, { minLength: 1, maxLength: 5 }), fc.array(fc.tuple(fc.nat(), fc.nat({ max: 255 })), { maxLength: 4 }), fc.nat({ max: 200 }), (parts, changes, cut) => {
    const entries = entriesOf(parts);
    const index = encodePackIndex(entries);
    const indexOffset = 32 + parts.reduce((sum, { bytes }) => sum + bytes, 0);
    const mutated = index.slice(0, Math.max(0, index.length - (cut > 100 ? cut - 100 : 0)));
    for (const [at, byte] of changes) if (mutated.length > 0) mutated[at % mutated.length] = byte;
    typed(() => {
      for (const entry of decodePackIndex(mutated, indexOffset, "p", 1)) assert.ok(entry.offset >= 32 && entry.offset + entry.storedBytes <= indexOffset);
    });
  }));
  fc.assert(fc.property(fc.uint8Array({ maxLength: 300 }), fc.nat(), (bytes, size) => {
    typed(() => decodePackIndex(bytes, size, "p", 1));
    typed(() => decodePackTrailer(bytes.slice(0, 64), size, "p"));
    typed(() => { checkPackHeader(bytes, "p"); });
    assert.equal(decodeIndexCache(bytes, new Set()).size, 0);
  }));
});
