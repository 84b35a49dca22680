/** What `model diff` finds by content, also under other names, and how little it reads for it. */
import assert from "node:assert/strict";
import { test } from "node:test";
import {
  withRelations,
  type RelationSearch,
} from "../../../../../../server/storage/repository/versions/diff-relations.js";
import type { Leaf } from "../../../../../../shared/model/model.js";
import { diffTrees, type ModelSide } from "../../../../../../shared/model/tree-diff.js";
import { zeroHash } from "../../../../../../shared/tensor/hash.js";
import { sourceOfTensor, type Hash, type Tensor } from "../../../../../../shared/tensor/tensor.js";
import { idOfTensor } from "../../../../../helpers/coded-tensors.js";
import { derivedTensors } from "../../../../../helpers/derived-models.js";
import { fineTuned, weights } from "../../../../../helpers/related-tensors.js";

const tensors = derivedTensors();
const of = (name: string): Tensor => tensors.get(name) ?? assert.fail(name);

const byId = new Map<Hash, Tensor>();
function sideOf(named: Readonly<Record<string, Tensor>>): ModelSide {
  const leaves = Object.entries(named).map(([path, tensor]): Leaf => {
    const id = idOfTensor(tensor);
    byId.set(id, tensor);
    return { path, tensor: id, dtype: tensor.dtype, shape: tensor.shape };
  });
  return { leaves, architecture: zeroHash };
}

/** The relations found, by path, and the bytes read for them. */
async function relationsOf(
  a: ModelSide,
  b: ModelSide,
  limits?: RelationSearch["limits"],
): Promise<{ readonly found: Readonly<Record<string, string>>; readonly readBytes: number }> {
  let readBytes = 0;
  const changes = await withRelations(
    {
      openTensor: (id) => {
        const tensor = byId.get(id) ?? assert.fail();
        readBytes += tensor.bytes.length;
        return sourceOfTensor(tensor);
      },
    },
    {
      changes: diffTrees(a, b).changes,
      sideA: a,
      otherBases: [],
      ...(limits === undefined ? {} : { limits }),
    },
  );
  const related = changes.filter(({ relation }) => relation !== undefined);
  return { found: Object.fromEntries(related.map(({ path, relation }) => [path, relation!])), readBytes };
}

const older = sideOf({ encoder: of("base"), other: weights([64, 48], 77) });

test("tensors under other names are named with what they follow from", async () => {
  const newer = sideOf({
    "a half": of("half"),
    "b turned": of("turned"),
    "c sorted": of("sorted"),
    "d grown": of("grown"),
    "e int8": of("int8"),
    "f trained": fineTuned(of("base"), 1e-4, 5),
    "g stranger": weights([64, 48], 78),
    other: weights([64, 48], 77),
  });
  const { found } = await relationsOf(older, newer);
  assert.deepEqual(found, {
    "a half": "from encoder: a cast to BF16",
    "b turned": "from encoder: transposed, axes [1, 0]",
    "c sorted": "from encoder: its rows in another order",
    "d grown": "from encoder: rows 64 to 67 are new",
    "e int8": "from encoder: quantised to int8, 64 scales, one for each row",
    "f trained": "from encoder: other numbers, with signs in common",
  });
});

test("no more bytes are read than the limit, and none where nothing is new", async () => {
  const many = sideOf(
    Object.fromEntries(Array.from({ length: 40 }, (_, i) => [`n${i}`, fineTuned(of("base"), 1e-3, i)])),
  );
  const limits = { tensorBytes: 2 ** 20, bytes: 10 * of("base").bytes.length };
  const bounded = await relationsOf(older, many, limits);
  assert.ok(bounded.readBytes <= limits.bytes, `${bounded.readBytes} bytes`);
  assert.ok(Object.keys(bounded.found).length > 0);
  const tiny = await relationsOf(older, many, { ...limits, tensorBytes: 100 });
  assert.deepEqual([tiny.readBytes, tiny.found], [0, {}]);
  const same = sideOf({ encoder: of("base"), renamed: weights([64, 48], 77) });
  assert.equal((await relationsOf(older, same)).readBytes, 0);
});
