// A device that codes version after version in mixed bits: no chain of them gets long, because each takes seconds.
import assert from "node:assert/strict";
import { it } from "node:test";
import {
  mixedKeyframeDepth,
  putCodedTensor,
} from "../../../../../server/fleet/ingest/uploads/coded-tensors.js";
import { EarlierTensors } from "../../../../../server/fleet/ingest/uploads/earlier-tensors.js";
import { encodingCodes } from "../../../../../shared/delta/encoded.js";
import { mixedFlags, writeMixed } from "../../../../../shared/delta/mixed.js";
import { memoryStore } from "../../../../../shared/objects/memory-store.js";
import { tensorId } from "../../../../../shared/tensor/hash.js";
import {
  sourceOfTensor,
  tensorOfSource,
  type Hash,
  type Tensor,
} from "../../../../../shared/tensor/tensor.js";
import { openTensorCoder } from "../../../../../shared/wire/coding/tensor-coder.js";
import { manualClock } from "../../../../helpers/manual-clock.js";

const versionOf = (step: number): Tensor => ({
  dtype: "U8",
  shape: [64],
  bytes: Uint8Array.from({ length: 64 }, (_, i) => (i * 7 + step) & 255),
});
const id = (tensor: Tensor): Hash => tensorId(tensor, tensor.bytes);

it(`stores a tensor in mixed bits raw where more than ${mixedKeyframeDepth} must be decoded before it`, async () => {
  const store = memoryStore({ clock: manualClock() });
  const coder = openTensorCoder(0);
  const first = await store.begin();
  await first.putTensor(sourceOfTensor(versionOf(0)));
  await first.commit();
  const depths: (number | undefined)[] = [];
  for (let step = 1; step <= 6; step++) {
    const [tensor, base] = [versionOf(step), versionOf(step - 1)];
    const source = { width: 1, columns: 64, base: base.bytes };
    const bytes = writeMixed(tensor.bytes, source, mixedFlags.fromBase);
    const pack = await store.begin();
    await putCodedTensor(pack, store, new EarlierTensors(store, coder), {
      kind: "coded",
      ref: { kind: "tensor", id: id(tensor), byteLength: 64 },
      header: tensor,
      encoding: { code: encodingCodes.mixed, byteLength: bytes.length, against: id(base) },
      read: () => Promise.resolve(bytes),
    });
    await pack.commit();
    depths.push(store.encodingOf(id(tensor))?.depth);
    assert.deepEqual((await tensorOfSource(store.openTensor(id(tensor)))).bytes, tensor.bytes);
  }
  assert.deepEqual(
    depths.map((depth) => depth ?? 0),
    [1, 2, 0, 1, 2, 0],
  );
  await coder.close();
});
