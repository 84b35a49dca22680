/** Disk accounting: how much each purpose may use. Unreleased versions are never chosen for removal. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import fc from "fast-check";
import { freeDisk } from "../../../helpers/free-disk.js";
import "../../../helpers/property-seed.js";
import {
  forgettable,
  judgeDisk,
  type DiskUse,
  type KeptVersion,
} from "../../../../agent/resources/disk-budget.js";

const disk = { budgetBytes: 1000, reserveBytes: { slots: 100, outbox: 50, head: 10 }, keepLast: 1 };
const use: DiskUse = { ...freeDisk, packs: 300, versions: 200, samples: 50, trials: 50, free: 10_000 };

describe("the disk budget", () => {
  it("stops training before installing, and installing before reporting", () => {
    const allowed = (purpose: "train" | "install" | "report", need: number): boolean =>
      judgeDisk(disk, use, purpose, need).allowed;
    assert.deepEqual([allowed("train", 240), allowed("train", 241)], [true, false]);
    assert.deepEqual([allowed("install", 340), allowed("install", 341)], [true, false]);
    assert.deepEqual([allowed("report", 390), allowed("report", 391)], [true, false]);
  });
  it("uses the file system's free space if that is less", () => {
    const verdict = judgeDisk(disk, { ...use, free: 200 }, "train", 41);
    assert.equal(verdict.allowed, false);
    assert.match(verdict.reason, /1 are missing within the disk, which has 200 bytes free/);
  });

  const version = fc.record({
    line: fc.constantFrom("a", "b"),
    sequence: fc.nat(50),
    released: fc.boolean(),
    active: fc.boolean(),
    needed: fc.boolean(),
  });
  const versions = fc
    .array(version, { maxLength: 30 })
    .map((list) => list.map((one, at): KeptVersion => ({ ...one, versionId: String(at) })));
  it("forgets exactly the versions that are released, idle and older than the last N of their line", () => {
    fc.assert(
      fc.property(versions, fc.integer({ min: 1, max: 5 }), (kept, keepLast) => {
        const gone = new Set(forgettable(kept, keepLast));
        for (const one of kept)
          if (gone.has(one.versionId)) assert.ok(one.released && !one.active && !one.needed);
        for (const line of ["a", "b"]) {
          const released = kept.filter((one) => one.line === line && one.released);
          const left = released.filter((one) => !gone.has(one.versionId));
          assert.ok(left.length >= Math.min(keepLast, released.length));
          assert.ok(left.filter((one) => !one.active && !one.needed).length <= keepLast);
        }
      }),
    );
  });
});
