/** Sizes of entries add up to the size of a pack that holds them, also where they are not decoded. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { CompactPack } from "../../../../shared/objects/compact-pack.js";
import { packFormatOf, type PackEntry } from "../../../../shared/objects/pack-entry.js";
import { packBytes, PackSum } from "../../../../shared/objects/pack-format.js";
import { sha256 } from "../../../../shared/tensor/hash.js";

const large: PackEntry = {
  id: sha256("large"),
  kind: "attachment",
  encodingCode: 0,
  epoch: 0,
  offset: 12,
  storedBytes: 2 ** 34 + 5,
  byteLength: 2 ** 34 + 5,
};
const tensor: PackEntry = {
  id: sha256("tensor"),
  kind: "tensor",
  encodingCode: 0,
  epoch: 0,
  header: { dtype: "F32", shape: [3, 4] },
  offset: 99,
  storedBytes: 48,
  byteLength: 48,
};
const rewritten: PackEntry = {
  ...tensor,
  id: sha256("rewritten"),
  epoch: 7,
  planeChecks: ["0123456789abcdef"],
};
for (const [name, entries] of Object.entries({
  "of format 1": [large, tensor],
  "of format 2": [tensor, rewritten],
}))
  test(`a pack ${name} takes what its entries add up to`, () => {
    const pack = CompactPack.of({ name: "p", bytes: packBytes(entries), entries });
    const sum = new PackSum();
    for (const at of pack.positions()) sum.add(pack.sizeAt(at));
    assert.equal(sum.count, entries.length);
    assert.equal(sum.bytes, packBytes(entries));
    assert.equal(pack.format, packFormatOf(entries));
  });

test("what stays of a pack may be of an older format", () => {
  const pack = CompactPack.of({ name: "p", bytes: 0, entries: [tensor, rewritten] });
  const [first] = pack.positions();
  const sum = new PackSum();
  sum.add(pack.sizeAt(first!));
  assert.equal(sum.bytes, packBytes([tensor]));
});
