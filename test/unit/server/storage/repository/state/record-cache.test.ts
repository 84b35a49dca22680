/**
 * The record cache saves time and is never trusted: whatever it contains, the records are those of the packs.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import "../../../../../helpers/property-seed.js";
import { decodeRecordCache } from "../../../../../../server/storage/repository/state/record-cache.js";
import {
  memoryHome,
  modelOf,
  openRepository,
  sameTensors,
  tensorsOf,
} from "../../../../../integration/server/storage/repository/harness.js";

/** "STEMRECC", format u32. */
const headBytes = 12;
const path = "/home/fleets/fleet-a/records.cache";

async function homeWithVersions() {
  // What the index holds is not in the cache.
  const setup = await memoryHome(Infinity);
  const repository = await openRepository(setup.home, "fleet-a");
  for (const seed of ["a", "b", "c"]) await repository.save(modelOf(tensorsOf(seed, 1, 4)), { name: seed });
  const versions = repository.versions();
  await repository.close();
  await setup.home.close();
  return { ...setup, versions };
}

test("whatever is done to the cache, opening gives the same versions", async () => {
  const { files, reopen, versions } = await homeWithVersions();
  const original = await files.read(path);
  assert.equal(decodeRecordCache(original.subarray(headBytes)).records.size, 3);
  const damages: readonly ((bytes: Uint8Array) => Uint8Array)[] = [
    (bytes) => bytes.subarray(0, 0),
    (bytes) => bytes.subarray(0, 11),
    (bytes) => bytes.subarray(0, bytes.length - 7),
    (bytes) => bytes.map((byte, at) => (at === 40 ? byte ^ 1 : byte)),
    (bytes) => bytes.map((byte, at) => (at === 14 ? 0xff : byte)),
    (bytes) => Uint8Array.from([...bytes, 1, 2, 3]),
    (bytes) => bytes.fill(0),
  ];
  let known = versions;
  for (const damage of damages) {
    await files.remove(path);
    const file = await files.open(path, "create");
    await file.write(damage(original.slice()), 0);
    await file.close();
    const home = await reopen();
    const repository = await openRepository(home, "fleet-a");
    assert.deepEqual(repository.versions(), known);
    const { summary } = await repository.save(modelOf(tensorsOf("again", 1, 4)), { name: "again" });
    assert.ok(await sameTensors(repository, summary.versionId, tensorsOf("again", 1, 4)));
    await repository.close();
    await home.close();
    known = [...known, summary];
    const { records } = decodeRecordCache((await files.read(path)).subarray(headBytes));
    for (const { versionId } of known) assert.ok(records.has(versionId), "what was lost is written again");
  }
});

test("any bytes are decoded without an error and within their length", () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 200 }), (tail) => {
      const { end, records } = decodeRecordCache(tail);
      assert.ok(end <= tail.length);
      for (const bytes of records.values()) assert.ok(bytes.length <= tail.length);
    }),
  );
});
