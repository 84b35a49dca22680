/** Attacks on releases, each by its name in the TUF specification, section 1.5.2, against shared/trust/releases. */
import assert from "node:assert/strict";
import type { Hash } from "../../../../../shared/tensor/tensor.js";
import { describe, it } from "node:test";
import { keyOfSeed, type PrivateKey } from "../../../../../shared/trust/keys.js";
import { changeText, describeChange, parseChange } from "../../../../../shared/trust/releases/change-file.js";
import { verifyManifest } from "../../../../../shared/trust/releases/manifest.js";
import {
  addRelease,
  describeSignatures,
  refreshReleases,
  revokeRelease,
  rotateKeys,
  signaturesOf,
  signChange,
} from "../../../../../shared/trust/releases/release-change.js";
import {
  freshTargets,
  pinnedRoot,
  updateReleases,
} from "../../../../../shared/trust/releases/trusted-releases.js";
import {
  dayMs,
  fleetOwner,
  keysFor,
  manifestFor,
  startMs,
  validity,
} from "../../../../helpers/release-owner.js";

const key = (digit: string): PrivateKey => keyOfSeed(digit.repeat(64));
const codeOf = (error: unknown): unknown => (error as { code?: unknown } | undefined)?.code;

describe("releases", () => {
  it("takes what the owner signed, and nothing of it twice", () => {
    const owner = fleetOwner();
    const set = owner.release("winter", manifestFor("1"));
    const { trusted, error } = updateReleases(pinnedRoot(owner.roots[0] ?? ""), set, startMs);
    assert.equal(error, undefined);
    const targets = freshTargets(trusted, startMs).signed;
    const manifest = verifyManifest(targets, "winter", owner.manifestBytes("winter"));
    assert.equal(manifest.versionId, "1".repeat(64));
    assert.deepEqual(updateReleases(trusted, set, startMs).trusted, trusted);
  });

  it("arbitrary software: signed by others, or not at all", () => {
    const owner = fleetOwner();
    owner.release("winter", manifestFor("1"));
    const thief = fleetOwner({ seeds: { root: ["9"], targets: ["9"], online: ["9"] } });
    const set = thief.release("winter", manifestFor("2"));
    const start = pinnedRoot(owner.roots[0] ?? "");
    const update = updateReleases(start, { ...set, roots: owner.roots }, startMs);
    assert.equal(codeOf(update.error), "RELEASE_METADATA_INVALID");
    assert.equal(update.trusted.targets, undefined);
    const unsigned = set.targets.replace(/"sig":"[0-9a-f]+"/, '"sig":""');
    assert.equal(
      codeOf(updateReleases(start, { ...owner.set(), targets: unsigned }, startMs).error),
      "RELEASE_METADATA_INVALID",
    );
  });

  it("rollback: older timestamp, snapshot and targets are refused", () => {
    const owner = fleetOwner();
    const first = owner.release("winter", manifestFor("1"));
    const second = owner.release("spring", manifestFor("2"));
    const { trusted } = updateReleases(pinnedRoot(owner.roots[0] ?? ""), second, startMs);
    const back = updateReleases(trusted, first, startMs);
    assert.equal(codeOf(back.error), "RELEASE_ROLLED_BACK");
    assert.equal(back.trusted.targets?.signed.version, trusted.targets?.signed.version);
  });

  it("freeze and expired: nothing counts after its time, by the time that is given", () => {
    const owner = fleetOwner();
    const set = owner.release("winter", manifestFor("1"));
    const { trusted } = updateReleases(pinnedRoot(owner.roots[0] ?? ""), set, startMs);
    assert.throws(() => freshTargets(trusted, startMs + 91 * dayMs), { code: "RELEASE_EXPIRED" });
    const late = updateReleases(trusted, set, startMs + 91 * dayMs);
    assert.equal(codeOf(late.error), "RELEASE_EXPIRED");
    const fresh = owner.publish(
      refreshReleases("plant", owner.published(), { ...validity, nowMs: startMs + 80 * dayMs }, true),
    );
    const renewed = updateReleases(trusted, fresh, startMs + 91 * dayMs);
    assert.equal(renewed.error, undefined);
    // A clock in the past does not bring back what time the caller trusts has passed.
    assert.doesNotThrow(() => freshTargets(renewed.trusted, 0));
  });

  it("a refresh by the online keys leaves the targets as their keys signed them; a whole one needs them again", () => {
    const owner = fleetOwner();
    owner.release("winter", manifestFor("1"));
    const now = owner.published();
    const later = { ...validity, nowMs: startMs + dayMs };
    const online = refreshReleases("plant", now, later, true);
    assert.equal(online.targets, now.targets);
    const whole = refreshReleases("plant", now, later, false);
    assert.equal(whole.targets.signed.version, now.targets.signed.version + 1);
    assert.deepEqual(whole.targets.signed.targets, now.targets.signed.targets);
    for (const { snapshot, timestamp } of [online, whole]) {
      assert.equal(snapshot.signed.version, now.snapshot.signed.version + 1);
      assert.equal(timestamp.signed.version, now.timestamp.signed.version + 1);
    }
    const missing = (change: typeof online) =>
      signaturesOf(change)
        .filter(({ signatures, threshold }) => signatures < threshold)
        .map(({ role }) => role);
    assert.deepEqual(missing(online), ["snapshot", "timestamp"]);
    assert.deepEqual(missing(whole), ["targets", "snapshot", "timestamp"]);
  });

  it("nothing counts once any one of the four roles has expired", () => {
    const owner = fleetOwner();
    const set = owner.release("winter", manifestFor("1"));
    const { trusted } = updateReleases(pinnedRoot(owner.roots[0] ?? ""), set, startMs);
    const endMs = startMs + dayMs;
    const expires = new Date(endMs).toISOString().replace(".000Z", "Z");
    for (const role of ["root", "timestamp", "snapshot", "targets"] as const) {
      const metadata = trusted[role]!;
      const ending = { ...trusted, [role]: { ...metadata, signed: { ...metadata.signed, expires } } };
      assert.doesNotThrow(() => freshTargets(ending, endMs - 1), role);
      assert.throws(() => freshTargets(ending, endMs), { code: "RELEASE_EXPIRED" }, role);
    }
  });

  it("fast-forward recovery: new online keys bring the version numbers back", () => {
    const owner = fleetOwner();
    const set = owner.release("winter", manifestFor("1"));
    const { trusted } = updateReleases(pinnedRoot(owner.roots[0] ?? ""), set, startMs);
    const stolen = owner.forged("timestamp", 2 ** 31 - 2);
    const forwarded = updateReleases(trusted, stolen, startMs).trusted;
    assert.equal(forwarded.timestamp?.signed.version, 2 ** 31 - 2);
    const healthy = owner.set();
    assert.equal(codeOf(updateReleases(forwarded, healthy, startMs).error), "RELEASE_ROLLED_BACK");
    const rotated = owner.rotate({ root: ["a"], targets: ["b"], online: ["e"] });
    const after = updateReleases(forwarded, rotated, startMs);
    assert.equal(after.error, undefined);
    assert.equal(after.trusted.root.signed.version, 2);
  });

  it("mix-and-match: roles of different moments do not make a set", () => {
    const owner = fleetOwner();
    const first = owner.release("winter", manifestFor("1"));
    const second = owner.release("spring", manifestFor("2"));
    const start = pinnedRoot(owner.roots[0] ?? "");
    for (const mixed of [
      { ...second, targets: first.targets },
      { ...second, snapshot: first.snapshot },
      { ...first, targets: second.targets },
    ])
      assert.equal(codeOf(updateReleases(start, mixed, startMs).error), "RELEASE_METADATA_INVALID");
  });

  it("endless data: nothing longer than its bound is read", () => {
    const owner = fleetOwner();
    const set = owner.release("winter", manifestFor("1"));
    const start = pinnedRoot(owner.roots[0] ?? "");
    for (const [role, size] of [
      ["timestamp", 17 * 1024],
      ["snapshot", 17 * 1024],
      ["targets", 513 * 1024],
    ] as const) {
      const long = set[role] + " ".repeat(size);
      assert.equal(
        codeOf(updateReleases(start, { ...set, [role]: long }, startMs).error),
        "RELEASE_METADATA_INVALID",
      );
    }
    const many = { ...set, roots: Array.from({ length: 33 }, () => owner.roots[0] ?? "") };
    assert.equal(codeOf(updateReleases(start, many, startMs).error), "RELEASE_METADATA_INVALID");
    const deep = set.targets.replace(
      '"targets":{"winter"',
      `"x":${"[".repeat(40)}${"]".repeat(40)},"targets":{"winter"`,
    );
    assert.equal(
      codeOf(updateReleases(start, { ...set, targets: deep }, startMs).error),
      "RELEASE_METADATA_INVALID",
    );
  });

  it("wrong length and hash: the manifest is the signed one or none", () => {
    const owner = fleetOwner();
    const set = owner.release("winter", manifestFor("1"));
    const { trusted } = updateReleases(pinnedRoot(owner.roots[0] ?? ""), set, startMs);
    const targets = freshTargets(trusted, startMs).signed;
    const bytes = owner.manifestBytes("winter");
    assert.throws(() => verifyManifest(targets, "winter", bytes.subarray(1)), { code: "RELEASE_MISMATCH" });
    const changed = Buffer.from(
      Buffer.from(bytes).toString("latin1").replace("pack-soh", "pack-sox"),
      "latin1",
    );
    assert.equal(changed.length, bytes.length);
    assert.throws(() => verifyManifest(targets, "winter", changed), { code: "RELEASE_MISMATCH" });
    assert.throws(() => verifyManifest(targets, "summer", bytes), { code: "RELEASE_UNKNOWN" });
    assert.throws(() => verifyManifest(targets, "constructor", bytes), { code: "RELEASE_UNKNOWN" });
  });

  it("key rotation with threshold: the keys before and the new ones sign, each as many as they must", () => {
    const owner = fleetOwner({
      seeds: { root: ["a", "b", "c"], targets: ["b"], online: ["d"] },
      rootThreshold: 2,
    });
    const set = owner.release("winter", manifestFor("1"));
    const { trusted } = updateReleases(pinnedRoot(owner.roots[0] ?? ""), set, startMs);
    const keys = keysFor({ root: ["c", "e", "f"], targets: ["f"], online: ["d"] }, 2);
    let change = rotateKeys("plant", owner.published(), keys, validity);
    for (const seed of ["e", "f", "d"]) ({ change } = signChange(change, key(seed)));
    const short = { ...owner.setOf(change), roots: [...owner.roots, ...owner.setOf(change).roots.slice(-1)] };
    assert.equal(codeOf(updateReleases(trusted, short, startMs).error), "RELEASE_METADATA_INVALID");
    assert.deepEqual(signaturesOf(change).slice(0, 2), [
      { role: "root", isByOldKeys: true, signatures: 0, threshold: 2 },
      { role: "root", signatures: 2, threshold: 2 },
    ]);
    assert.deepEqual(signaturesOf(change).slice(0, 2).map(describeSignatures), [
      "root has 0 of 2 signatures by the keys before",
      "root has 2 of 2 signatures",
    ]);
    for (const seed of ["a", "b"]) ({ change } = signChange(change, key(seed)));
    const rotated = updateReleases(trusted, owner.publish(change), startMs);
    assert.equal(rotated.error, undefined);
    // The key that only the root before named signs nothing any more.
    const old = owner.setSignedBy(addRelease(owner.published(), "bad", manifestFor("9"), validity), [
      "b",
      "d",
    ]);
    assert.equal(codeOf(updateReleases(rotated.trusted, old, startMs).error), "RELEASE_METADATA_INVALID");
    // One key that signs twice is one signature.
    const twice = rotateKeys("plant", owner.published(), keys, validity);
    const once = signChange(signChange(twice, key("c")).change, key("c")).change;
    assert.equal(signaturesOf(once)[0]?.signatures, 1);
  });

  it("a root counts at once, also where the rest of its set is not valid", () => {
    const owner = fleetOwner();
    const set = owner.release("winter", manifestFor("1"));
    const { trusted } = updateReleases(pinnedRoot(owner.roots[0] ?? ""), set, startMs);
    const rotated = owner.rotate({ root: ["a"], targets: ["e"], online: ["d"] });
    const cut = updateReleases(trusted, { ...rotated, targets: set.targets }, startMs);
    assert.notEqual(cut.error, undefined);
    assert.equal(cut.trusted.root.signed.version, 2);
    assert.throws(() => freshTargets(cut.trusted, startMs), { code: "RELEASE_METADATA_INVALID" });
  });

  it("one role delegated by two parents: delegations are refused whole", () => {
    const owner = fleetOwner();
    const set = owner.release("winter", manifestFor("1"));
    const delegating = set.targets.replace(
      '"targets":{"winter"',
      '"delegations":{"keys":{},"roles":[]},"targets":{"winter"',
    );
    const { error } = updateReleases(
      pinnedRoot(owner.roots[0] ?? ""),
      { ...set, targets: delegating },
      startMs,
    );
    assert.equal(codeOf(error), "RELEASE_METADATA_INVALID");
  });

  it("a change of keys says of whom and how many from then on, of each role that changes and of no other", () => {
    const owner = fleetOwner();
    const keys = keysFor({ root: ["a", "c"], targets: ["b"], online: ["e"] }, 2);
    const lines = describeChange(rotateKeys("plant", owner.published(), keys, validity));
    const [a, c, d, e] = ["a", "c", "d", "e"].map((seed) => `${key(seed).publicKey.slice(0, 16)}…`);
    assert.deepEqual(lines.slice(0, 3), [
      `root is signed by 2 of ${a}, ${c}, before by 1 of ${a}`,
      `timestamp is signed by 1 of ${e}, before by 1 of ${d}`,
      `snapshot is signed by 1 of ${e}, before by 1 of ${d}`,
    ]);
    assert.ok(lines.every((line) => !line.startsWith("targets ")));
  });

  it("a change says of each revocation that is new or taken back, and of no other", () => {
    const owner = fleetOwner();
    owner.release("winter", manifestFor("1"));
    owner.release("spring", manifestFor("2"));
    owner.publish(
      revokeRelease("plant", owner.published(), { name: "winter", because: "poisoned" }, validity),
    );
    const revoked = describeChange(
      revokeRelease("plant", owner.published(), { name: "spring", because: "late" }, validity),
    );
    assert.deepEqual(
      revoked.map((line) => line.split(" ")[0]),
      ["removes", "revokes"],
    );
    const published = owner.published();
    const { "x-stemma-revoked": _, ...signed } = published.targets.signed;
    const back = describeChange({
      fleet: "plant",
      ...published,
      before: published,
      root: undefined,
      manifests: {},
      targets: { ...published.targets, signed },
    });
    assert.deepEqual(
      back.map((line) => line.split(" ").slice(0, 2).join(" ")),
      ["TAKES BACK"],
    );
  });

  it("a change says what it does, whatever its file claims", () => {
    const owner = fleetOwner();
    owner.release("winter", manifestFor("1"));
    const change = addRelease(owner.published(), "spring", manifestFor("2"), validity);
    const read = parseChange(changeText(change));
    assert.match(describeChange(read).join("\n"), /^adds spring: version 2222/);
    const revoked = revokeRelease(
      "plant",
      owner.published(),
      { name: "winter", because: "poisoned" },
      validity,
    );
    assert.match(describeChange(revoked).join("\n"), /removes winter[\s\S]*revokes version 1111.*poisoned/);
    const file = JSON.parse(changeText(change)) as { before: { targets: string } };
    file.before.targets = file.before.targets.replaceAll("1".repeat(64), "3".repeat(64));
    assert.throws(() => parseChange(JSON.stringify(file)), { code: "RELEASE_METADATA_INVALID" });
    assert.throws(() => signChange(change, key("7")), { code: "KEY_INVALID" });
    assert.throws(() => addRelease(owner.published(), "winter", manifestFor("2"), validity), {
      code: "RELEASE_MISMATCH",
      message: /winter already, of another version/,
    });
    const withPipeline = manifestFor("1", { pipeline: "8".repeat(64) as Hash });
    assert.throws(() => addRelease(owner.published(), "winter", withPipeline, validity), {
      code: "RELEASE_MISMATCH",
      message: /winter of this version already, with another manifest/,
    });
    const second = addRelease(owner.published(), "winter-inputs", withPipeline, validity);
    assert.match(describeChange(second).join("\n"), /^adds winter-inputs: .*, with its input pipeline 8888/);
  });
});
