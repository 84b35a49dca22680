/** A device's standing to a rollout's version, in any lineage: by what it was given and trained, never by others. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import fc from "fast-check";
import { standingsOf } from "../../../../../server/fleet/rollout/family.js";
import type { DeviceSummary } from "../../../../../server/storage/repository/answers/device-answers.js";
import { sha256 } from "../../../../../shared/tensor/hash.js";
import type { Hash } from "../../../../../shared/tensor/tensor.js";
import "../../../../helpers/property-seed.js";

const id = (number: number): Hash => sha256(`version ${number}`);
const devices = ["", "a", "b"];
interface Version {
  readonly device: string;
  readonly bases: readonly number[];
}
/** Versions of which each has bases before it. */
const lineages = fc
  .array(fc.record({ device: fc.constantFrom(...devices), from: fc.array(fc.nat(20), { maxLength: 2 }) }), {
    minLength: 1,
    maxLength: 12,
  })
  .map((drawn) =>
    drawn.map(({ device, from }, at): Version => ({
      device,
      bases: at === 0 ? [] : [...new Set(from.map((each) => each % at))],
    })),
  );

function repositoryOf(versions: readonly Version[]): Parameters<typeof standingsOf>[0] {
  const descendsFrom = (at: number, ancestor: number): boolean =>
    (versions[at]?.bases ?? []).some((base) => base === ancestor || descendsFrom(base, ancestor));
  return {
    get: (versionId: Hash) => {
      const version = versions.find((_, at) => id(at) === versionId);
      return version && { versionId, record: { device: version.device, bases: version.bases.map(id) } };
    },
    claim: () => undefined,
    descendants: (versionId: Hash) => {
      const ancestor = versions.findIndex((_, at) => id(at) === versionId);
      const found = versions.flatMap((_, at) => (descendsFrom(at, ancestor) ? [at] : []));
      return { descendants: found.map((at) => ({ version: { versionId: id(at) } })), total: found.length };
    },
  } as unknown as Parameters<typeof standingsOf>[0];
}

const runner = (runs: number | undefined, assigned?: object): DeviceSummary =>
  ({
    device: "a",
    active: runs === undefined ? {} : { l: { versionId: id(runs) } },
    ...(assigned === undefined ? {} : { assigned: { l: assigned } }),
  }) as unknown as DeviceSummary;

describe("how a device stands to a rollout's version", () => {
  it("follows from what it was given and trained itself", () => {
    fc.assert(
      fc.property(lineages, fc.nat(11), fc.nat(11), (versions, target, running) => {
        const [versionId, runs] = [target % versions.length, running % versions.length];
        const standing = standingsOf(repositoryOf(versions), { line: "l", versionId: id(versionId) })(
          runner(runs),
        );
        // Over its own versions alone, back to what it was given.
        const reach = (at: number): readonly number[] =>
          versions[at]?.device === "a" ? [at, ...(versions[at]?.bases ?? []).flatMap(reach)] : [at];
        const reached = new Set(reach(runs));
        assert.equal(standing === "has", reached.has(versionId));
        if (standing === "other")
          assert.ok(
            ![...reached].some(
              (at) => versions[at]?.device !== "a" && ancestorsOf(versions, at).has(versionId),
            ),
          );
      }),
    );
  });

  it("takes an earlier version back to who runs a later one that was given", () => {
    const versions = [
      { device: "", bases: [] },
      { device: "", bases: [0] },
      { device: "a", bases: [1] },
      { device: "a", bases: [0] },
    ];
    const of = (versionId: number, runs?: number, assigned?: object, createdAtMs?: number): string =>
      standingsOf(repositoryOf(versions), {
        line: "l",
        versionId: id(versionId),
        ...(createdAtMs === undefined ? {} : { createdAtMs }),
      })(runner(runs, assigned));
    assert.equal(of(0), "other");
    assert.equal(of(0, 1), "goes back");
    assert.equal(of(0, 2), "goes back", "its fine-tune of the later one");
    assert.equal(of(0, 3), "has", "its fine-tune of the version itself");
    assert.equal(of(1, 2), "has");
    assert.equal(of(1, 3), "other");
    const given = { versionId: id(1), atMs: 5 };
    assert.equal(of(0, 1, given, 4), "newer");
    assert.equal(of(0, 1, given, 6), "goes back");
    assert.equal(of(0, 1, given, 5), "goes back", "it was not given after that");
    assert.equal(of(0, 1, { versionId: id(0), atMs: 5 }, 4), "goes back", "another one was given since");
  });

  it("counts what a device trained itself also where the server only has its claim, and no version is left out", () => {
    const claimed = [
      { device: "", bases: [] },
      { device: "a", bases: [0] },
      { device: "a", bases: [1] },
      { device: "b", bases: [0] },
    ];
    const known = repositoryOf(claimed);
    const claimsOnly = { ...known, get: () => undefined, claim: known.get } as unknown as typeof known;
    const standing = standingsOf(claimsOnly, { line: "l", versionId: id(0) });
    assert.equal(standing(runner(2)), "has");
    assert.equal(standing(runner(3)), "goes back", "what another device claims is not its own");
    // A version of which nothing is known is not its own either.
    assert.equal(standing(runner(9)), "other");
  });
});

function ancestorsOf(versions: readonly Version[], at: number): ReadonlySet<number> {
  const bases = versions[at]?.bases ?? [];
  return new Set(bases.flatMap((base) => [base, ...ancestorsOf(versions, base)]));
}
