/** The model with the longest common prefix, while models are saved, retired and opened again. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { commonPrefix } from "../../../../../shared/model/common-prefix.js";
import type { ModelMetadata } from "../../../../../shared/model/metadata.js";
import type { Architecture } from "../../../../../shared/model/model.js";
import type { Hash } from "../../../../../shared/tensor/tensor.js";
import {
  decodeIdentities,
  encodeIdentities,
} from "../../../../../server/storage/repository/identity-cache.js";
import type { FleetRepository } from "../../../../../server/storage/repository/fleet-repository.js";
import {
  candidateArchitecture,
  randomNumbers,
  savable,
  searchedChoices,
} from "../../../../helpers/random-architectures.js";
import { memoryHome, modelOf, openRepository, tensorsOf } from "./harness.js";
import { saveArchitecture } from "./save-architecture.js";

test("is that of Algorithm 1 on all models, at every moment", async () => {
  const { home, ports } = await memoryHome();
  let repository = await openRepository(home, "fleet-a");
  await repository.save(modelOf(tensorsOf("m")), { name: "opaque" });
  const random = randomNumbers(7);
  const candidates = searchedChoices(30, random).map(candidateArchitecture).map(savable);
  const live: { readonly id: Hash; readonly architecture: Architecture }[] = [];
  for (const [i, architecture] of candidates.entries()) {
    const asked = await repository.nearest(architecture);
    assert.equal(asked.indexed, live.length);
    const layers = live.map((model) => commonPrefix(architecture, model.architecture).layers.length);
    const most = Math.max(0, ...layers);
    // Models are saved one after the other, so of equal ones the last is the newest.
    assert.equal(asked.nearest?.versionId, most === 0 ? undefined : live[layers.lastIndexOf(most)]?.id);
    assert.equal(asked.nearest?.layers ?? 0, most);
    ports.clock.advance(1000);
    const id = await saveArchitecture(repository, architecture, `m${i}`);
    live.push({ id, architecture });
    assert.equal((await repository.nearest(architecture)).nearest?.versionId, id);
    assert.notEqual((await repository.nearest(architecture, id)).nearest?.versionId, id);
    if (i % 3 === 2) {
      const [retired] = live.splice(random(live.length), 1);
      await repository.retire(retired!.id, "not needed");
    }
    if (i % 10 === 9) {
      await repository.close();
      repository = await openRepository(home, "fleet-a");
    }
  }
  await repository.close();
});

test("prefers the best of equally near models, then the newest", async () => {
  const { home, ports } = await memoryHome();
  let repository = await openRepository(home, "fleet-a");
  const [architecture] = searchedChoices(1, randomNumbers(5)).map(candidateArchitecture).map(savable);
  assert.ok(architecture !== undefined);
  const save = async (name: string, metadata?: ModelMetadata): Promise<Hash> => {
    ports.clock.advance(1000);
    return await saveArchitecture(repository, architecture, name, metadata);
  };
  const worst = await save("worst", { quality: -1 });
  const best = await save("best", { quality: 0.5 });
  const older = await save("older", { quality: 0.25 });
  const newer = await save("newer", { quality: 0.25 });
  const without = await save("without");
  const inWords = await save("in words", { quality: "0.9" });
  await save("not to be inherited from", { quality: 0.9, inheritable: false });
  // Those without a number come last, the newest of them first.
  for (const expected of [best, newer, older, worst, inWords, without]) {
    assert.equal((await repository.nearest(architecture)).nearest?.versionId, expected);
    await repository.close();
    repository = await openRepository(home, "fleet-a");
    assert.equal((await repository.nearest(architecture)).nearest?.versionId, expected);
    await repository.retire(expected, "asked");
  }
  assert.equal((await repository.nearest(architecture)).nearest, undefined);
  await repository.close();
});

const cachePath = "/home/fleets/fleet-a/layers.cache";
/** "STEMLAYR", format u32, form of the identities u32. */
const cacheHeadBytes = 16;

test("is the same after each start, whatever was done to the cache of identities", async () => {
  const { home, files, reopen } = await memoryHome();
  const saved = await openRepository(home, "fleet-a");
  const candidates = searchedChoices(12, randomNumbers(3)).map(candidateArchitecture).map(savable);
  const asked = candidates.slice(6);
  for (const [i, architecture] of candidates.slice(0, 6).entries())
    await saveArchitecture(saved, architecture, `m${i}`);
  const answersOf = async (repository: FleetRepository): Promise<unknown[]> => {
    const answers = [];
    for (const architecture of asked) answers.push(await repository.nearest(architecture));
    return answers;
  };
  const expected = await answersOf(saved);
  const distinct = new Set(saved.versions().map(({ record }) => record.objects.architecture)).size;
  await saved.close();
  await home.close();
  const original = await files.read(cachePath);
  assert.equal(decodeIdentities(original.subarray(cacheHeadBytes)).entries.size, distinct);

  const answersWith = async (cache: Uint8Array): Promise<unknown[]> => {
    await files.remove(cachePath);
    const file = await files.open(cachePath, "create");
    await file.write(cache, 0);
    await file.close();
    const opened = await reopen();
    const repository = await openRepository(opened, "fleet-a");
    const answers = await answersOf(repository);
    await repository.close();
    await opened.close();
    return answers;
  };
  const flipped = (at: number): Uint8Array => original.map((byte, i) => (i === at ? byte ^ 1 : byte));
  const damages = [
    original,
    original.subarray(0, 0),
    original.subarray(0, 11),
    original.subarray(0, original.length - 7),
    Uint8Array.from([...original, 1, 2, 3]),
    new Uint8Array(original.length),
    // Another form of identities; an id of an architecture; a number of identities; an identity; a checksum.
    ...[12, 16, 51, 60, original.length - 1].map(flipped),
  ];
  for (const cache of damages) {
    assert.deepEqual(await answersWith(cache), expected);
    const { entries } = decodeIdentities((await files.read(cachePath)).subarray(cacheHeadBytes));
    assert.equal(entries.size, distinct, "what was lost is written again");
  }
  // An entry that is valid, and false, shows that the cache is read at all.
  const ids = [...decodeIdentities(original.subarray(cacheHeadBytes)).entries.keys()];
  const empty = [original.subarray(0, cacheHeadBytes), ...ids.map((id) => encodeIdentities(id, []))];
  assert.notDeepEqual(await answersWith(Buffer.concat(empty)), expected);
});
