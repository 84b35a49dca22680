/** The keeper of the index of prefixes: what it reads of a fleet, and that the event loop takes its turn meanwhile. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { PostingIndex } from "../../../../../server/storage/lineage/posting-index.js";
import { IdentityCache } from "../../../../../server/storage/repository/identity-cache.js";
import { PrefixKeeper } from "../../../../../server/storage/repository/prefix-keeper.js";
import { emptyState } from "../../../../../server/storage/repository/state/state.js";
import type { VersionTable } from "../../../../../server/storage/repository/state/version-table.js";
import { encodeArchitecture } from "../../../../../shared/model/architecture.js";
import { sha256 } from "../../../../../shared/tensor/hash.js";
import type { Hash } from "../../../../../shared/tensor/tensor.js";
import { memoryFiles } from "../../../../helpers/files/memory-files.js";
import { candidateArchitecture, savable } from "../../../../helpers/random-architectures.js";

const count = 5_000;
const architecture = savable(candidateArchitecture([1, 2, 3]));
const architectureId = sha256("architecture");
const idOf = (i: number): Hash => sha256(`version ${i}`);

test("a large fleet of one architecture is read in steps, its architecture once, and another version is the answer", async () => {
  const state = emptyState();
  const records = new Map<Hash, object>();
  for (let i = 0; i < count; i++) {
    state.versions.add({ versionId: idOf(i), position: i } as never);
    records.set(idOf(i), { objects: { architecture: architectureId }, savedAtMs: i });
  }
  let reads = 0;
  const keeper = new PrefixKeeper({
    table: { state, records } as unknown as VersionTable,
    objects: {
      read: () => {
        reads++;
        return Promise.resolve(encodeArchitecture(architecture));
      },
    },
    cache: new IdentityCache(memoryFiles(), "/fleet"),
    createIndex: () => new PostingIndex(),
    log: undefined,
  });
  let turns = 0;
  let isDone = false;
  const takeTurn = (): void => {
    turns++;
    if (!isDone) setImmediate(takeTurn);
  };
  setImmediate(takeTurn);
  const { nearest, indexed } = await keeper.nearest(architecture, idOf(count - 1));
  isDone = true;
  assert.equal(nearest?.versionId, idOf(count - 2));
  assert.equal(indexed, count - 1);
  assert.equal(reads, 2, "once for the index, once for the answer");
  assert.ok(turns >= count / 1_000 - 1, `${turns} turns of the event loop`);
});
