/** Sharded models: index, shards and names are compared with each other, and each disagreement is named. */
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
  shardedTorchModel,
  shardNames,
  torchShards,
  vectorModel,
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

describe("a sharded model that torch.save wrote", () => {
  const { index, one: first, two: second } = torchShards;

  test("is one model, whose total_size counts tied tensors once or each", async () => {
    const { tensors, notes } = await folder.read(shardedTorchModel());
    assert.deepEqual(Object.keys(tensors).sort(), [
      ...["half", "layer0.weight", "layer1.weight", "layer2.weight", "layer3.weight", "tied"],
    ]);
    assert.equal(tensors["tied"], tensors["layer0.weight"]);
    assert.match(tensors["half"] ?? "", /^BF16 \[6\] [0-9a-f]{24}$/);
    assert.deepEqual(notes, []);
    await folder.read(shardedTorchModel({ metadata: { total_size: 412 } }));
    await assert.rejects(
      folder.read(shardedTorchModel({ metadata: { total_size: 331 } })),
      refused(/total_size of 331, but its tensors have 412 bytes/),
    );
  });

  test("is compared with its index", async () => {
    const { files } = shardedTorchModel();
    const { weight_map: map } = JSON.parse(String(files[index])) as { weight_map: Record<string, string> };
    for (const [changed, pattern] of [
      [{ half: first }, /"half" is in "pytorch_model-00002.* instead of "pytorch_model-00001/],
      [{ more: second }, /"pytorch_model-00002.*does not have the tensor "more"/],
      [{ half: "pytorch_model-00002-of-00002.safetensors" }, /not shards of one model/],
      [{ half: "../pytorch_model.bin" }, /not shards of one model|names the file/],
    ] as const)
      await assert.rejects(
        folder.read(shardedTorchModel({ weight_map: { ...map, ...changed } })),
        refused(pattern),
      );
  });

  test("is refused with the name of a shard that is missing, a link, cut short or more than tensors", async () => {
    const model = shardedTorchModel();
    folder.write(model);
    rmSync(join(folder.path, second));
    const read = (): Promise<unknown> => readModel(join(folder.path, index));
    await assert.rejects(read(), refused(/is no "pytorch_model-00002/));
    symlinkSync(first, join(folder.path, second));
    await assert.rejects(read(), refused(/cp -rL/, "FILE_NOT_REGULAR"));
    rmSync(join(folder.path, second));
    for (const bytes of [model.files[second]?.subarray(0, -9), vectorModel("module.pt").files["module.pt"]])
      await assert.rejects(
        folder.read({ ...model, files: { ...model.files, [second]: bytes as Uint8Array } }),
        refused(/pytorch_model-00002-of-00002\.bin cannot be read as a PyTorch state dict/),
      );
  });

  test("of which one shard is named alone is refused with what is missing", async () => {
    folder.write(shardedTorchModel());
    const read = (): Promise<unknown> => readModel(join(folder.path, first));
    await assert.rejects(read(), refused(/one of 2 shards.*Name pytorch_model\.bin\.index\.json/));
    rmSync(join(folder.path, second));
    await assert.rejects(read(), refused(/Next to it is no "pytorch_model-00002-of-00002\.bin"/));
  });
});
