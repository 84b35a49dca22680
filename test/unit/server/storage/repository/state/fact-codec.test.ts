/** Facts as bytes: every fact is decoded as it was encoded, nothing is dropped, newer facts are tolerated. */
import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { test } from "node:test";
import fc from "fast-check";
import "../../../../../helpers/property-seed.js";
import { factCodec } from "../../../../../../server/storage/repository/state/fact-codec.js";
import type { Fact } from "../../../../../../shared/journal/fact.js";
import type { RolloutPolicy } from "../../../../../../shared/journal/facts/rollout-policy.js";
import type { Hash } from "../../../../../../shared/tensor/tensor.js";

const encode = (value: unknown): Uint8Array => new TextEncoder().encode(JSON.stringify(value));
const id = "ab".repeat(32) as Hash;
const policy: RolloutPolicy = {
  waves: ["2", "10%", "rest"],
  soakMinutes: 1,
  timeoutMinutes: 60,
  level: 0.05,
  margin: 0,
  maxFailed: 0.1,
  minAnswered: 0.5,
  own: "keep",
  unmeasured: "fail",
  onFailure: "undo",
  atOnce: 10,
  samples: 100,
};

test("facts of every kind are decoded as they were encoded", () => {
  const facts: readonly Fact[] = [
    { type: "recorded", atMs: 1, versionId: id, name: "soh", version: 1, tensorBytes: 5, ownBytes: 0 },
    { type: "recorded", atMs: 1, versionId: id, name: "soh", version: 0, claim: true, critical: true },
    { type: "proved", atMs: 1, versionId: id, grade: "bit-exact", engineId: id, because: "x" },
    { type: "refuted", atMs: 1, versionId: id, grade: "different", engineId: id, because: "x" },
    { type: "unreplayable", atMs: 1, versionId: id, because: "x" },
    { type: "stored", atMs: 1, versionId: id },
    { type: "released", atMs: 1, versionId: id, because: "stored" },
    {
      type: "activated",
      atMs: 1,
      versionId: id,
      device: "d",
      line: "l",
      deviceAtMs: -5,
      deviceClockErrorMs: null,
      session: 9,
    },
    {
      type: "batch-created",
      atMs: 1,
      batch: "b",
      publicKey: "k",
      count: 3,
      expiresAtMs: 9,
      profile: "generic",
      lines: ["l"],
      namePattern: "van-*",
      names: ["van-1"],
      hold: true,
      mayReplace: false,
      labels: { region: "eu" },
      initial: { l: id },
      authority: "oem",
    },
    {
      type: "authority-added",
      atMs: 1,
      authority: "oem",
      certificates: ["pem"],
      nameForm: "cn:{device}",
      onEndedList: "refuse",
    },
    { type: "authority-removed", atMs: 1, authority: "oem", because: "sold" },
    {
      type: "authority-list",
      atMs: 1,
      authority: "oem",
      issuer: "i",
      revoked: ["0a"],
      restored: [],
      list: { number: "7", thisUpdateMs: 1, nextUpdateMs: 2 },
    },
    { type: "batch-revoked", atMs: 1, batch: "b", because: "lost" },
    { type: "restore-approved", atMs: 1, restore: 7, approval: "{}" },
    { type: "time-stated", atMs: 1, number: 3, statement: "{}" },
    {
      type: "published",
      atMs: 1,
      critical: true,
      object: id,
      root: 1,
      targets: 2,
      timestamp: 3,
      because: "x",
    },
    {
      type: "replayed",
      atMs: 1,
      versionId: id,
      verdict: "proved",
      grade: "bit-exact",
      engineId: id,
      because: "x",
      workMs: 7,
      dataFrom: "stored",
    },
    {
      type: "spot-checked",
      atMs: 1,
      versionId: id,
      outcome: "asked",
      segments: [0, 7],
      of: 9,
      engineId: id,
      because: "x",
    },
    {
      type: "dropped",
      critical: true,
      atMs: 1,
      versionId: id,
      base: null,
      engine: id,
      engineId: id,
      data: id,
      replayMs: 7,
      because: "",
    },
    { type: "kept", atMs: 1, versionId: id, because: "x" },
    { type: "data-dropped", critical: true, atMs: 1, versionId: id, because: "x" },
    { type: "query", atMs: 1, name: "mine", change: "saved", text: "select m" },
    { type: "query", atMs: 1, name: "mine", change: "deleted" },
    {
      type: "drop-policy",
      atMs: 1,
      line: null,
      name: "soh",
      policy: { afterDays: null, maxMinutes: 10, dataAfterDays: 90 },
    },
    { type: "evaluated", atMs: 1, versionId: id, object: id },
    { type: "evaluated", atMs: 1, versionId: id, object: id, predictions: id },
    { type: "retired", atMs: 1, versionId: id, because: "" },
    { type: "tagged", atMs: 1, name: "soh", tag: "best", versionId: null },
    { type: "held", atMs: 1, versionId: id, because: "x" },
    { type: "unheld", atMs: 1, versionId: id, because: "x" },
    { type: "held", atMs: 1, versionId: id, because: "x", by: "ann" },
    { type: "succeeded", atMs: 1, versionId: id, successor: id, because: "x" },
    { type: "succeeded", atMs: 1, versionId: id, successor: id, removed: true, because: "x", by: "ann" },
    { type: "revoked", atMs: 1, device: "d", because: "x", by: { who: "ann@x", through: "command" } },
    {
      type: "restored",
      atMs: 1,
      position: 3,
      lostFrom: null,
      by: { who: "http-token", through: "http", role: "admin", claims: "bob" },
    },
    { type: "retention", atMs: 1, line: null, name: "soh", rule: "90 days" },
    { type: "retention", atMs: 1, line: "front", name: null, rule: null, by: "ann" },
    { type: "enrolled", atMs: 1, device: "d", publicKey: "k", tokenHash: "t", profile: "p", lines: ["l"] },
    {
      type: "enrolled",
      atMs: 1,
      device: "d",
      generation: 2,
      publicKey: "k",
      tokenHash: "t",
      profile: "p",
      lines: ["l"],
    },
    { type: "revoked", atMs: 1, device: "d", because: "x" },
    { type: "labelled", atMs: 1, device: "d", labels: { region: "eu", old: null } },
    { type: "quarantined", atMs: 1, device: "d", because: "x" },
    { type: "session", atMs: 1, device: "d", session: 2 },
    { type: "assigned", atMs: 1, device: "d", line: "l", versionId: id },
    { type: "assigned", atMs: 1, device: "d", line: "l", versionId: id, rollout: "r" },
    {
      type: "rollout",
      atMs: 1,
      rollout: "r",
      critical: true,
      line: "l",
      versionId: id,
      select: "all",
      policy,
    },
    { type: "rollout-phase", atMs: 1, rollout: "r", phase: "paused", because: "x", by: "ann" },
    { type: "wave", atMs: 1, rollout: "r", wave: 1, devices: ["d", "e"] },
    {
      type: "wave",
      atMs: 1,
      rollout: "r",
      wave: 2,
      devices: ["d", "e"],
      planned: [
        { bytes: 10, ms: null },
        { bytes: 0, ms: 5 },
      ],
    },
    {
      type: "rollout-approved",
      atMs: 1,
      rollout: "r",
      because: "looked at",
      by: { who: "bo", through: "http" },
    },
    { type: "given", atMs: 1, device: "d", generation: 1, versionId: id, bytes: 4, durationMs: 5 },
    { type: "judged", atMs: 1, rollout: "r", device: "d", verdict: "passed", before: null, because: "x" },
    {
      type: "judged",
      atMs: 1,
      rollout: "r",
      device: "d",
      verdict: "worse",
      before: id,
      because: "x",
      compared: { samples: 3, meanDifference: -0.5, standardError: 0 },
      trial: { slowdown: 1.5, moreBytes: -4096, change: 0.25 },
    },
    {
      type: "measured",
      atMs: 1,
      rollout: "r",
      device: "d",
      before: id,
      because: "x",
      compared: { samples: 3, meanDifference: -0.5, standardError: 0 },
      trial: { change: 0.25 },
    },
    {
      type: "judged",
      atMs: 1,
      rollout: "r",
      device: "d",
      verdict: "unknown",
      before: id,
      because: "x",
      live: { inputs: 3, failed: 1, slowdown: 2, change: 0 },
    },
    { type: "switch-failed", atMs: 1, rollout: "r", device: "d", because: "x" },
    { type: "data", atMs: 1, name: "n", kind: "k", location: "", hash: null },
    { type: "backup", atMs: 1, position: 3, location: "/b" },
    { type: "restored", atMs: 1, position: 3, lostFrom: null },
  ];
  for (const fact of facts) assert.deepEqual(factCodec.decode(factCodec.encode(fact)), fact);
});

test("hashes are written short, and read short or in hexadecimal", () => {
  const fact: Fact = { type: "tagged", atMs: 1, name: id, tag: "best", versionId: id };
  const text = new TextDecoder().decode(factCodec.encode(fact));
  assert.equal(
    text,
    `{"type":"tagged","atMs":1,"name":"${id}","tag":"best","versionId":"${"q6ur".repeat(10)}q6s"}`,
  );
  assert.deepEqual(factCodec.decode(encode(fact)), fact);
  // The last character's spare bits are zero.
  assert.throws(() => factCodec.decode(encode({ ...fact, versionId: `${"q6ur".repeat(10)}q6t` })), {
    code: "FACT_INVALID",
  });
});

test("a member that no decoder would read is refused, not dropped", () => {
  assert.throws(() => factCodec.encode({ type: "stored", atMs: 1, versionId: id, note: "x" } as Fact), {
    code: "FACT_INVALID",
  });
  assert.throws(() => factCodec.encode({ type: "newer", atMs: 1 } as unknown as Fact), {
    code: "FACT_INVALID",
  });
});

test("newer members and newer types are read and kept", () => {
  const newer = { type: "stored", atMs: 1, versionId: id, note: "x" };
  assert.deepEqual(factCodec.decode(encode(newer)), newer);
  assert.deepEqual(factCodec.decode(encode({ type: "pinned", what: [1] })), { type: "pinned", what: [1] });
});

test("a critical fact of a newer release is refused, whether or not its type is known", () => {
  const recorded = { type: "recorded", atMs: 1, versionId: id, name: "soh", version: 1 };
  assert.doesNotThrow(() => factCodec.decode(encode({ ...recorded, claim: true, critical: true })));
  for (const fact of [recorded, { type: "withdrawn", atMs: 1, versionId: id }])
    assert.throws(() => factCodec.decode(encode({ ...fact, critical: true })), { code: "FACT_INVALID" });
});

test("no fact type of this release has a name that is allotted to a later one", () => {
  const folder = new URL("../../../../../../../shared/journal/", import.meta.url);
  const source = readFileSync(new URL("fact.ts", folder), "utf8");
  const kinds = readdirSync(new URL("facts/", folder)).filter((name) => name.endsWith("-facts.ts"));
  const sources = kinds.map((name) => readFileSync(new URL(`facts/${name}`, folder), "utf8")).join("\n");
  const types = new Set(
    [...sources.matchAll(/readonly type: ([^;]+);/g)].flatMap(
      ([, names = ""]) => names.match(/[a-z-]+/g) ?? [],
    ),
  );
  const allotted = [...source.matchAll(/^ \* \| (`.+`) \| (?:yes|no) \|/gm)].flatMap(([, names = ""]) =>
    names.includes("claim: true") ? [] : [...names.matchAll(/`([a-z-]+)`/g)].map(([, name = ""]) => name),
  );
  for (const type of ["recorded", "labelled", "rollout", "restored"]) assert.ok(types.has(type), type);
  assert.equal(allotted.length, 2);
  assert.deepEqual(
    allotted.filter((name) => types.has(name)),
    [],
  );
  const page = readFileSync(new URL("../../../../../../../docs/formats.md", import.meta.url), "utf8");
  for (const name of allotted) assert.ok(page.includes(`\`${name}\``), name);
});

test("a value that is not a fact is refused with a code", () => {
  for (const value of [
    null,
    1,
    [],
    {},
    { type: 1 },
    { type: "stored", atMs: 1, versionId: "AB" },
    { type: "stored", atMs: "1", versionId: id },
    { type: "session", atMs: 1, device: "d", session: -1 },
    { type: "enrolled", atMs: 1, device: "d", publicKey: "k", tokenHash: "t", profile: "p", lines: "l" },
    { type: "backup", atMs: 1, position: 1, location: "", by: { who: "", through: "http" } },
    { type: "backup", atMs: 1, position: 1, location: "", by: { who: "a", through: "window" } },
    { type: "backup", atMs: 1, position: 1, location: "", by: { who: "a".repeat(257), through: "http" } },
    { type: "constructor", atMs: 1 },
  ]) {
    if ((value as { type?: unknown } | null)?.type === "constructor") {
      assert.doesNotThrow(() => factCodec.decode(encode(value)));
      continue;
    }
    assert.throws(() => factCodec.decode(encode(value)), { code: "FACT_INVALID" }, JSON.stringify(value));
  }
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 80 }), (bytes) => {
      try {
        factCodec.decode(bytes);
      } catch (error) {
        assert.equal((error as { code?: string }).code, "FACT_INVALID");
      }
    }),
  );
});
