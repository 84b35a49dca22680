/** A version from a base and a file that holds only some of its tensors. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { completeModel } from "../../../../shared/save/partial-model.js";
import type { TensorSource } from "../../../../shared/tensor/tensor.js";
import {
  memoryHome,
  modelOf,
  openRepository,
  tensorsOf,
} from "../../../integration/server/storage/repository/harness.js";

const base = modelOf(tensorsOf("base", 3));
const other = tensorsOf("other", 3);
const unread = (): TensorSource => ({
  dtype: "F32",
  shape: [],
  byteLength: 0,
  chunks: () => assert.fail("a tensor of the base was read"),
});

test("stores only the bytes of the tensors that were given, and reads none of the base", async () => {
  const { home } = await memoryHome();
  const repository = await openRepository(home, "fleet-a");
  const first = await repository.save(base, { name: "m" });
  const part = other.slice(2, 3);
  const model = completeModel(modelOf(part), base, unread);
  const report = await repository.save(model, { name: "m", bases: [first.summary.versionId] });
  assert.equal(report.newTensorBytes, part[0]?.bytes.length);
  assert.deepEqual([report.approach, report.changed], ["update", 1]);
  const { leaves } = await repository.recover(report.summary.versionId);
  const expected = base.leaves.map((leaf) =>
    leaf.path === part[0]?.name ? (modelOf(part).leaves[0]?.tensor ?? "") : leaf.tensor,
  );
  assert.deepEqual(
    leaves.map(({ tensor }) => tensor),
    expected,
  );
  await repository.close();
});

test("refuses tensors that the base does not have, has in another form, or that come twice", () => {
  const [kernel] = other;
  assert.ok(kernel);
  const refuse = (...tensors: readonly (typeof kernel)[]): void => {
    assert.throws(() => completeModel(modelOf(tensors), named, unread), { code: "ARCHITECTURE_MISMATCH" });
  };
  const named = { ...base, names: { leaves: base.leaves.map(({ path }) => `shown ${path}`) } };
  refuse({ ...kernel, name: "none" });
  refuse({ ...kernel, shape: [kernel.bytes.length / 4] });
  refuse(kernel, { ...kernel, name: `shown ${kernel.name}` });
  assert.equal(
    completeModel(modelOf([{ ...kernel, name: `shown ${kernel.name}` }]), named, unread).leaves.length,
    6,
  );
});
