/** Proving a version from the disk: every damaged part is named, and damage in one part hides no other. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { test } from "node:test";
import type { FleetRepository } from "../../../../../server/storage/repository/fleet-repository.js";
import { isStemmaError } from "../../../../../shared/errors.js";
import type { Files } from "../../../../../shared/ports.js";
import type { Hash } from "../../../../../shared/tensor/tensor.js";
import {
  memoryHome,
  modelOf,
  openRepository,
  sameTensors,
  seededBytes,
  tensorsOf,
  usesOfSeed,
  type NamedTensor,
} from "./harness.js";

const model = tensorsOf("model", 2, 4);
const packs = "/home/fleets/fleet-a/packs";

/** Flips a bit of these stored bytes; call again to flip it back. */
async function flip(files: Files, stored: Uint8Array): Promise<void> {
  const [name, ...others] = (await files.list(packs)).filter((file) => file.endsWith(".pack"));
  assert.equal(others.length, 0);
  const pack = Buffer.from(await files.read(join(packs, name as string)));
  const flipped = Uint8Array.from(stored, (byte, at) => (at === stored.length - 1 ? byte ^ 1 : byte));
  const at = Math.max(pack.indexOf(stored), pack.indexOf(flipped));
  assert.notEqual(at, -1);
  const file = await files.open(join(packs, name as string), "update");
  const last = at + stored.length - 1;
  await file.write(Uint8Array.of(pack[last]! ^ 1), last);
  await file.close();
}

async function damagedParts(repository: FleetRepository, versionId: Hash): Promise<unknown> {
  try {
    await repository.verify(versionId);
  } catch (error) {
    if (!isStemmaError(error)) throw error;
    for (const part of error.details["damaged"] as readonly string[]) assert.ok(error.message.includes(part));
    return [error.code, error.details["damaged"]];
  }
  return undefined;
}

const lastOf = (tensors: readonly NamedTensor[]): Uint8Array => tensors.at(-1)!.bytes;

test("model, checkpoints, optimizer and what a training used are proven, and each damaged one is named", async () => {
  const { home, files, reopen } = await memoryHome();
  let repository = await openRepository(home, "fleet-a");
  const seed = "v1";
  const { summary } = await repository.save(modelOf(model), { name: "soh", uses: usesOfSeed(seed) });
  const { versionId, record } = summary;
  const { parts } = await repository.verify(versionId);
  assert.deepEqual(parts.slice(0, 3), [
    "the model",
    "the checkpoint after iteration 3",
    "the optimizer's state",
  ]);
  for (const kind of ["names", "owner-map", "environment", "engine", "recipe", "data"])
    assert.ok(
      parts.some((part) => part.endsWith(`of kind ${kind}`)),
      kind,
    );
  const recipe = `the object ${record.uses!.recipe!.slice(0, 16)} of kind recipe`;
  const cases: readonly (readonly [readonly Uint8Array[], unknown])[] = [
    [[lastOf(model)], ["ROOT_MISMATCH", ["the model"]]],
    [
      [lastOf(tensorsOf(`checkpoint/${seed}`, 1, 4))],
      ["ROOT_MISMATCH", ["the checkpoint after iteration 3"]],
    ],
    [[lastOf(tensorsOf(`optimizer/${seed}`, 1, 4))], ["ROOT_MISMATCH", ["the optimizer's state"]]],
    [[seededBytes(`recipe/${seed}`, 40)], ["OBJECT_HASH_MISMATCH", [recipe]]],
    [
      [lastOf(tensorsOf(`optimizer/${seed}`, 1, 4)), seededBytes(`recipe/${seed}`, 40)],
      ["ROOT_MISMATCH", ["the optimizer's state", recipe]],
    ],
  ];
  for (const [stored, expected] of cases) {
    for (const bytes of stored) await flip(files, bytes);
    assert.deepEqual(await damagedParts(repository, versionId), expected);
    // What a device may delete its copy for is proven in the same way.
    await assert.rejects(repository.confirmStored(versionId), { code: (expected as string[])[0] });
    for (const bytes of stored) await flip(files, bytes);
    // Damage that was found is remembered until the store is opened again.
    await repository.close();
    await home.close();
    repository = await openRepository(await reopen(), "fleet-a");
  }
  assert.equal(await damagedParts(repository, versionId), undefined);
  assert.equal((await repository.confirmStored(versionId)).state, "stored");
  await repository.close();
});

test("what an earlier read left in memory does not hide damage from a check", async () => {
  const { home, files } = await memoryHome();
  const repository = await openRepository(home, "fleet-a");
  const { summary } = await repository.save(modelOf(model), { name: "soh" });
  assert.ok(await sameTensors(repository, summary.versionId, model));
  await flip(files, lastOf(model));
  const { problems } = await repository.check();
  assert.deepEqual(
    problems.map(({ what }) => what),
    ["tensor: OBJECT_HASH_MISMATCH"],
  );
  await repository.close();
});
