/** A layout that a device announces is its base's: it cannot say which tensor of a file another weight is. */
import assert from "node:assert/strict";
import { it } from "node:test";
import { requireLayoutOfBase } from "../../../../../server/fleet/ingest/uploads/announced-layout.js";
import { sumOf } from "../../../../../shared/layouts/addends.js";
import { encodeLayout, layoutName, type LayoutTensor } from "../../../../../shared/layouts/layout.js";
import type { Leaf, SaveRecord } from "../../../../../shared/model/model.js";
import { objectId, sha256, tensorId } from "../../../../../shared/tensor/hash.js";
import type { Hash } from "../../../../../shared/tensor/tensor.js";

const header = { dtype: "F32", shape: [2, 2] } as const;
const float = (...numbers: number[]): Uint8Array => new Uint8Array(Float32Array.from(numbers).buffer);
const [first, second] = [float(1, 2, 3, 4), float(0.5, 0.5, 0.5, 0.5)];
const leaf = (path: string, bytes: Uint8Array): Leaf => ({
  path,
  ...header,
  tensor: tensorId(header, bytes),
});
/** Two weights of one form, and one that is the sum of two tensors. */
const leaves = [leaf("0/0", first), leaf("0/1", first), leaf("0/2", sumOf(first, second))];
const added = (kept: Uint8Array, difference: Uint8Array): readonly LayoutTensor[] => [
  { name: "bias_ih", ...header, leaf: 2, addend: "difference", bytes: difference },
  { name: "bias_hh", ...header, leaf: 2, addend: "kept", bytes: kept },
];
const weights: readonly LayoutTensor[] = [
  { name: "a", ...header, leaf: 0, order: { as: [2, 2], axes: [1, 0] } },
  { name: "b", ...header, leaf: 1 },
  { name: "count", ...header, bytes: float(0, 0, 0, 0) },
];
const encoded = (tensors: readonly LayoutTensor[]): Uint8Array =>
  encodeLayout({ root: sha256("root"), tensors });
const ofBase = encoded([...weights, ...added(second, first)]);

interface Ancestors {
  /** The layout of the base; null: it has none. */
  readonly base?: Uint8Array | null;
  readonly isBaseStored?: boolean;
  /** The layout of the base's own base, which is stored; null: there is none. */
  readonly before?: Uint8Array | null;
}

/** @returns the error's code; undefined where the layout is taken */
async function codeOf(
  layout: Uint8Array,
  { base = ofBase, isBaseStored = true, before = null }: Ancestors = {},
): Promise<string | undefined> {
  const idOf = (bytes: Uint8Array): Hash => objectId("attachment", bytes);
  const recordOf = (bytes: Uint8Array | null, bases: readonly Hash[]): SaveRecord => {
    const attachments = bytes === null ? [] : [{ name: layoutName, hash: idOf(bytes) }];
    return { architecture: sha256("network"), bases, objects: { attachments } } as unknown as SaveRecord;
  };
  const [baseId, beforeId] = [sha256("base"), sha256("before")];
  const records = new Map([
    [baseId, recordOf(base, [beforeId])],
    [beforeId, recordOf(before, [])],
  ]);
  const stored = new Map(
    [isBaseStored ? base : null, before].flatMap((one) => (one ? [[idOf(one), one]] : [])),
  );
  const repository = {
    get: (id: Hash) => ({ record: records.get(id) }),
    claim: () => undefined,
    objects: {
      has: (id: Hash) => stored.has(id),
      read: (_: string, id: Hash) => Promise.resolve(stored.get(id)),
    },
  };
  try {
    await requireLayoutOfBase(repository as never, recordOf(layout, [baseId]), leaves, () => layout);
    return undefined;
  } catch (error) {
    return (error as { readonly code?: string }).code;
  }
}

it("takes what a file in the base's layout has: other values beside the weights, two tensors that give the sum", async () => {
  assert.equal(await codeOf(ofBase), undefined);
  const [a, b, count] = weights as [LayoutTensor, LayoutTensor, LayoutTensor];
  const other = { ...count, bytes: float(7, 7, 7, 7) };
  assert.equal(await codeOf(encoded([b, other, ...added(first, second), a])), undefined);
  // What was trained since does not give the sum exactly.
  assert.equal(await codeOf(encoded([...weights, ...added(second, float(9, 9, 9, 9))])), undefined);
});

it("refuses weights in each other's places, other axes or names, and a sum that hides the weight", async () => {
  const [a, b, count] = weights as [LayoutTensor, LayoutTensor, LayoutTensor];
  const sum = added(second, first);
  for (const lie of [
    [{ ...a, leaf: 1 }, { ...b, leaf: 0 }, count, ...sum],
    [{ name: "a", ...header, leaf: 0 }, b, count, ...sum],
    [{ ...a, name: "c" }, b, count, ...sum],
    [a, b, ...sum],
    [a, b, count, ...added(float(1e30, 1e30, 1e30, 1e30), first)],
  ] as readonly LayoutTensor[][])
    assert.equal(await codeOf(encoded(lie)), "ARCHITECTURE_MISMATCH");
});

it("refuses other gates, or biases in each other's places", async () => {
  const blocks = (...order: readonly number[]): object => ({
    order: { as: [2, 1], axes: [0, 1], blocks: order },
  });
  const bias = (name: string, at: number, order: object): LayoutTensor => ({
    ...{ name, dtype: "F32", shape: [2], leaf: 1, part: { at, of: 2 }, ...order },
  });
  const [a, , count] = weights as [LayoutTensor, LayoutTensor, LayoutTensor];
  const of = (...biases: readonly LayoutTensor[]): Uint8Array =>
    encoded([a, count, ...biases, ...added(second, first)]);
  const [input, state] = [bias("ih", 0, blocks(1, 0)), bias("hh", 1, blocks(1, 0))];
  const base = of(input, state);
  assert.equal(await codeOf(of(state, input), { base }), undefined);
  for (const lie of [
    of(bias("ih", 1, blocks(1, 0)), bias("hh", 0, blocks(1, 0))),
    of(input, bias("hh", 1, blocks(0, 1))),
    of(input, bias("hh", 1, {})),
  ])
    assert.equal(await codeOf(lie, { base }), "ARCHITECTURE_MISMATCH");
});

it("compares with the version before, where the base's layout is collected; refuses where there is none", async () => {
  const [a, b, count] = weights as [LayoutTensor, LayoutTensor, LayoutTensor];
  const lie = encoded([{ ...a, leaf: 1 }, { ...b, leaf: 0 }, count, ...added(second, first)]);
  const collected = { isBaseStored: false, before: encoded([...weights, ...added(second, second)]) };
  assert.equal(await codeOf(ofBase, collected), undefined);
  assert.equal(await codeOf(lie, collected), "ARCHITECTURE_MISMATCH");
  assert.equal(await codeOf(ofBase, { base: null }), "ARCHITECTURE_MISMATCH");
  assert.equal(await codeOf(ofBase, { isBaseStored: false }), "ARCHITECTURE_MISMATCH");
});
