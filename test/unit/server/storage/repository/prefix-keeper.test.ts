/** The keeper of the index of prefixes: what it reads of a fleet, and what it knows after changes. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { CandidateTable } from "../../../../../server/storage/lineage/candidate-table.js";
import { PostingIndex } from "../../../../../server/storage/lineage/posting-index.js";
import { DecodedArchitectures } from "../../../../../shared/model/kept-architectures.js";
import { IdentityCache } from "../../../../../server/storage/repository/identity-cache.js";
import { PrefixKeeper } from "../../../../../server/storage/repository/prefix-keeper.js";
import { emptyState } from "../../../../../server/storage/repository/state/state.js";
import type { ChangingVersion } from "../../../../../server/storage/repository/state/version-state.js";
import { encodeArchitecture } from "../../../../../shared/model/architecture.js";
import type { SaveRecord } from "../../../../../shared/model/model.js";
import { sha256 } from "../../../../../shared/tensor/hash.js";
import type { Hash } from "../../../../../shared/tensor/tensor.js";
import { memoryFiles } from "../../../../helpers/files/memory-files.js";
import { candidateArchitecture, savable } from "../../../../helpers/random-architectures.js";

const count = 5_000;
const architecture = savable(candidateArchitecture([1, 2, 3]));
const architectureId = sha256("architecture");
const idOf = (i: number): Hash => sha256(`version ${i}`);

test("a fleet of one architecture costs a read of it, and another version is the answer", async () => {
  const state = emptyState();
  const records = new Map<Hash, SaveRecord>();
  const candidates = new CandidateTable({ ranked: 1, ranks: 2 }, { rows: undefined, commits: 0 });
  const add = (i: number): void => {
    state.versions.add({ versionId: idOf(i), position: i } as never);
    records.set(idOf(i), { objects: { architecture: architectureId }, savedAtMs: i } as SaveRecord);
    candidates.add(i, architectureId, { id: idOf(i), savedAtMs: i });
  };
  for (let i = 0; i < count; i++) add(i);
  let reads = 0;
  const keeper = new PrefixKeeper({
    table: { state, records },
    candidates,
    architectures: new DecodedArchitectures({
      read: () => {
        reads++;
        return Promise.resolve(encodeArchitecture(architecture));
      },
    }),
    cache: new IdentityCache(memoryFiles(), "/fleet"),
    createIndex: () => new PostingIndex(),
    log: undefined,
  });
  const nearest = async (except?: Hash) => {
    const found = await keeper.nearest(architecture, except);
    return [found.nearest?.versionId, found.indexed];
  };
  assert.deepEqual(await nearest(idOf(count - 1)), [idOf(count - 2), count - 1]);
  assert.equal((await keeper.ranked(architecture, "prefix=1"))?.versionId, idOf(count - 1));
  assert.equal((await keeper.ranked(architecture, "prefix=1", idOf(count - 1)))?.versionId, idOf(count - 2));
  assert.equal(reads, 1, "one architecture, decoded once");
  assert.deepEqual(await nearest(), [idOf(count - 1), count]);
  add(count);
  keeper.changed([idOf(count)]);
  assert.deepEqual(await nearest(), [idOf(count), count + 1]);
  assert.deepEqual(await nearest(idOf(7)), [idOf(count), count]);
  for (const i of [count, count - 1])
    state.versions.change(idOf(i), (version: ChangingVersion) => {
      version.retired = { atMs: 0, because: "x" };
    });
  // The keeper is not told of the other one: its process ended in this moment.
  keeper.changed([idOf(count)]);
  assert.deepEqual(await nearest(), [idOf(count - 2), count - 1]);
  assert.deepEqual(await nearest(sha256("unknown")), [idOf(count - 2), count - 1]);
});
