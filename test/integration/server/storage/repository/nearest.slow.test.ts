/** More models than the keeper of prefixes has at hand. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Hash } from "../../../../../shared/tensor/tensor.js";
import {
  candidateArchitecture,
  randomNumbers,
  savable,
  searchedChoices,
} from "../../../../helpers/random-architectures.js";
import { memoryHome, openRepository } from "./harness.js";
import { saveArchitecture } from "./save-architecture.js";

const cachePath = "/home/fleets/fleet-a/layers.cache";

test("questions by a fleet's own models read nothing again: its cache stays as it is, and no model gets lost", async () => {
  const { home, files } = await memoryHome();
  const repository = await openRepository(home, "fleet-a");
  // More architectures than the keeper has at hand.
  const candidates = searchedChoices(300, randomNumbers(4)).map(candidateArchitecture).map(savable);
  const ids: Hash[] = [];
  for (const [i, architecture] of candidates.entries())
    ids.push(await saveArchitecture(repository, architecture, `m${i}`));
  const ask = async (at: number): Promise<unknown> => repository.nearest(candidates[at]!, ids[at]);
  const first = await ask(0);
  const { length } = await files.read(cachePath);
  for (let at = 0; at < candidates.length; at++) await ask(at);
  assert.equal((await files.read(cachePath)).length, length);
  assert.deepEqual(await ask(0), first);
  // An architecture that is saved again, after others took its place at hand, is in the file already.
  await saveArchitecture(repository, candidates[0]!, "again");
  assert.equal((await repository.nearest(candidates[1]!)).indexed, candidates.length + 1);
  assert.equal((await files.read(cachePath)).length, length);
  await repository.close();
  await home.close();
});
