/** What facts about a device, its keys and the fleet's data do, each also where it does not apply. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { applyFact } from "../../../../../../server/storage/repository/state/apply-fact.js";
import { factTypes } from "../../../../../../server/storage/repository/state/fact-codec.js";
import { emptyState, type FleetState } from "../../../../../../server/storage/repository/state/state.js";
import type { Fact } from "../../../../../../shared/journal/fact.js";
import { sha256 } from "../../../../../../shared/tensor/hash.js";
import type { Hash } from "../../../../../../shared/tensor/tensor.js";

type Loose = { readonly type: Fact["type"] } & Readonly<Record<string, unknown>>;

function stateOf(...facts: readonly Loose[]): FleetState {
  const state = emptyState();
  facts.forEach((fact, position) => {
    applyFact(state, position, { atMs: position + 1, ...fact } as unknown as Fact);
  });
  return state;
}
const enrolled = (more: object = {}, device = "car"): Loose => ({
  ...{ type: "enrolled", device, publicKey: "k", tokenHash: "t", profile: "generic", lines: ["a"] },
  ...more,
});
const about = (type: Fact["type"], more: object = {}): Loose => ({
  type,
  device: "car",
  because: "x",
  ...more,
});
const certificate = (serial: string, issuer?: string) => ({
  ...{ serial, keyHash: "k", notAfterMs: 9 },
  ...(issuer === undefined ? {} : { authority: "oem", issuer }),
});
const statusOf = (state: FleetState): string | undefined => state.devices.get("car")?.status;

describe("the certificates of a device", () => {
  const withTwo = enrolled({ certificate: certificate("aa", "i1") });
  const next = about("certified", { generation: 1, certificate: certificate("bb", "i1") });

  it("end for good when it is revoked, and in no other case", () => {
    assert.deepEqual([...stateOf(withTwo, next, about("revoked")).endedCertificates], ["i1:aa", "i1:bb"]);
    for (const fact of [about("quarantined"), about("device-removed"), about("device-erased"), enrolled()])
      assert.deepEqual([...stateOf(withTwo, next, fact).endedCertificates], [], fact.type);
  });

  it("are not named where the server's own authority made them, which names the enrolment in each", () => {
    const own = enrolled({ certificate: certificate("aa") });
    assert.deepEqual([...stateOf(own, about("revoked")).endedCertificates], []);
    assert.deepEqual([...stateOf(enrolled(), about("revoked")).endedCertificates], []);
  });

  it("are those of this generation: the last two, and sixteen of the owner's authority", () => {
    const certify = (issuer: string | undefined, count: number, generation = 1) =>
      Array.from({ length: count }, (_, at) =>
        about("certified", { generation, certificate: certificate(`c${at}`, issuer) }),
      );
    const kept = (...facts: readonly Loose[]) =>
      (stateOf(...facts).devices.get("car")?.certificates ?? []).map(({ serial }) => serial);
    assert.deepEqual(kept(enrolled(), ...certify(undefined, 3)), ["c1", "c2"]);
    assert.equal(kept(enrolled(), ...certify("i1", 20)).length, 16);
    assert.deepEqual(kept(enrolled(), ...certify(undefined, 1, 2)), [], "of another generation");
    assert.deepEqual(kept(enrolled({ certificate: certificate("aa") }), enrolled()), []);
  });
});

describe("the standing of a device", () => {
  it("is quarantined from enrolled, enrolled from quarantined, and revoked from either", () => {
    assert.equal(statusOf(stateOf(enrolled(), about("quarantined"))), "quarantined");
    assert.equal(statusOf(stateOf(enrolled(), about("quarantined"), about("unquarantined"))), "enrolled");
    assert.equal(statusOf(stateOf(enrolled(), about("revoked"))), "revoked");
    assert.equal(statusOf(stateOf(enrolled(), about("quarantined"), about("revoked"))), "revoked");
  });

  it("is not left by facts that do not apply: a revoked device stays revoked", () => {
    const revoked = [enrolled(), about("revoked")];
    assert.equal(statusOf(stateOf(...revoked, about("quarantined"))), "revoked");
    assert.equal(statusOf(stateOf(...revoked, about("unquarantined"))), "revoked");
    assert.equal(stateOf(enrolled(), about("unquarantined")).devices.get("car")?.quarantined, undefined);
    const twice = stateOf(enrolled(), about("quarantined"), about("quarantined"));
    assert.equal(twice.devices.get("car")?.quarantined?.atMs, 2);
  });

  it("is removed only after it was revoked", () => {
    assert.equal(stateOf(enrolled(), about("device-removed")).devices.get("car")?.removed, undefined);
    const quarantined = stateOf(enrolled(), about("quarantined"), about("device-removed"));
    assert.equal(quarantined.devices.get("car")?.removed, undefined);
    const removed = stateOf(enrolled(), about("revoked"), about("device-removed")).devices.get("car");
    assert.equal(removed?.removed?.because, "x");
  });
});

describe("what a generation reports", () => {
  const given = (generation: number, more: object = {}) =>
    about("given", { generation, versionId: sha256("v"), ...more });
  const reported = (generation: number) => about("settings-reported", { generation, settings: { a: 1 } });

  it("counts for that generation alone", () => {
    const of = (...facts: readonly Loose[]) => stateOf(enrolled(), ...facts).devices.get("car")!;
    assert.equal(of(given(1)).deliveredVersions.size, 1);
    assert.equal(of(given(2)).deliveredVersions.size, 0);
    assert.equal(of(enrolled(), given(1)).deliveredVersions.size, 0);
    assert.equal(of(given(1), enrolled()).deliveredVersions.size, 0, "it may be another machine");
    assert.deepEqual(of(reported(1)).reportedSettings?.values, { a: 1 });
    assert.equal(of(reported(2)).reportedSettings, undefined);
    assert.equal(of(reported(1), enrolled()).reportedSettings, undefined);
  });

  it("has deliveries where they were measured: the last 64", () => {
    const measured = (bytes: number) => given(1, { bytes, durationMs: 1 });
    const state = stateOf(enrolled(), given(1, { bytes: 5 }), given(1, { durationMs: 5 }));
    assert.deepEqual(state.devices.get("car")?.deliveries, []);
    const many = stateOf(enrolled(), ...Array.from({ length: 66 }, (_, at) => measured(at)));
    const kept = many.devices.get("car")!.deliveries.map(({ bytes }) => bytes);
    assert.deepEqual([kept.length, kept[0], kept.at(-1)], [64, 2, 65]);
  });
});

describe("an activation", () => {
  const versionId = sha256("claimed");
  const activated = (version: Hash, deviceAtMs = 4): Loose =>
    about("activated", {
      ...{ line: "a", versionId: version, deviceAtMs },
      deviceClockErrorMs: 1,
      session: 1,
    });
  const recorded = (version: Hash, more: object = {}): Loose => ({
    ...{ type: "recorded", versionId: version, name: "m", version: 1, tensorBytes: 1, ownBytes: 1 },
    ...more,
  });
  const assigned = about("assigned", { line: "a", versionId: sha256("given") });

  it("of a version that was known before the assignment, recorded or claimed, leaves that open", () => {
    const claim = { claim: true, device: "car", line: "a", generation: 1 };
    for (const more of [{}, claim]) {
      const known = recorded(versionId, more);
      const late = stateOf(enrolled(), known, activated(sha256("given")), assigned, activated(versionId, 5));
      assert.deepEqual([...late.devices.get("car")!.unanswered], ["a"], JSON.stringify(more));
      // What was recorded after the assignment may have been trained from it.
      const since = stateOf(enrolled(), activated(sha256("given")), assigned, known, activated(versionId, 5));
      assert.deepEqual([...since.devices.get("car")!.unanswered], [], JSON.stringify(more));
    }
  });
});

it("every type of the journal is known: none is counted as one of a newer release", () => {
  for (const type of factTypes) {
    const state = emptyState();
    try {
      applyFact(state, 0, { type, atMs: 1 } as unknown as Fact);
    } catch {
      // Without its members it cannot be applied; that it is known shows before.
    }
    assert.equal(state.unknownFacts, 0, type);
  }
});

describe("facts about what is not there", () => {
  it("change nothing and are counted", () => {
    for (const fact of [
      about("session", { session: 1, previousSession: 0 }),
      about("labelled", { labels: {} }),
      about("assigned", { line: "a", versionId: sha256("v") }),
      about("activated", { line: "a", versionId: sha256("v"), deviceAtMs: 1, session: 1 }),
      { type: "batch-revoked", batch: "b", because: "x" },
      { type: "rollout-phase", rollout: "r", phase: "paused", because: "x" },
      { type: "stored", versionId: sha256("v") },
      { type: "authority-removed", authority: "a", because: "x" },
    ] as const)
      assert.equal(stateOf(fact).ignoredFacts, 1, fact.type);
    const state = stateOf(about("assigned", { line: "a", versionId: sha256("v") }));
    assert.deepEqual([state.distributed.size, state.devices.size], [0, 0]);
    assert.equal(stateOf(enrolled(), about("session", { session: 1 })).ignoredFacts, 0);
  });
});

describe("batches and recipes of the fleet", () => {
  it("are kept as the journal states them", () => {
    const state = stateOf(
      { type: "batch-created", batch: "spring", names: ["a"], because: "x" },
      { type: "batch-revoked", batch: "spring", because: "leaked" },
      enrolled(),
      about("recipe-given", { recipe: sha256("r") }),
      about("assigned", { line: "a", versionId: sha256("v") }),
    );
    assert.equal(state.batches.get("spring")?.revoked?.because, "leaked");
    assert.deepEqual([...state.devices.get("car")!.recipes], [sha256("r")]);
    assert.equal(state.devices.get("car")?.assignments.get("a")?.versionId, sha256("v"));
    assert.equal(state.ignoredFacts, 0);
  });
});

describe("the fleet's data, engines and key", () => {
  const data = (more: object): Loose => ({
    ...{ type: "data", name: "d", kind: "files", location: "/d", hash: sha256("h") },
    ...more,
  });

  it("have the object of a data set where both its hash and its object are known", () => {
    const objects = (more: object) => [...stateOf(data(more)).dataObjects];
    assert.deepEqual(objects({ object: sha256("o") }), [[sha256("h"), sha256("o")]]);
    assert.deepEqual(objects({}), []);
    assert.deepEqual(objects({ hash: null, object: sha256("o") }), []);
  });

  it("are not named any more when they are removed, and named again", () => {
    assert.deepEqual([...stateOf(data({})).datasets.keys()], ["d"]);
    assert.deepEqual([...stateOf(data({}), data({ removed: true })).datasets.keys()], []);
    assert.deepEqual([...stateOf(data({ removed: true }), data({})).datasets.keys()], ["d"]);
  });

  it("have an engine from its approval to its removal", () => {
    const engine = sha256("e");
    const approved: Loose = { type: "engine-approved", engine, engineId: "e", source: "build", because: "x" };
    const removed: Loose = { type: "engine-removed", engine };
    const of = (...facts: readonly Loose[]) => {
      const { engines, removedEngines } = stateOf(...facts);
      return [engines.has(engine), removedEngines.has(engine)];
    };
    assert.deepEqual(of(approved), [true, false]);
    assert.deepEqual(of(approved, removed), [false, true]);
    assert.deepEqual(of(approved, removed, approved), [true, false]);
  });

  it("have what was redacted, the newest releases and the newest key of the server", () => {
    const state = stateOf(
      { type: "redacted", object: sha256("o") },
      { type: "published", object: sha256("r1") },
      { type: "published", object: sha256("r2") },
      { type: "server-key", publicKey: "k1", revoked: false },
      { type: "server-key", publicKey: "k2", revoked: true },
    );
    assert.deepEqual(
      [[...state.redacted], state.releases, state.serverKey],
      [[sha256("o")], sha256("r2"), { publicKey: "k2", revoked: true }],
    );
    assert.deepEqual([state.length, state.newestMs], [5, 5]);
  });

  it("have the newest time of any fact, also after the clock was set back", () => {
    const state = stateOf({ type: "published", object: sha256("r"), atMs: 9 }, data({ atMs: 3 }));
    assert.deepEqual([state.length, state.newestMs], [2, 9]);
  });
});
