/** Recovering some layers of a model: which tensors a pattern selects, and that no other tensor is read. */
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import type { Leaf } from "../../../../shared/model/model.js";
import type { ObjectReader } from "../../../../shared/objects/object-store.js";
import { recoverModel } from "../../../../shared/recover/recover-model.js";
import { safetensorsOfModel } from "../../../../shared/recover/recovered-file.js";
import { selectLeaves } from "../../../../shared/recover/selected-leaves.js";
import { sha256 } from "../../../../shared/tensor/hash.js";
import { tensorOfSource, type Hash } from "../../../../shared/tensor/tensor.js";
import { withOverrides } from "../../../helpers/with-overrides.js";
import { hex } from "../model/vectors.js";
import { clock, Line, opaque, refusal, tensor } from "./saved-line.js";

const leavesOf = (paths: readonly string[]): readonly Leaf[] =>
  paths.map((path) => ({ path, dtype: "F32", shape: [1], tensor: sha256(path) }));

describe("layers that patterns select", () => {
  const torch = ["decoder.weight", "encoder.0.bias", "encoder.0.weight", "encoder.10.weight", "scale"];
  const select = (...patterns: string[]): readonly (string | undefined)[] =>
    selectLeaves({ leaves: leavesOf(torch), names: { leaves: torch } }, patterns).map((leaf) => torch[leaf]);

  test("by the layer's name, the tensor's name, or both with placeholders", () => {
    assert.deepEqual(select("encoder.0"), ["encoder.0.bias", "encoder.0.weight"]);
    assert.deepEqual(select("scale", "decoder"), ["decoder.weight", "scale"]);
    assert.deepEqual(select("encoder.?"), ["encoder.0.bias", "encoder.0.weight"]);
    assert.deepEqual(select("*.weight"), ["decoder.weight", "encoder.0.weight", "encoder.10.weight"]);
    assert.deepEqual(select("e*1*t"), ["encoder.10.weight"]);
    assert.deepEqual(select("*"), torch);
  });

  test("by what a model with an architecture calls its layers, and by path", () => {
    const paths = ["1/0", "1/1", "2/0"];
    const model = {
      leaves: leavesOf(paths),
      names: { leaves: ["lstm_1/kernel", "lstm_1/bias", "head/kernel"], layers: ["input", "lstm", "dense"] },
    };
    assert.deepEqual(selectLeaves(model, ["lstm"]), [0, 1]);
    assert.deepEqual(selectLeaves(model, ["head/*", "1/1"]), [1, 2]);
  });

  test("a pattern without a layer is refused, naming what there is", () => {
    assert.throws(
      () => select("encoder.0", "encoder.2"),
      refusal("LAYER_NOT_FOUND", '"encoder.2"', "encoder.10"),
    );
    assert.throws(() => select("encoder"), refusal("LAYER_NOT_FOUND"));
  });

  test("a pattern of many stars takes steps in proportion to its length and the name's", () => {
    const name = "a".repeat(5000);
    const model = { leaves: leavesOf([name]), names: { leaves: [name] } };
    assert.throws(() => selectLeaves(model, [`${"*a".repeat(120)}*b`]), refusal("LAYER_NOT_FOUND"));
  });
});

describe("a recovery of some layers", () => {
  const contents = { "a.weight": tensor(1), "b.bias": tensor(2), "b.weight": tensor(3) };
  const saved = async (): Promise<{ line: Line; versionId: Hash; tensors: readonly Hash[] }> => {
    const line = new Line();
    const { versionId } = await line.save(opaque(contents));
    const { leaves } = await recoverModel(line.store, versionId, clock);
    return { line, versionId, tensors: leaves.map((leaf) => leaf.tensor) };
  };

  test("reads only their tensors, whether the others are stored or not, and marks the file", async () => {
    const { line, versionId, tensors } = await saved();
    const read: Hash[] = [];
    const without = withOverrides<ObjectReader>(line.store, {
      has: (id) => id !== tensors[0] && line.store.has(id),
      openTensor: (id, options) => {
        read.push(id);
        return line.store.openTensor(id, options);
      },
    });
    await assert.rejects(
      recoverModel(without, versionId, clock),
      refusal("RECOVERY_INCOMPLETE", '"a.weight"'),
    );
    const part = await recoverModel(without, versionId, clock, { layers: ["b"] });
    assert.deepEqual(new Set(read), new Set(tensors.slice(1)));
    assert.deepEqual([part.byteLength, part.partOf, part.verifiedRoot], [24, 3, part.record.root]);
    assert.equal(hex((await tensorOfSource(part.sources[1]!)).bytes), hex(contents["b.weight"].bytes));
    const { tensors: named, options } = safetensorsOfModel(part);
    assert.deepEqual(
      named.map(({ name }) => name),
      ["b.bias", "b.weight"],
    );
    assert.deepEqual(options, { metadata: { made: "by a test", "stemma.part": "2 of 3 tensors" } });
    await assert.rejects(
      recoverModel(without, versionId, clock, { layers: ["a"] }),
      refusal("RECOVERY_INCOMPLETE", "1 of 3", '"a.weight"'),
    );
  });

  test("refuses a damaged tensor among them", async () => {
    const { line, versionId, tensors } = await saved();
    const damaged = withOverrides<ObjectReader>(line.store, {
      openTensor: (id) => line.store.openTensor(id === tensors[1] ? (tensors[2] as Hash) : id),
    });
    await assert.rejects(
      recoverModel(damaged, versionId, clock, { layers: ["b.bias"] }),
      refusal("ROOT_MISMATCH", '"b.bias"'),
    );
    assert.equal((await recoverModel(damaged, versionId, clock, { layers: ["a"] })).leaves.length, 1);
  });
});
