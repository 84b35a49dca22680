/** A layout is inherited from the nearest version whose layout is stored: that of a retired one may be collected. */
import assert from "node:assert/strict";
import { it } from "node:test";
import { layoutFrom, versionWithLayout } from "../../../../../server/services/context/inherited-layout.js";
import { layoutName } from "../../../../../shared/layouts/layout.js";
import { architectureHash } from "../../../../../shared/model/architecture.js";
import { sha256 } from "../../../../../shared/tensor/hash.js";
import type { Hash } from "../../../../../shared/tensor/tensor.js";
import { inputLayer, modelOf } from "../../../../helpers/probed-models.js";

const architecture = modelOf(inputLayer([2]));
const ids = { child: sha256("child"), base: sha256("base") };
const layouts = { child: sha256("layout of the child"), base: sha256("layout of the base") };

const versionOf = (name: keyof typeof ids, bases: readonly Hash[]) => ({
  versionId: ids[name],
  record: {
    architecture: architectureHash(architecture),
    bases,
    objects: { attachments: [{ name: layoutName, hash: layouts[name] }] },
  },
});
const [child, base] = [versionOf("child", [ids.base]), versionOf("base", [])];

/** @param stored the layouts that the store has */
const storeOf = (...stored: readonly Hash[]) => ({
  get: (id: Hash) => (id === ids.base ? base : undefined),
  objects: {
    has: (id: Hash) => stored.includes(id),
    read: () => Promise.reject(new Error("it is not there")),
  },
});

it("passes over a layout that is not stored any more", () => {
  const found = (...stored: readonly Hash[]) =>
    versionWithLayout(storeOf(...stored) as never, child as never)?.layout;
  assert.equal(found(layouts.child, layouts.base), layouts.child);
  assert.equal(found(layouts.base), layouts.base);
  assert.equal(found(), undefined);
});

it("makes a model without a layout where none is stored, instead of losing the training", async () => {
  const model = { architecture } as never;
  assert.deepEqual(await layoutFrom(storeOf() as never, child as never, model), {});
});
