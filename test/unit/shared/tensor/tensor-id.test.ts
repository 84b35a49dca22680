/** Tensor and object identities against golden vectors. */
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { asyncIterableOf } from "../../../../shared/tensor/async-iterable.js";
import { isStemmaError } from "../../../../shared/errors.js";
import { dtypes, type DType } from "../../../../shared/tensor/dtype.js";
import {
  hashBytes,
  hexOf,
  isHash,
  objectId,
  sha256,
  Sha256,
  tensorId,
  tensorIdOfSource,
} from "../../../../shared/tensor/hash.js";
import { sourceOfTensor, type TensorSource } from "../../../../shared/tensor/tensor.js";
import { unhex, vectors } from "../model/vectors.js";

interface TensorVector {
  readonly what: string;
  readonly dtype: DType;
  readonly shape: number[];
  readonly bytes: string;
  readonly id: string;
}
const golden = vectors<TensorVector[]>("tensor-ids.json");

describe("tensor id", () => {
  for (const { what, dtype, shape, bytes, id } of golden) {
    test(what, async () => {
      const tensor = { dtype, shape, bytes: unhex(bytes) };
      assert.equal(tensorId(tensor, tensor.bytes), id);
      assert.equal(await tensorIdOfSource(sourceOfTensor(tensor)), id);
    });
  }

  test("the vectors have every dtype, and no two ids are equal", () => {
    assert.deepEqual([...new Set(golden.map(({ dtype }) => dtype))].sort(), [...dtypes].sort());
    assert.equal(new Set(golden.map(({ id }) => id)).size, golden.length);
  });

  test("a byte count that does not fit the shape is refused, in memory and as a stream", async () => {
    const mismatch = (error: unknown): boolean => isStemmaError(error, "TENSOR_SIZE_MISMATCH");
    const stream = (...pieces: number[]): TensorSource => ({
      dtype: "F32",
      shape: [2],
      byteLength: 8,
      chunks: () => asyncIterableOf(pieces.map((length) => new Uint8Array(length))),
    });
    assert.throws(() => tensorId({ dtype: "F32", shape: [2] }, new Uint8Array(7)), mismatch);
    await assert.rejects(tensorIdOfSource(stream(4, 3)), mismatch);
    await assert.rejects(tensorIdOfSource(stream(4, 4, 1)), mismatch);
    assert.equal(
      await tensorIdOfSource(stream(3, 5)),
      tensorId({ dtype: "F32", shape: [2] }, new Uint8Array(8)),
    );
  });

  test("an invalid shape is refused before its prefix is written", () => {
    for (const shape of [[-1], [0.5], [2 ** 53], [2 ** 30, 2 ** 30], new Array<number>(33).fill(1)]) {
      assert.throws(
        () => tensorId({ dtype: "F32", shape }, new Uint8Array(0)),
        (error) => isStemmaError(error, "SHAPE_INVALID") || isStemmaError(error, "TENSOR_TOO_LARGE"),
      );
    }
    assert.throws(
      () => tensorId({ dtype: "F4", shape: [3] }, new Uint8Array(2)),
      (error) => isStemmaError(error, "SHAPE_INVALID"),
    );
  });
});

describe("hashes", () => {
  test("objects are named by kind and bytes", () => {
    for (const { kind, bytes, id } of ["object-ids.json", "object-ids-2.json"].flatMap((name) =>
      vectors<{ kind: string; bytes: string; id: string }[]>(name),
    ))
      assert.equal(objectId(kind, unhex(bytes)), id);
  });
  test("SHA-256 of nothing, of text, and in pieces", () => {
    assert.equal(sha256(), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    assert.equal(sha256("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    assert.equal(new Sha256().update("a").update(Uint8Array.of(0x62)).update("c").digest(), sha256("abc"));
  });
  test("bytes and digits convert, and only 64 lower-case digits are a hash", () => {
    const hash = sha256("abc");
    assert.equal(hexOf(hashBytes(hash)), hash);
    assert.ok(isHash(hash));
    for (const other of [hash.toUpperCase(), hash.slice(1), `${hash}0`, `${hash}\n`, 7, null])
      assert.equal(isHash(other), false);
  });
});
