/** Each check of new metadata by itself: a set that is right but for one thing is not taken, and says which. */
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { describe, it } from "node:test";
import { keyOfSeed } from "../../../../../shared/trust/keys.js";
import {
  keyIdOf,
  metadataText,
  withSignature,
  type Metadata,
  type ReleaseRole,
} from "../../../../../shared/trust/releases/metadata.js";
import {
  freshTargets,
  pinnedRoot,
  updateReleases,
  type MetadataSet,
  type TrustedReleases,
} from "../../../../../shared/trust/releases/trusted-releases.js";
import { dayMs, keysFor, startMs, validity } from "../../../../helpers/release-owner.js";
import { firstChange } from "../../../../../shared/trust/releases/release-change.js";

type Role = Exclude<ReleaseRole, "root">;
interface Versions {
  readonly timestamp?: number;
  /** As the timestamp names it, and its own. */
  readonly snapshot?: number;
  readonly ownSnapshot?: number;
  readonly targets?: number;
  readonly ownTargets?: number;
  /** Who signs each role. */
  readonly by?: Partial<Record<Role, readonly string[]>>;
  /** What ends at the start. */
  readonly ended?: Role;
  /** What the role above states of a file beside its version. */
  readonly stated?: Partial<Record<"snapshot" | "targets", (text: string) => object>>;
  /** A member that is not known here. */
  readonly note?: Partial<Record<Role, string>>;
}

const keys = keysFor({ root: ["a"], targets: ["b"], online: ["d"] });
const first = firstChange("plant", keys, validity);
const expiresAt = (ms: number): string => new Date(ms).toISOString().replace(".000Z", "Z");

function signedText(metadata: Metadata, by: readonly string[]): string {
  const signed = by.reduce((content, digit) => {
    const key = keyOfSeed(digit.repeat(64));
    return withSignature(content, keyIdOf(key.publicKey), key);
  }, metadata);
  return metadataText(signed);
}
/** A root of these keys, with other members. */
function rootText(
  { version = 1, endMs = startMs + 900 * dayMs }: { readonly version?: number; readonly endMs?: number },
  by: readonly string[],
  of = keys,
): string {
  const { signed } = firstChange("plant", of, validity).root as Metadata<"root">;
  return signedText({ signatures: [], signed: { ...signed, version, expires: expiresAt(endMs) } }, by);
}
const pinned = rootText({}, ["a"]);

function setOf(versions: Versions = {}, roots: readonly string[] = [pinned]): MetadataSet {
  const { timestamp = 5, snapshot = 5, targets = 5, by = {}, ended, stated = {}, note = {} } = versions;
  const text = (role: Role, members: object, digits: readonly string[]): string =>
    signedText(
      {
        signatures: [],
        signed: {
          ...first[role].signed,
          ...members,
          ...(role === ended ? { expires: expiresAt(startMs) } : {}),
          ...(note[role] === undefined ? {} : { note: note[role] }),
        },
      },
      by[role] ?? digits,
    );
  const targetsText = text("targets", { version: versions.ownTargets ?? targets }, ["b"]);
  const ofTargets = { version: targets, ...stated.targets?.(targetsText) };
  const snapshotText = text(
    "snapshot",
    { version: versions.ownSnapshot ?? snapshot, meta: { "targets.json": ofTargets } },
    ["d"],
  );
  const ofSnapshot = { version: snapshot, ...stated.snapshot?.(snapshotText) };
  return {
    roots,
    timestamp: text("timestamp", { version: timestamp, meta: { "snapshot.json": ofSnapshot } }, ["d"]),
    snapshot: snapshotText,
    targets: targetsText,
  };
}

/** What is trusted after the set: the code of its error, and the version of each role. */
function taken(
  set: MetadataSet,
  before: TrustedReleases = pinnedRoot(pinned),
  nowMs = startMs,
): readonly unknown[] {
  const { trusted, error } = updateReleases(before, set, nowMs);
  const versions = [trusted.root, trusted.timestamp, trusted.snapshot, trusted.targets].map(
    (role) => role?.signed.version,
  );
  return [error?.code, ...versions];
}
const before = updateReleases(pinnedRoot(pinned), setOf(), startMs).trusted;
const [invalid, back, expired] = ["RELEASE_METADATA_INVALID", "RELEASE_ROLLED_BACK", "RELEASE_EXPIRED"];
const none = undefined;

describe("a root that is pinned", () => {
  it("is signed by its own keys", () => {
    assert.equal(pinnedRoot(pinned).root.signed.version, 1);
    for (const by of [[], ["b"], ["9"]])
      assert.throws(() => pinnedRoot(rootText({}, by)), { code: invalid }, by.join());
  });
});

describe("new roots", () => {
  const next = keysFor({ root: ["c"], targets: ["b"], online: ["d"] });
  const second = (by: readonly string[], version = 2): string => rootText({ version }, by, next);
  const after = (...roots: readonly string[]): unknown => taken(setOf({}, [pinned, ...roots]))[1];

  it("are signed by the keys before and by their own", () => {
    assert.equal(after(second(["a", "c"])), 2);
    assert.equal(after(second(["a"])), 1, "not by its own");
    assert.equal(after(second(["c"])), 1, "not by those before");
    assert.equal(after(second([])), 1);
  });

  it("follow each other, and earlier ones change nothing", () => {
    assert.equal(after(second(["a", "c"], 3)), 1);
    assert.deepEqual(taken(setOf({}, [second(["a", "c"], 3)])), [invalid, 1, none, none, none]);
    const third = rootText({ version: 3 }, ["c"], next);
    assert.equal(after(second(["a", "c"]), third), 3);
    assert.equal(after(second(["a", "c"]), third, pinned, second(["a", "c"])), 3);
  });

  it("are at most 32 in a set, and are fresh", () => {
    const many = (count: number) => taken(setOf({}, Array<string>(count).fill(pinned)))[0];
    assert.equal(many(32), none);
    assert.equal(many(33), invalid);
    const ending = rootText({ version: 2, endMs: startMs }, ["a"]);
    assert.deepEqual(taken(setOf({}, [ending])), [expired, 2, none, none, none]);
    assert.deepEqual(taken(setOf({}, [ending]), before, startMs - 1), [none, 2, 5, 5, 5]);
  });

  it("end what rotated keys had signed: the online roles together, the targets with any", () => {
    const known = (of: typeof keys): readonly unknown[] =>
      taken({ ...setOf({}, [rootText({ version: 2 }, ["a"], of)]), timestamp: "" }, before);
    const other = { publicKeys: [keyOfSeed("e".repeat(64)).publicKey], threshold: 1 };
    assert.deepEqual(known(keys), [invalid, 2, 5, 5, 5]);
    assert.deepEqual(known({ ...keys, targets: other }), [invalid, 2, 5, 5, none]);
    for (const role of ["timestamp", "snapshot"] as const)
      assert.deepEqual(known({ ...keys, [role]: other }), [invalid, 2, none, none, none], role);
  });
});

describe("each role of a set", () => {
  it("is taken as the role above it names it", () => {
    assert.deepEqual(taken(setOf()), [none, 1, 5, 5, 5]);
    assert.deepEqual(taken(setOf(), before), [none, 1, 5, 5, 5]);
    assert.deepEqual(taken(setOf({ timestamp: 6, snapshot: 7, targets: 8 }), before), [none, 1, 6, 7, 8]);
    assert.deepEqual(taken(setOf({ ownSnapshot: 6 })), [invalid, 1, 5, none, none]);
    assert.deepEqual(taken(setOf({ ownTargets: 6 })), [invalid, 1, 5, 5, none]);
  });

  it("has the length and the hashes that the role above it states, where it states them", () => {
    const hash = (algorithm: string) => (text: string) => createHash(algorithm).update(text).digest("hex");
    const right = [
      (text: string) => ({ length: Buffer.byteLength(text) }),
      (text: string) => ({ hashes: { sha256: hash("sha256")(text) } }),
      (text: string) => ({ hashes: { sha512: hash("sha512")(text), "blake2b-256": "00".repeat(32) } }),
    ];
    const wrong = [
      (text: string) => ({ length: Buffer.byteLength(text) + 1 }),
      (text: string) => ({ hashes: { sha256: hash("sha256")(`${text} `) } }),
      (text: string) => ({ hashes: { sha256: hash("sha256")(text), sha512: "00".repeat(64) } }),
      () => ({ hashes: { "blake2b-256": "00".repeat(32) } }),
      () => ({ hashes: {} }),
    ];
    for (const of of right)
      assert.deepEqual(taken(setOf({ stated: { snapshot: of, targets: of } })), [none, 1, 5, 5, 5]);
    for (const of of wrong) {
      assert.deepEqual(taken(setOf({ stated: { snapshot: of } })), [invalid, 1, 5, none, none]);
      assert.deepEqual(taken(setOf({ stated: { targets: of } })), [invalid, 1, 5, 5, none]);
    }
  });

  it("counts only as part of a set that belongs together", () => {
    assert.equal(freshTargets(before, startMs).signed.version, 5);
    const withheld = setOf({ timestamp: 6, snapshot: 6, targets: 6, ownTargets: 5 });
    const without = updateReleases(before, withheld, startMs).trusted;
    assert.equal(without.targets?.signed.version, 5);
    assert.throws(() => freshTargets(without, startMs), { code: invalid });
    const half = updateReleases(
      before,
      setOf({ timestamp: 6, snapshot: 6, ownSnapshot: 5 }),
      startMs,
    ).trusted;
    assert.throws(() => freshTargets(half, startMs), { code: invalid });
    const whole = updateReleases(without, setOf({ timestamp: 6, snapshot: 6, targets: 6 }), startMs).trusted;
    assert.equal(freshTargets(whole, startMs).signed.version, 6);
  });

  it("is signed by its own keys", () => {
    for (const [role, trusted] of [
      ["timestamp", [none, none, none]],
      ["snapshot", [5, none, none]],
      ["targets", [5, 5, none]],
    ] as const)
      for (const by of [[], ["a"], [role === "targets" ? "d" : "b"], ["9"]])
        assert.deepEqual(
          taken(setOf({ by: { [role]: by } })),
          [invalid, 1, ...trusted],
          `${role} by ${by.join()}`,
        );
  });

  it("has not expired", () => {
    for (const [ended, trusted] of [
      ["timestamp", [none, none, none]],
      ["snapshot", [5, none, none]],
      ["targets", [5, 5, none]],
    ] as const) {
      assert.deepEqual(taken(setOf({ ended })), [expired, 1, ...trusted], ended);
      assert.deepEqual(taken(setOf({ ended }), pinnedRoot(pinned), startMs - 1), [none, 1, 5, 5, 5], ended);
    }
  });

  it("does not go back, by its own version or by the one that it names", () => {
    assert.deepEqual(taken(setOf({ timestamp: 4 }), before), [back, 1, 5, 5, 5]);
    assert.deepEqual(taken(setOf({ timestamp: 6, snapshot: 4 }), before), [back, 1, 5, 5, 5]);
    assert.deepEqual(taken(setOf({ timestamp: 6, snapshot: 6, targets: 4 }), before), [back, 1, 6, 5, 5]);
  });

  it("has one content under one number", () => {
    const note = "another";
    assert.deepEqual(taken(setOf({ note: { timestamp: note } }), before), [back, 1, 5, 5, 5]);
    assert.deepEqual(taken(setOf({ note: { snapshot: note } }), before), [back, 1, 5, 5, 5]);
    assert.deepEqual(taken(setOf({ note: { targets: note } }), before), [back, 1, 5, 5, 5]);
    const all = { timestamp: note, snapshot: note, targets: note };
    assert.deepEqual(taken(setOf({ timestamp: 6, snapshot: 6, targets: 6, note: all }), before), [
      none,
      1,
      6,
      6,
      6,
    ]);
    // Neither is anything of an absent role compared.
    assert.deepEqual(taken(setOf({ note: all })), [none, 1, 5, 5, 5]);
  });
});
