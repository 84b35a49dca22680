/** The plan of drops against a plain model: what is left without tensors is recovered within the bound. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import fc from "fast-check";
import {
  planDrops,
  type DroppableVersion,
} from "../../../../../../server/storage/repository/retention/drop-plan.js";
import { sha256 } from "../../../../../../shared/tensor/hash.js";

interface Version extends DroppableVersion {
  readonly number: number;
  readonly isAsked: boolean;
}

const idOf = (number: number): ReturnType<typeof sha256> => sha256(`version ${number}`);

/** Forests in which each version was trained from an earlier one, from none, or from one that is not kept. */
const forests = fc
  .array(
    fc.record({
      from: fc.double({ min: 0, max: 1, noNaN: true }),
      kind: fc.constantFrom("root", "child", "child", "child", "orphan"),
      replayMs: fc.option(fc.integer({ min: 0, max: 40 }), { nil: undefined, freq: 5 }),
      isDropped: fc.boolean(),
      stays: fc.option(fc.constant("held"), { nil: undefined, freq: 3 }),
      isAsked: fc.boolean(),
    }),
    { maxLength: 24 },
  )
  .map((drawn) =>
    drawn.map(({ from, kind, ...version }, number): Version => {
      const isRoot = kind === "root" || (kind === "child" && number === 0);
      const base = isRoot ? null : kind === "orphan" ? idOf(-1) : idOf(Math.floor(from * (number - 1)));
      // Versions were dropped with a measured time and a base that is kept.
      const isDropped = version.isDropped && version.replayMs !== undefined && kind !== "orphan";
      return { ...version, number, versionId: idOf(number), base, isDropped };
    }),
  );

/** Milliseconds of the trainings between a version and its nearest ancestor with tensors. */
function recoveryMs(versions: readonly Version[], without: ReadonlySet<string>, start: Version): number {
  let sum = 0;
  for (
    let at: Version | undefined = start;
    at !== undefined && without.has(at.versionId);
    at = versions.find(({ versionId }) => versionId === at?.base)
  )
    sum += at.replayMs ?? Number.POSITIVE_INFINITY;
  return sum;
}

describe("planDrops", () => {
  it("drops what was asked for and may go, within the bound of every recovery, and nothing else", () => {
    fc.assert(
      fc.property(forests, fc.integer({ min: 0, max: 120 }), (versions, maxMs) => {
        const before = new Set<string>(
          versions.filter(({ isDropped }) => isDropped).map((one) => one.versionId),
        );
        const { drop, keep } = planDrops(versions, ({ isAsked }) => isAsked, maxMs);
        const after = new Set([...before, ...drop.map(({ version }) => version.versionId)]);
        for (const { version, recoveryMs: ms } of drop) {
          assert.ok(version.isAsked && version.stays === undefined && version.replayMs !== undefined);
          assert.ok(version.base === null || versions.some(({ versionId }) => versionId === version.base));
          assert.ok(ms <= maxMs && ms === recoveryMs(versions, after, version));
        }
        // What was within the bound stays within it.
        for (const version of versions) {
          const ms = recoveryMs(versions, after, version);
          assert.ok(
            ms <= Math.max(maxMs, recoveryMs(versions, before, version)),
            `version ${version.number}`,
          );
        }
        // Each asked version is decided once; one that could still go was over the bound for itself or a descendant.
        assert.equal(
          drop.length + keep.length,
          versions.filter((one) => one.isAsked && !one.isDropped).length,
        );
        for (const { version } of keep) {
          if (version.stays !== undefined || version.replayMs === undefined) continue;
          if (version.base !== null && !versions.some(({ versionId }) => versionId === version.base))
            continue;
          const with_ = new Set([...after, version.versionId]);
          const changed = versions.filter(
            (one) => recoveryMs(versions, with_, one) !== recoveryMs(versions, after, one),
          );
          const longest = Math.max(...changed.map((one) => recoveryMs(versions, with_, one)));
          if (version.replayMs === 0) continue;
          assert.ok(longest > maxMs, `version ${version.number} was kept for nothing`);
        }
      }),
    );
  });

  it("names the reason where only other versions make a recovery too long", () => {
    const chain = [0, 1, 2].map((number): Version => ({
      number,
      versionId: idOf(number),
      base: number === 0 ? null : idOf(number - 1),
      isDropped: number === 2,
      replayMs: 10,
      isAsked: true,
    }));
    const { drop, keep } = planDrops(chain, () => true, 20);
    assert.deepEqual(
      drop.map(({ version }) => version.number),
      [0],
    );
    assert.match(keep[0]?.because ?? "", /recovered from/);
  });
});
