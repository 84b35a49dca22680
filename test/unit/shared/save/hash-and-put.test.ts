/** Models that are hashed while they are saved: the same versions, each tensor once, and the first error. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { StemmaError } from "../../../../shared/errors.js";
import type { UnhashedModel } from "../../../../shared/model/model.js";
import { openPackStore } from "../../../../shared/objects/pack-store.js";
import { hashAndPut } from "../../../../shared/save/hash-and-put.js";
import { unhashedOpaqueModel } from "../../../../shared/save/model-source.js";
import { saveModel } from "../../../../shared/save/save-model.js";
import { asyncIterableOf } from "../../../../shared/tensor/async-iterable.js";
import type { Hash, Tensor, TensorSource } from "../../../../shared/tensor/tensor.js";
import { faultyFiles } from "../../../helpers/files/faulty-files.js";
import { memoryFiles } from "../../../helpers/files/memory-files.js";
import { seededRandom } from "../../../helpers/manual-clock.js";
import { clock, environment, Line, opaque, refusal, tensor } from "./saved-line.js";

const large = [512, 1024];
const contents: Record<string, Tensor> = {
  a: tensor(1),
  b: tensor("large", large),
  c: tensor(1),
  d: tensor(2),
  e: tensor("other large", large),
};
const unhashed = (tensors: Readonly<Record<string, Tensor>>): UnhashedModel =>
  unhashedOpaqueModel(
    Object.entries(tensors).map(([name, content]) => ({ name, ...content })),
    { made: "by a test" },
  );
const saveOptions = {
  name: "soh",
  fleet: "north",
  device: "truck-1",
  line: "pack-soh",
  sequence: 1,
  environment,
};

test("a model that is hashed while it is saved is the same version as one that was hashed before", async () => {
  const [before, meanwhile] = [new Line(), new Line()];
  for (const step of [contents, { ...contents, d: tensor("2 tuned") }, contents]) {
    const expected = await before.save(opaque(step));
    const saved = await meanwhile.save(unhashed(step));
    assert.equal(saved.versionId, expected.versionId);
    assert.deepEqual(saved.plan.changed, expected.plan.changed);
    assert.deepEqual(saved.leaves, opaque(step).leaves);
    assert.equal(saved.newTensorBytes, expected.newTensorBytes);
    await meanwhile.assertRecovers(saved, opaque(step));
  }
});

test("each content is hashed and written once, large ones first, and hashing goes on during a write", async () => {
  const events: string[] = [];
  const model = unhashed(contents);
  const sources = model.sources.map((source, i): TensorSource => ({
    ...source,
    chunks: () => {
      events.push(`hash ${i}`);
      return source.chunks();
    },
  }));
  let endWrites = (): void => undefined;
  const writes = new Promise<void>((resolve) => {
    endWrites = resolve;
  });
  const pack = {
    putTensor: async (_: TensorSource, id?: Hash): Promise<Hash> => {
      events.push("put");
      await writes;
      return id!;
    },
  };
  // Nothing is written yet, and everything is hashed.
  const { model: hashed, written } = await hashAndPut({ has: () => false }, pack, { ...model, sources });
  assert.deepEqual(hashed.leaves, opaque(contents).leaves);
  assert.deepEqual(events, ["hash 1", "put", "hash 4", "put", "hash 0", "put", "hash 2", "hash 3", "put"]);
  endWrites();
  assert.equal(await written, 2 * 512 * 1024 * 4 + 12 + 12);
});

test("a failed write ends the save with its own error, and nothing stays", async () => {
  const memory = memoryFiles();
  let fails = true;
  const files = faultyFiles(memory, ({ kind }) =>
    fails && kind === "write" ? { code: "ENOSPC" as const } : undefined,
  );
  const store = await openPackStore(files, "/packs", { clock, random: seededRandom(1) });
  await assert.rejects(saveModel(store, unhashed(contents), saveOptions, clock), refusal("DISK_FULL"));
  assert.deepEqual(
    (await memory.list("/packs")).filter((name) => name !== "index"),
    [],
  );
  fails = false;
  await saveModel(store, unhashed(contents), saveOptions, clock);
  await store.close();
});

test("a source of the wrong length, and one that fails, end the save with their own errors", async () => {
  const line = new Line();
  const model = unhashed(contents);
  const withLast = (last: Partial<TensorSource>): UnhashedModel => ({
    ...model,
    sources: model.sources.map((source, i) => (i === 4 ? { ...source, ...last } : source)),
  });
  const short = withLast({ chunks: () => asyncIterableOf([new Uint8Array(8)]) });
  await assert.rejects(line.save(short), refusal("TENSOR_SIZE_MISMATCH"));
  const unreadable = withLast({
    chunks: () => {
      throw new StemmaError("FILE_FAILED", "The file is gone.");
    },
  });
  await assert.rejects(line.save(unreadable), refusal("FILE_FAILED"));
  await line.save(model);
});
