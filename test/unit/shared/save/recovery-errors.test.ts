/** What a recovery refuses, and which tensor it names: damaged, missing or foreign objects. */
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import type { ObjectReader } from "../../../../shared/objects/object-store.js";
import type { ModelSource } from "../../../../shared/model/model.js";
import { encodeTree } from "../../../../shared/model/tree-object.js";
import { recoverModel, planRecovery } from "../../../../shared/recover/recover-model.js";
import { type SavedModel } from "../../../../shared/save/save-model.js";
import { sha256 } from "../../../../shared/tensor/hash.js";
import { sourceOfTensor, tensorOfSource, type Hash } from "../../../../shared/tensor/tensor.js";
import { hex } from "../model/vectors.js";
import { clock, Line, opaque, refusal, tensor } from "./saved-line.js";
import { withOverrides } from "../../../helpers/with-overrides.js";

describe("errors", () => {
  let line: Line;
  let saved: SavedModel;
  before(async () => {
    line = new Line();
    saved = await line.save(opaque({ a: tensor(1), b: tensor(2), c: tensor(3) }));
  });
  const tampered = (change: (id: Hash, bytes: Uint8Array) => Uint8Array): ObjectReader => ({
    has: (id) => line.store.has(id),
    stat: (id) => line.store.stat(id),
    list: () => line.store.list(),
    read: (kind, id) => line.store.read(kind, id),
    openStream: (kind, id) => line.store.openStream(kind, id),
    encodingOf: (id) => line.store.encodingOf(id),
    readCoded: (id) => line.store.readCoded(id),
    readHighPlanes: (id, planes) => line.store.readHighPlanes(id, planes),
    readFixedPlanes: (id, planes) => line.store.readFixedPlanes(id, planes),
    openTensor: (id, options) => {
      const source = line.store.openTensor(id, options);
      return {
        ...source,
        async *chunks() {
          for await (const chunk of source.chunks()) yield change(id, chunk.slice());
        },
      };
    },
  });

  test("a flipped bit, a short and a long tensor: ROOT_MISMATCH naming the first leaf that differs", async () => {
    const [, second] = saved.plan.changed.map((leaf) => leaf);
    assert.equal(second, 1);
    const { leaves } = await planRecovery(line.store, saved.versionId);
    const from = new Set([leaves[1]?.tensor, leaves[2]?.tensor]);
    for (const change of [
      (bytes: Uint8Array) => {
        bytes[5] = (bytes[5] as number) ^ 1;
        return bytes;
      },
      (bytes: Uint8Array) => bytes.subarray(1),
      (bytes: Uint8Array) => Uint8Array.of(...bytes, 0),
    ]) {
      for (const holdBytes of [0, 1_000])
        await assert.rejects(
          recoverModel(
            tampered((id, bytes) => (from.has(id) ? change(bytes) : bytes)),
            saved.versionId,
            clock,
            { holdBytes },
          ),
          refusal("ROOT_MISMATCH", '"b"'),
        );
    }
  });
  test("any damaged tensor is named; of several the first leaf, in whichever order the store reads", async () => {
    const many = new Line();
    const { store } = many;
    const { versionId } = await many.save(
      opaque(
        Object.fromEntries(
          Array.from({ length: 70 }, (_, i) => [`t${String(i).padStart(2, "0")}`, tensor(i)]),
        ),
      ),
    );
    const { leaves } = await planRecovery(store, versionId);
    for (let at = 0; at < leaves.length; at += 3) {
      const wrong = new Map(
        [at, at + 1, at + 9].flatMap((i) =>
          i < leaves.length ? [[leaves[i]!.tensor, (leaves.length - i) % 7]] : [],
        ),
      );
      const slow = withOverrides<ObjectReader>(store, {
        openTensor: (id) => {
          const source = store.openTensor(id, { verify: false });
          return {
            ...source,
            async *chunks() {
              for (let turns = wrong.get(id) ?? 3; turns > 0; turns--)
                await new Promise((resolve) => {
                  setImmediate(resolve);
                });
              for await (const bytes of source.chunks())
                yield wrong.has(id) ? bytes.map((byte) => byte ^ 1) : bytes;
            },
          };
        },
      });
      await assert.rejects(
        recoverModel(slow, versionId, clock),
        refusal("ROOT_MISMATCH", JSON.stringify(leaves[at]!.path)),
      );
    }
  });
  test("a missing tensor is named before anything is read", async () => {
    const { leaves } = await planRecovery(line.store, saved.versionId);
    const store: ObjectReader = {
      ...tampered((_, bytes) => bytes),
      has: (id) => id !== leaves[2]?.tensor && line.store.has(id),
    };
    await assert.rejects(recoverModel(store, saved.versionId, clock), refusal("RECOVERY_INCOMPLETE", '"c"'));
  });
  test("a record with the tree of another is refused", async () => {
    const other = encodeTree("opaque", []);
    const store: ObjectReader = {
      ...tampered((_, bytes) => bytes),
      read: (kind, id) => (kind === "tree" ? Promise.resolve(other) : line.store.read(kind, id)),
    };
    await assert.rejects(recoverModel(store, saved.versionId, clock), refusal("OWNER_MAP_INVALID"));
  });
  test("an unknown version", async () => {
    await assert.rejects(recoverModel(line.store, sha256("nothing"), clock), refusal("OBJECT_MISSING"));
  });
  test("a source whose tensor differs from its leaf leaves nothing behind", async () => {
    const fresh = new Line();
    const model = opaque({ a: tensor(1), b: tensor(2) });
    const wrong = {
      ...model,
      sources: [model.sources[0], sourceOfTensor(tensor("other"))] as ModelSource["sources"],
    };
    await assert.rejects(fresh.save(wrong), refusal("OBJECT_HASH_MISMATCH"));
    assert.deepEqual([...fresh.store.list()], []);
    await assert.rejects(fresh.save({ ...model, sources: [] }), refusal("TREE_MALFORMED"));
    await assert.rejects(fresh.save(model, { name: "" }), refusal("RECORD_INVALID"));
    assert.deepEqual([...fresh.store.list()], []);
  });
  test("a large model streams, verified when it is read", async () => {
    const recovered = await recoverModel(line.store, saved.versionId, clock, { holdBytes: 0 });
    assert.deepEqual(
      (await Promise.all(recovered.sources.map(tensorOfSource))).map(({ bytes }) => hex(bytes)),
      [1, 2, 3].map((seed) => hex(tensor(seed).bytes)),
    );
  });
});
