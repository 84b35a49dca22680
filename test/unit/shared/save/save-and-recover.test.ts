/** Saving into stores and recovering from them: what is written, what it costs, and the environment's verdict. */
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import type { SaveRecord } from "../../../../shared/model/model.js";
import { decodeOwnerMap, ownerOf } from "../../../../shared/model/owner-map.js";
import { readModelJson } from "../../../../shared/model/model-json.js";
import { encodeSaveRecord, maxRecordBytes } from "../../../../shared/model/save-record.js";
import { compareNames } from "../../../../shared/model/tree.js";
import { recoverModel, planRecovery } from "../../../../shared/recover/recover-model.js";
import { type SavedModel } from "../../../../shared/save/save-model.js";
import { modelSourceOfTensors } from "../../../../shared/save/model-source.js";
import { sha256 } from "../../../../shared/tensor/hash.js";
import { type Hash, type Tensor } from "../../../../shared/tensor/tensor.js";
import { vectorBytes } from "../model/vectors.js";
import { clock, environment, Line, opaque, refusal, tensor } from "./saved-line.js";

describe("a chain of saves", () => {
  test("snapshot, partial updates, an equal save, a full update: every version is recovered, each tensor with one look-up", async () => {
    const line = new Line();
    const contents: Record<string, Tensor>[] = [{ a: tensor(1), b: tensor(2), c: tensor(3) }];
    contents.push(
      { ...contents[0], c: tensor("3 tuned") },
      { ...contents[0], c: tensor("3 tuned"), b: tensor("2 tuned") },
    );
    contents.push({ ...contents[2] }, { a: tensor(11), b: tensor(12), c: tensor(13) });
    for (const content of contents) await line.save(opaque(content));
    assert.deepEqual(
      line.saved.map(({ plan }) => plan.approach),
      ["snapshot", "update", "update", "update", "snapshot"],
    );
    assert.deepEqual(
      line.saved.map(({ plan }) => plan.changed),
      [[0, 1, 2], [2], [1], [], [0, 1, 2]],
    );
    assert.deepEqual(
      line.saved.map(({ newTensorBytes }) => newTensorBytes),
      [36, 12, 12, 0, 36],
    );
    for (const [i, saved] of line.saved.entries())
      await line.assertRecovers(saved, opaque(contents[i] as Record<string, Tensor>));
    const { plan } = await planRecovery(line.store, (line.saved[3] as SavedModel).versionId);
    assert.deepEqual(
      plan.tensors.map(({ owner }) => line.saved.findIndex(({ versionId }) => versionId === owner)),
      [0, 2, 1],
      "the equal save owns nothing",
    );
    assert.notEqual(
      line.saved[3]?.versionId,
      line.saved[2]?.versionId,
      "an equal save is a version of its own",
    );
    assert.equal(line.saved[3]?.record.contentId, line.saved[2]?.record.contentId);
  });

  test("reshaped, retyped, added, removed and renamed tensors are saved and recovered exactly", async () => {
    const line = new Line();
    const first = { a: tensor(1, [2, 6]), b: tensor(2), c: tensor(3), d: tensor(4) };
    const next = {
      a: { ...first.a, shape: [6, 2] },
      b: { ...first.b, dtype: "I32" as const },
      e: tensor(5),
      z: first.d,
    };
    await line.save(opaque(first));
    const saved = await line.save(opaque(next));
    assert.deepEqual(
      saved.plan.diff?.changes.map(({ kind, path }) => `${kind} ${path}`),
      ["reshaped a", "reshaped b", "removed c", "renamed d", "added e"],
    );
    assert.deepEqual(saved.plan.changed, [0, 1, 2], "a renamed tensor is inherited");
    await line.assertRecovers(saved, opaque(next));
    await line.assertRecovers(line.saved[0] as SavedModel, opaque(first));
  });

  test("a model without tensors, one with an empty tensor, and tensors that several leaves share", async () => {
    const line = new Line();
    const contents: Record<string, Tensor>[] = [
      {},
      { empty: tensor(0, [0]) },
      { one: tensor(7), same: tensor(7) },
    ];
    for (const content of contents)
      await line.assertRecovers(await line.save(opaque(content)), opaque(content));
    assert.equal(line.saved[2]?.newTensorBytes, 12);
  });

  test("a partial update reads and writes only what changed", async () => {
    const line = new Line();
    const content = { a: tensor(1), b: tensor(2) };
    await line.save(opaque(content));
    const model = opaque({ ...content, b: tensor("2 tuned") });
    const unreadable = {
      ...model,
      sources: model.sources.map((source, i) =>
        i === 0
          ? {
              ...source,
              chunks: () => {
                throw new Error("an unchanged tensor was read");
              },
            }
          : source,
      ),
    };
    assert.equal((await line.save(unreadable)).newTensorBytes, 12);
  });
});

describe("with an architecture", () => {
  const described = readModelJson(vectorBytes("two-branches.model.json"));
  const tensors = (seed: number): Tensor[] => [
    tensor(seed, [3, 2]),
    tensor(seed + 1, [3, 2]),
    tensor(seed + 2, [2]),
  ];
  test("architecture, names and frozen layers are recovered", async () => {
    const line = new Line();
    const model = modelSourceOfTensors(described.architecture, tensors(1), described.names);
    const saved = await line.save(model);
    await line.assertRecovers(saved, model);
    assert.equal(saved.record.kind, "architecture");
    const tuned = modelSourceOfTensors(
      described.architecture,
      [...tensors(1).slice(0, 2), tensor("bias", [2])],
      described.names,
    );
    const update = await line.save(tuned);
    assert.deepEqual(
      update.plan.diff?.changes.map(({ kind, path }) => `${kind} ${path}`),
      ["changed 2/1"],
    );
    await line.assertRecovers(update, tuned);
  });
  test("tensors of another model are refused", () => {
    assert.throws(
      () => modelSourceOfTensors(described.architecture, tensors(1).slice(1), described.names),
      refusal("ARCHITECTURE_MISMATCH"),
    );
    assert.throws(
      () => modelSourceOfTensors(described.architecture, [...tensors(1)].reverse(), described.names),
      refusal("ARCHITECTURE_MISMATCH"),
    );
  });
  test("a tree that does not fit the architecture is refused on recovery", async () => {
    const line = new Line();
    const model = modelSourceOfTensors(described.architecture, tensors(1), described.names);
    const wrong = {
      ...model,
      leaves: model.leaves.slice(0, 2),
      sources: model.sources.slice(0, 2),
      names: { ...model.names, leaves: model.names.leaves.slice(0, 2) },
    };
    const saved = await line.save(wrong);
    await assert.rejects(
      recoverModel(line.store, saved.versionId, clock),
      refusal("ARCHITECTURE_MISMATCH", "2/1"),
    );
  });
});

describe("an equal save", () => {
  /**
   * MobileNetV2 as TensorFlow.js defines it: 314 leaves; every ancestor in a chain of ten changed a few
   * layers.
   */
  const leafCount = 314;
  const contents = (version: number): Record<string, Tensor> =>
    Object.fromEntries(
      Array.from({ length: leafCount }, (_, i) => {
        const owner = version === 0 || i < 250 ? 0 : Math.min(version, 1 + ((i - 250) % 10));
        return [
          `block_${String(i >> 3).padStart(2, "0")}_project_BN_${i & 7}/moving_variance`,
          tensor(`${i} by ${owner}`),
        ];
      }),
    );
  test("costs less than 1 kB: record, owner map and fact", async () => {
    const line = new Line();
    for (let version = 0; version <= 3; version++) await line.save(opaque(contents(version)));
    const equal = await line.save(opaque(contents(3)));
    const fact = JSON.stringify({
      type: "recorded",
      atMs: 1_763_700_000_000,
      versionId: Buffer.from(equal.versionId, "hex").toString("base64url"),
      name: equal.record.name,
      version: 123_456,
      tensorBytes: 1_234_567_890,
    });
    const overhead = equal.recordBytes.length + equal.ownerMapBytes + fact.length;
    assert.ok(
      overhead < 1000,
      `${overhead} bytes: record ${equal.recordBytes.length}, owner map ${equal.ownerMapBytes}, fact ${fact.length}`,
    );
    assert.equal(equal.newTensorBytes, 0);
  });
  test("a record stays small for any number of tensors", () => {
    const hash = (i: number): Hash => sha256(`${i}`);
    const record = {
      format: 1,
      name: "n".repeat(200),
      fleet: "f",
      device: "d",
      line: "l",
      sequence: 1,
      bases: Array.from({ length: 65 }, (_, i) => hash(i)),
      kind: "opaque",
      contentId: hash(0),
      architecture: hash(0),
      root: hash(0),
      approach: "snapshot",
      savedAtMs: 0,
      clockErrorMs: null,
      objects: { tree: hash(0), names: hash(0), ownerMap: hash(0), environment: hash(0) },
    } as SaveRecord;
    assert.throws(() => encodeSaveRecord(record), refusal("RECORD_INVALID"));
    assert.equal(maxRecordBytes, 65_536);
  });
});

describe("environment (MM1)", () => {
  test("same, compatible and different, with the differing fields; the policy decides how to react", async () => {
    const line = new Line();
    const { versionId } = await line.save(opaque({ a: tensor(1) }));
    const verdict = async (here: Readonly<Record<string, string>>): Promise<string> => {
      const {
        environment: { verdict: word, differing },
      } = await recoverModel(line.store, versionId, clock, { here });
      return `${word} ${differing.map(({ field }) => field).join()}`;
    };
    assert.equal(await verdict(environment), "same ");
    assert.equal(await verdict({ ...environment, node: "v24.0.0", gpu: "none" }), "compatible gpu,node");
    assert.equal(await verdict({ ...environment, engine: "e2" }), "different engine");
    const here = { ...environment, node: "v24.0.0" };
    await recoverModel(line.store, versionId, clock, { here, policy: "refuse-different" });
    await assert.rejects(
      recoverModel(line.store, versionId, clock, { here, policy: "refuse-any" }),
      refusal("ENVIRONMENT_DIFFERENT", "v20.19.0", "v24.0.0"),
    );
    await assert.rejects(
      recoverModel(line.store, versionId, clock, {
        here: { ...here, engine: "e2" },
        policy: "refuse-different",
      }),
      refusal("ENVIRONMENT_DIFFERENT", "e2"),
    );
    assert.equal(
      (await recoverModel(line.store, versionId, clock, { here: {}, policy: "ignore" })).environment.verdict,
      "different",
    );
  });
  test("the environment, the names and the tree of a chain are stored once", async () => {
    const line = new Line();
    const contents = { a: tensor(1), b: tensor(2) };
    for (let i = 0; i < 4; i++) await line.save(opaque(contents));
    const kinds = [...line.store.list()].map(({ kind }) => kind);
    const counts = Object.fromEntries(
      [...new Set(kinds)].map((kind) => [kind, kinds.filter((other) => other === kind).length]),
    );
    assert.deepEqual(counts, { tensor: 2, tree: 1, names: 1, environment: 1, "owner-map": 2, record: 4 });
  });
});

test("owner maps follow compareNames' order of leaves", async () => {
  const line = new Line();
  const names = ["\u{1F600}", "\ufffd", "z", "é"];
  const saved = await line.save(opaque(Object.fromEntries(names.map((name) => [name, tensor(name)]))));
  const map = decodeOwnerMap(await line.store.read("owner-map", saved.record.objects.ownerMap), names.length);
  assert.equal(ownerOf(map, 0, saved.versionId), saved.versionId);
  assert.deepEqual(
    (await recoverModel(line.store, saved.versionId, clock)).leaves.map(({ path }) => path),
    [...names].sort(compareNames),
  );
});
