/** Descendants and declared successors of a fleet, before and after it is opened again. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { memoryHome, modelOf, openRepository, tensorsOf } from "./harness.js";

test("descendants and successors are the same after the fleet is opened again", async () => {
  const { home } = await memoryHome();
  let repository = await openRepository(home, "fleet-a");
  const save = async (name: string, options: { bases?: readonly string[]; successorOf?: string } = {}) =>
    (await repository.save(modelOf(tensorsOf(name, 1)), { name, ...(options as object) })).summary.versionId;
  const root = await save("root");
  const left = await save("left", { bases: [root] });
  const right = await save("right", { bases: [root], successorOf: left });
  const leaf = await save("leaf", { bases: [left] });
  const declare = async (successor: typeof root, removed = false): Promise<unknown> =>
    repository.append({
      type: "succeeded",
      atMs: 1,
      versionId: left,
      successor,
      ...(removed ? { removed: true } : {}),
      because: "why",
    });
  await declare(leaf);
  await assert.rejects(
    repository.append({ type: "succeeded", atMs: 1, versionId: leaf, successor: left, because: "" }),
    { code: "NOT_ALLOWED" },
  );
  await repository.retire(leaf, "gone");
  for (const round of ["as it was saved", "opened again"]) {
    assert.deepEqual(
      repository
        .descendants(root)
        .descendants.map(({ version, generation }) => `${version.name} ${generation} ${version.state}`),
      ["left 1 recorded", "right 1 recorded", "leaf 2 retired"],
      round,
    );
    assert.equal(repository.commonAncestor(leaf, right)?.version.versionId, root);
    assert.deepEqual(
      repository.successors(left).map(({ versionId, declared }) => [versionId, declared?.because]),
      [
        [right, undefined],
        [leaf, "why"],
      ],
    );
    assert.deepEqual(
      repository.predecessors(right).map(({ versionId }) => versionId),
      [left],
    );
    await repository.close();
    repository = await openRepository(home, "fleet-a");
  }
  await declare(right, true);
  assert.deepEqual(
    repository.successors(left).map(({ versionId }) => versionId),
    [leaf],
  );
  assert.deepEqual(repository.predecessors(right), []);
  await repository.close();
});
