/** Which stored data go, and which bytes that frees. */
import assert from "node:assert/strict";
import { test } from "node:test";
import {
  planDataDrops,
  type VersionWithData,
} from "../../../../../../server/storage/repository/retention/data-drop-plan.js";
import { sha256 } from "../../../../../../shared/tensor/hash.js";

const version = (
  name: string,
  chunks: Readonly<Record<string, number>>,
  stays?: string,
): VersionWithData => ({
  versionId: sha256(name),
  chunks: Object.entries(chunks).map(([id, bytes]) => ({ id: sha256(id), bytes })),
  stays,
});

test("a chunk that another version or something else needs is not freed", () => {
  const grown = version("grown", { a: 100, b: 10 });
  const first = version("first", { a: 100 });
  const kept = version("kept", { b: 10, c: 1 }, "not proved");
  const all = [first, grown, kept];
  const { drop, keep } = planDataDrops(all, () => true, []);
  assert.deepEqual(
    drop.map(({ version: each, dataBytes, freedBytes }) => [each, dataBytes, freedBytes]),
    [
      [first, 100, 100],
      [grown, 110, 0],
    ],
  );
  assert.deepEqual(keep, [{ version: kept, because: "not proved" }]);
  const one = planDataDrops(all, (each) => each === first, []);
  assert.equal(one.drop[0]?.freedBytes, 0, "the other one, which nobody asked for, needs it");
  const held = planDataDrops([first], () => true, [sha256("a")]);
  assert.equal(held.drop[0]?.freedBytes, 0, "registered data need it");
});
