/** Estimates of coded sizes: whether coding pays, and how close they are to the actual sizes. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { loadDeltaCodec } from "../../../../shared/delta/load.js";
import { encodingCodes } from "../../../../shared/delta/encoded.js";
import { KernelMemory } from "../../../../shared/delta/kernel-memory.js";
import { plainKernels } from "../../../../shared/delta/kernels/plain.js";
import { estimatePlanes } from "../../../../shared/delta/plane-segments.js";
import { encodePlanes } from "../../../../shared/delta/planes.js";
import {
  fineTuned,
  continueTuning,
  nearlyEqual,
  noiseTensor,
  weights,
} from "../../../helpers/related-tensors.js";

const codec = await loadDeltaCodec();
const base = weights([128, 96], 1);

test("a retrained model is not coded against another (ModelHub §V-B)", () => {
  const retrained = weights([128, 96], 2);
  assert.equal(codec.estimate(retrained, retrained.bytes, { base }).predictor, "none");
  assert.deepEqual(codec.encodeTensor(retrained, retrained.bytes, { base }).against, {
    base: false,
    previous: false,
  });
});

test("a fine-tuned one is, and also against the previous update if that helps", () => {
  const child = fineTuned(base, 1e-4, 3);
  const onward = continueTuning(child, base, { share: 0.9, stepSize: 1e-5, seed: 4 });
  const astray = fineTuned(child, 1e-4, 5);
  assert.equal(codec.estimate(child, child.bytes, { base }).predictor, "base");
  const { predictor, alpha64 } = codec.estimate(onward, onward.bytes, { base: child, previous: base });
  assert.equal(predictor, "extrapolated");
  assert.ok(Math.abs(alpha64 / 64 - 0.9) < 0.1, `${alpha64}`);
  assert.equal(codec.estimate(astray, astray.bytes, { base: child, previous: base }).predictor, "base");
});

test("estimated sizes are within an eighth of the actual ones", () => {
  for (const child of [
    fineTuned(base, 1e-4, 3),
    fineTuned(base, 1e-6, 3),
    nearlyEqual(base, 0.4, 6),
    weights([128, 96], 2),
  ]) {
    const { bytes } = codec.estimate(child, child.bytes, { base });
    const encoded = codec.encodeTensor(child, child.bytes, { base });
    assert.ok(
      Math.abs(bytes - encoded.bytes.length) < encoded.bytes.length / 8,
      `${bytes} expected, ${encoded.bytes.length} came`,
    );
  }
});

test("noise stays raw, equal tensors cost nothing", () => {
  const random = noiseTensor("I32", [64, 64], 7);
  assert.equal(codec.encodeTensor(random, random.bytes).code, encodingCodes.raw);
  assert.equal(codec.encodeTensor(base, base.bytes.slice(), { base }).bytes.length, 0);
});

test("a partial update costs only what changed", () => {
  const bytes = base.bytes.slice();
  bytes.set(fineTuned(base, 1e-3, 8).bytes.subarray(0, 4 * 96), 0);
  const encoded = codec.encodeTensor(base, bytes, { base });
  assert.ok(encoded.bytes.length < 4 * 96 + 250, `${encoded.bytes.length} bytes for one changed row of 128`);
});

test("mostly equal numbers take less than a bit each", () => {
  const large = weights([256, 256], 9);
  const most = [
    [0.95, 0.6],
    [0.8, 1.4],
    [0.4, 3.8],
  ] as const;
  for (const [share, limit] of most) {
    const child = nearlyEqual(large, share, 10);
    const encoded = codec.encodeTensor(child, child.bytes, { base: large });
    const bits = (8 * encoded.bytes.length) / 65_536;
    assert.ok(bits <= limit, `${share} equal: ${bits} bits a parameter`);
  }
});

test("numbers that are equal depending on their magnitude, as after training, take less than with one distribution", () => {
  const large = weights([256, 256], 9);
  for (const [step, limit] of [
    [1e-9, 1.5],
    [3e-10, 0.65],
  ] as const) {
    const child = fineTuned(large, step, 11);
    const own = new Uint32Array(child.bytes.buffer);
    const from = new Uint32Array(large.bytes.buffer);
    const counts = new Map<number, number>();
    let entropy = 0;
    own.forEach((bits, i) => {
      const k = 32 - Math.clz32(Math.abs(bits - from[i]!));
      counts.set(k, (counts.get(k) ?? 0) + 1);
      entropy += k;
    });
    for (const count of counts.values()) entropy -= count * Math.log2(count / own.length);
    const bits = 8 * codec.encodeTensor(child, child.bytes, { base: large }).bytes.length;
    assert.ok(
      bits < 0.85 * entropy && bits / own.length <= limit,
      `${bits / own.length} bits a parameter, ${entropy / own.length} by one distribution`,
    );
  }
});

test("byte planes are estimated within a tenth, without coding them", () => {
  const memory = new KernelMemory(plainKernels());
  for (const shape of [[40], [300], [512], [72, 1, 3, 3], [96, 40], [64, 128]]) {
    const own = weights(shape, 3);
    const integers = { ...own, bytes: own.bytes.map((byte, i) => (i % 4 === 0 ? byte & 15 : 0)) };
    const cases = [
      own,
      fineTuned(own, 1e-4, 4),
      nearlyEqual(own, 0.9, 5),
      integers,
      noiseTensor("F32", shape, 6),
    ];
    for (const { bytes } of cases)
      for (const from of [undefined, own.bytes]) {
        const coded = 8 * encodePlanes(memory, bytes, 4, from).length;
        const estimated = estimatePlanes(bytes, from, 4);
        assert.ok(
          Math.abs(estimated - coded) <= 0.1 * coded + 400,
          `${estimated} for ${coded}: ${shape.join()}`,
        );
      }
  }
});
