/** Index entries and chains of tensors that are coded against more than two others. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { it } from "node:test";
import { linksTo } from "../../../../shared/delta/links.js";
import { Chains, linked, planRetrieval, withClosure, type Links } from "../../../../shared/objects/chains.js";
import { maxChainDepth } from "../../../../shared/objects/object-store.js";
import type { PackEntry } from "../../../../shared/objects/pack-entry.js";
import { decodePackIndex, encodePackIndex } from "../../../../shared/objects/pack-format.js";
import { sha256 } from "../../../../shared/tensor/hash.js";
import type { Hash } from "../../../../shared/tensor/tensor.js";
import { hasCode } from "../../../helpers/object-stores.js";

const id = (n: number): Hash => sha256(`tensor ${n}`);
const ids = (from: number, count: number): readonly Hash[] =>
  Array.from({ length: count }, (_, i) => id(from + i));
const entry: PackEntry = {
  id: id(0),
  kind: "tensor",
  encodingCode: 9,
  epoch: 3,
  header: { dtype: "F32", shape: [4, 2] },
  offset: 32,
  storedBytes: 5,
  byteLength: 32,
};
const decode = (index: Uint8Array): readonly PackEntry[] => decodePackIndex(index, 37, "a pack", 2);

it("writes one bit for each reference, and reads the golden entries of two and of eight", () => {
  const golden = JSON.parse(
    readFileSync(new URL("../../../../../test/vectors/delta/index-entries.json", import.meta.url), "utf8"),
  ) as readonly { readonly references: number; readonly hex: string }[];
  for (const { references, hex } of golden) {
    const own = { ...entry, ...linksTo(ids(1, references)) };
    const index = encodePackIndex([own]);
    assert.equal(Buffer.from(index).toString("hex"), hex);
    assert.deepEqual(decode(Buffer.from(hex, "hex")), [own]);
  }
  assert.deepEqual(
    golden.map(({ references }) => references),
    [1, 2, 3, 8],
  );
});

it("refuses entries whose references are more than eight, repeated or the tensor itself", () => {
  const eight = encodePackIndex([{ ...entry, ...linksTo(ids(1, 8)) }]);
  const flags = 64;
  assert.equal(eight[flags], 255);
  // A ninth has no bit; every other pattern than ones from the lowest bit is refused.
  for (const pattern of [2, 4, 5, 6, 254]) {
    const bent = eight.slice();
    bent[flags] = pattern;
    assert.throws(() => decode(bent), hasCode("PACK_CORRUPT"), String(pattern));
  }
  for (const references of [
    [...ids(1, 7), id(1)],
    [...ids(1, 7), id(0)],
    [id(0), id(1), id(2)],
  ])
    assert.throws(
      () => decode(encodePackIndex([{ ...entry, ...linksTo(references) }])),
      hasCode("PACK_CORRUPT"),
    );
});

it("follows all references: depth, cycles, closure, and the order of decoding", () => {
  const graph = new Map<Hash, Links>([
    [id(0), linksTo(ids(1, 8))],
    ...ids(1, 8).map((each, i): [Hash, Links] => [each, i === 7 ? { base: id(9) } : {}]),
    [id(9), {}],
  ]);
  const linksOf = (each: Hash): Links | undefined => graph.get(each);
  assert.equal(linked(graph.get(id(0))!).length, 8);
  assert.equal(new Chains(linksOf).state(id(0)), 2);
  assert.equal(withClosure([id(0)], linksOf).size, 10);
  const steps = planRetrieval(
    id(0),
    (each) => graph.get(each)!,
    () => false,
  ).map((step) => step.id);
  assert.equal(steps.length, 10);
  assert.equal(steps.at(-1), id(0));
  assert.ok(steps.indexOf(id(9)) < steps.indexOf(id(8)));
  graph.set(id(9), linksTo([id(1), id(2), id(0)]));
  assert.deepEqual(new Chains(linksOf).state(id(0)), { why: "cyclic", id: id(9) });
  graph.delete(id(9));
  assert.deepEqual(new Chains(linksOf).state(id(0)), { why: "missing", id: id(9) });
});

it("counts the longest chain through any of the references", () => {
  const chain =
    (length: number) =>
    (each: Hash): Links | undefined => {
      const n = numbers.get(each)!;
      return n === length
        ? {}
        : linksTo([id(length), ...(n + 2 <= length ? [id(length - 1), id(n + 1)] : [])]);
    };
  const numbers = new Map(ids(0, 40).map((each, n) => [each, n]));
  assert.equal(new Chains(chain(maxChainDepth)).state(id(0)), maxChainDepth);
  const state = new Chains(chain(maxChainDepth + 1)).state(id(0));
  assert.ok(typeof state !== "number" && state.why === "too-long");
});
