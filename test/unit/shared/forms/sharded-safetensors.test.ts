/** Sharded safetensors: index, shards and names are compared with each other, and each disagreement is named. */
import assert from "node:assert/strict";
import { rmSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { after, describe, test } from "node:test";
import { isStemmaError, type ErrorCode } from "../../../../shared/errors.js";
import {
  floats,
  ModelFolder,
  readModel,
  safetensors,
  shardedModel,
  shardNames,
} from "../../../helpers/foreign-models.js";

const [one, two] = shardNames;
const folder = new ModelFolder();
after(() => folder[Symbol.dispose]());

const refused =
  (pattern: RegExp, code: ErrorCode = "MODEL_FILE_MALFORMED") =>
  (error: unknown): boolean => {
    assert.ok(isStemmaError(error, code), String(error));
    assert.match(error.message, pattern);
    return true;
  };

describe("a sharded model", () => {
  test("is one model: all tensors in the shards' order, and the metadata that they share", async () => {
    const { tensors, metadata, notes } = await folder.read(shardedModel());
    assert.deepEqual(Object.keys(tensors), ["b", "a", "c"]);
    assert.equal(tensors["a"], `F32 [] ${floats(3).toString("hex")}`);
    assert.deepEqual(metadata, { format: "pt" });
    assert.deepEqual(notes, [`metadata that differ between the shards are not kept: "n"`]);
  });

  test("with more in its index says what is not kept", async () => {
    const { notes } = await folder.read(
      shardedModel({ index: { metadata: { total_size: 16, total_parameters: 4 }, x: 1 } }),
    );
    assert.match(notes[0] ?? "", /"x", "total_parameters"/);
  });

  const map = { a: one, b: one, c: two };
  const wrong: readonly (readonly [
    title: string,
    change: Parameters<typeof shardedModel>[0],
    pattern: RegExp,
  ])[] = [
    [
      "a tensor in the wrong shard",
      { index: { weight_map: { ...map, b: two } } },
      /"b" is in "m-00001.* instead of "m-00002/,
    ],
    [
      "a tensor that is nowhere",
      { index: { weight_map: { ...map, z: one } } },
      /"m-00001.*does not have the tensor "z"/,
    ],
    ["a tensor that the index lacks", { index: { weight_map: { b: one, c: two } } }, /does not name: "a"/],
    [
      "two tensors of one name",
      { files: { [two]: safetensors([["a", "F32", [1], floats(4)]]) } },
      /"a" is in "m-00001.* and in "m-00002/,
    ],
    [
      "a wrong total_size",
      { index: { metadata: { total_size: 15 } } },
      /total_size of 15, but its tensors have 16 bytes/,
    ],
    [
      "a shard that the index does not name",
      { index: { weight_map: { a: one, b: one } } },
      /there are 2 shards, but it does not name "m-00002/,
    ],
    [
      "a shard of another splitting",
      { files: { "m-00003-of-00003.safetensors": floats() } },
      /shards that it does not name: "m-00003-of-00003/,
    ],
    [
      "shards of two models",
      { index: { weight_map: { ...map, c: "k-00002-of-00002.safetensors" } } },
      /not shards of one model/,
    ],
    [
      "a path out of the folder",
      { index: { weight_map: { a: "../x.safetensors" } } },
      /names the file "\.\.\/x/,
    ],
    ["an absolute path", { index: { weight_map: { a: "/etc/passwd" } } }, /names the file "\/etc/],
  ];
  for (const [title, change, pattern] of wrong)
    test(`with ${title} is refused`, () =>
      assert.rejects(folder.read(shardedModel(change)), refused(pattern)));

  test("whose shard is missing, or a link, is refused with its name", async () => {
    folder.write(shardedModel());
    rmSync(join(folder.path, two));
    await assert.rejects(readModel(join(folder.path, "m.safetensors.index.json")), refused(/is no "m-00002/));
    symlinkSync(one, join(folder.path, two));
    await assert.rejects(
      readModel(join(folder.path, "m.safetensors.index.json")),
      refused(/cp -rL/, "FILE_NOT_REGULAR"),
    );
  });

  test("that is cut short in a shard names the shard", async () => {
    const cut = safetensors([["c", "F32", [1], floats(4)]]).subarray(0, -1);
    await assert.rejects(
      folder.read(shardedModel({ files: { [two]: cut } })),
      refused(/m-00002/, "SAFETENSORS_TRUNCATED"),
    );
  });
});

test("a shard alone is refused with what is missing; the only one of one is a model", async () => {
  folder.write(shardedModel());
  await assert.rejects(
    readModel(join(folder.path, one)),
    refused(/one of 2 shards.*Name m\.safetensors\.index\.json/),
  );
  rmSync(join(folder.path, two));
  rmSync(join(folder.path, "m.safetensors.index.json"));
  await assert.rejects(
    readModel(join(folder.path, one)),
    refused(/"m-00002-of-00002\.safetensors", "m\.safetensors\.index\.json"/),
  );
  const only = "m-00001-of-00001.safetensors";
  const { tensors } = await folder.read({
    main: only,
    files: { [only]: safetensors([["a", "F32", [1], floats(1)]]) },
  });
  assert.deepEqual(Object.keys(tensors), ["a"]);
});
