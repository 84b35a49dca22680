/** Files whose bytes are those of others at other offsets: artefacts that were made again with another header. */
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import "../../../helpers/property-seed.js";
import { describeRelation } from "../../../../shared/delta/derived/describe.js";
import { findRuns } from "../../../../shared/delta/derived/find-runs.js";
import { encodingCodes } from "../../../../shared/delta/encoded.js";
import type { Tensor } from "../../../../shared/tensor/tensor.js";
import { plain, roundTrip, wasm } from "../../../helpers/codec-round-trip.js";
import { noiseBytes } from "../../../helpers/noise-bytes.js";
import { fineTuned, weights } from "../../../helpers/related-tensors.js";

const file = (...parts: readonly (Uint8Array | string)[]): Tensor => {
  const bytes = Buffer.concat(parts.map((part) => Buffer.from(part as Uint8Array)));
  return { dtype: "U8", shape: [bytes.length], bytes };
};
const [one, two, three] = [1, 2, 3].map((seed) => weights([32, 64], seed)) as [Tensor, Tensor, Tensor];
const before = file("ONNX by 1.0", one.bytes, "node.weight", two.bytes, "end");

/** Quantised weights, of which about one in ten has changed. */
function codes(seed: number, areTrained: boolean): Uint8Array {
  const changes = noiseBytes(32 * 64 * 4, seed + 1);
  return noiseBytes(changes.length, seed).map((byte, at) =>
    areTrained && changes[at]! < 25 ? byte ^ 1 : byte,
  );
}

test("where a header grew, names are longer and parts changed places, only the new bytes are coded", () => {
  const all: readonly (readonly [Tensor, number])[] = [
    [file("ONNX by 1.0.1, exported", one.bytes, "node.weight", two.bytes, "end"), 60],
    [file("ONNX by 1.0.1", one.bytes, "backbone.node.weight", two.bytes, "end"), 70],
    [file("ONNX by 1.0.1", two.bytes, "node.weight", one.bytes, "end"), 70],
    [file("ONNX by 1.0", two.bytes, "node.weight", one.bytes, "end"), 60],
    [file(two.bytes), 12],
    [file("x", one.bytes, "node.weight", two.bytes, "end", three.bytes), 32 * 64 * 4 + 60],
  ];
  for (const [tensor, maxBytes] of all) {
    const { code, bytes } = roundTrip(tensor, { base: before });
    assert.equal(code, encodingCodes.derived);
    assert.ok(bytes.length <= maxBytes, `${bytes.length} bytes, more than ${maxBytes}`);
    if (tensor.bytes.length === before.bytes.length) continue;
    const expected = wasm.estimate(tensor, tensor.bytes, { base: before }).bytes;
    assert.ok(expected <= bytes.length + 100, `${expected} bytes are expected instead of ${bytes.length}`);
  }
});

test("trained floats and codes follow at other offsets, too", () => {
  for (const [old, now, share] of [
    [one.bytes, fineTuned(one, 1e-4, 9).bytes, 0.9],
    [codes(5, false), codes(5, true), 0.2],
  ] as const) {
    const { code, bytes } = roundTrip(file("ONNX, exported", now, "end"), { base: file("ONNX", old, "end") });
    assert.equal(code, encodingCodes.derived);
    assert.ok(bytes.length < share * old.length, `${bytes.length} of ${old.length} bytes`);
  }
});

test("bytes in a Buffer are not changed, and are encoded as those in an array", () => {
  for (const options of [{}, { mixed: false }, { layout: "fixed" }] as const) {
    const [child, base] = [codes(5, true), codes(5, false)];
    const buffers = [child, base].map((bytes) => Buffer.from(bytes)) as [Buffer, Buffer];
    const encode = (own: Uint8Array, other: Uint8Array): Uint8Array =>
      wasm.encodeTensor(file(own), own, { base: { ...file(other), bytes: other } }, options).bytes;
    assert.deepEqual(encode(...buffers), encode(child, base));
    assert.deepEqual(buffers, [Buffer.from(codes(5, true)), Buffer.from(codes(5, false))]);
  }
});

test("a relation of bytes is told, and whether it is exact", () => {
  const longer = file("ONNX by 1.0.1", one.bytes, "node.weight", two.bytes, "end");
  const told = describeRelation(longer, [before]) ?? "";
  assert.match(told, /^its rows 11 to 16,408, rows 0 to 12 are new$/);
  const tuned = file("ONNX by 1.0.1", fineTuned(one, 1e-4, 9).bytes, "node.weight", two.bytes, "end");
  assert.match(describeRelation(tuned, [before]) ?? "", /^mostly its rows/);
});

test("files that have nothing in common, or are short or uniform, do not follow", () => {
  const zeros = new Uint8Array(5000);
  for (const [child, base] of [
    [noiseBytes(5000, 1), noiseBytes(6000, 2)],
    [zeros, new Uint8Array(4000).fill(1)],
    [noiseBytes(63, 1), noiseBytes(63, 1)],
    [new Uint8Array(0), noiseBytes(500, 1)],
    [noiseBytes(500, 1), new Uint8Array(0)],
  ] as const)
    assert.deepEqual(findRuns(child, base), []);
});

test("cut, moved, repeated and changed pieces of a base come back bit for bit", () => {
  const base = file(
    noiseBytes(3000, 7),
    one.bytes.subarray(0, 4000),
    new Uint8Array(2000),
    noiseBytes(1000, 8),
  );
  const piece = fc.oneof(
    fc
      .tuple(fc.nat(base.bytes.length), fc.nat(3000))
      .map(([at, length]) => base.bytes.subarray(at, at + length)),
    fc.uint8Array({ maxLength: 200 }),
    fc.nat(500).map((length) => new Uint8Array(length)),
  );
  fc.assert(
    fc.property(fc.array(piece, { maxLength: 6 }), (pieces) => {
      const child = file(...pieces);
      let end = 0;
      for (const { from, length } of findRuns(child.bytes, base.bytes)) {
        assert.ok(length > 0 && from + length <= base.bytes.length);
        end += length;
      }
      assert.ok(end === 0 || end === child.bytes.length);
      const options = { general: false, derived: true };
      const encoded = wasm.encodeTensor(child, child.bytes, { base }, options);
      for (const codec of [wasm, plain])
        assert.deepEqual(
          Buffer.from(codec.decodeTensor(child, encoded, { base }, child.bytes.length)),
          Buffer.from(child.bytes),
        );
    }),
  );
});
