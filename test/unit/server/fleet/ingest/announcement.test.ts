/** Which announcements count: the device's own, signed, within bounds, with objects that its record names. */
import assert from "node:assert/strict";
import { before, describe, it } from "node:test";
import {
  judgeAnnouncement,
  type Accepted,
  type Announcer,
  type Refused,
} from "../../../../../server/fleet/ingest/uploads/announcement.js";
import { smallObjectsOf } from "../../../../../shared/model/record-objects.js";
import { memoryStore } from "../../../../../shared/objects/memory-store.js";
import { opaqueModelSource } from "../../../../../shared/save/model-source.js";
import { saveModel } from "../../../../../shared/save/save-model.js";
import { sha256 } from "../../../../../shared/tensor/hash.js";
import type { Hash } from "../../../../../shared/tensor/tensor.js";
import { keyOfSeed } from "../../../../../shared/trust/keys.js";
import { signAnnounce } from "../../../../../shared/trust/signatures.js";
import type { Announce } from "../../../../../shared/wire/messages.js";
import { manualClock } from "../../../../helpers/manual-clock.js";

const key = keyOfSeed("1".repeat(64));
const limits = { maxModelBytes: 100, maxUsesBytes: 50 };
let announce: Announce;
let versionId: Hash;
/** Signatures of another key, and of another version. */
let foreign: readonly string[];
const other = keyOfSeed("2".repeat(64));

const announcer: Announcer = {
  fleet: "cars",
  device: "van-7",
  generation: 2,
  publicKey: key.publicKey,
  lines: ["cam", "soh"],
  versionAt: () => undefined,
};
const judge = (change: Partial<Announce> = {}, by: Partial<Announcer> = {}): Accepted | Refused =>
  judgeAnnouncement({ ...announce, ...change }, { ...announcer, ...by }, limits);
/** The code of a refusal; "accepted". */
const outcome = (...judged: Parameters<typeof judge>): string => {
  const found = judge(...judged);
  assert.equal(found.versionId.length, 64);
  return found.verdict === "refused" ? found.code : "accepted";
};

before(async () => {
  const store = memoryStore({ clock: manualClock() });
  const weight = { name: "w", dtype: "F32", shape: [2], bytes: new Uint8Array(8) } as const;
  const saved = await saveModel(
    store,
    opaqueModelSource([weight]),
    {
      ...{ name: "soh", fleet: "cars", device: "van-7", line: "soh", sequence: 3 },
      ...{ bases: [], environment: { backend: "none" } },
    },
    manualClock(),
  );
  versionId = saved.versionId;
  const objects = await Promise.all(
    smallObjectsOf(saved.record).map(async ({ kind, id }) => ({ kind, data: await store.read(kind, id) })),
  );
  announce = {
    type: "announce",
    record: saved.recordBytes,
    signature: await signAnnounce(key, versionId),
    tensorBytes: 8,
    objects,
  };
  foreign = [await signAnnounce(other, versionId), await signAnnounce(key, sha256("x"))];
});

describe("an announcement", () => {
  it("counts as it was received, for the generation that sent it", () => {
    const accepted = judge();
    assert.ok(accepted.verdict === "accepted");
    assert.deepEqual(
      [accepted.versionId, accepted.generation, accepted.isClaim, accepted.recordBytes],
      [versionId, 2, false, announce.record],
    );
    assert.deepEqual(accepted.declared, { tensorBytes: 8, usesTensorBytes: 0, streamed: new Map() });
    assert.deepEqual(
      [...accepted.objects.values()].map(({ kind, bytes }) => ({ kind, data: bytes })),
      announce.objects,
    );
    const claim = judge({ claim: true });
    assert.ok(claim.verdict === "accepted" && claim.isClaim);
  });

  it("is of the device's own fleet, name and line", () => {
    for (const by of [{ fleet: "vans" }, { device: "van-8" }, { lines: ["cam"] }, { lines: [] }])
      assert.equal(outcome({}, by), "IDENTITY_FOREIGN", JSON.stringify(by));
    // Whoever announces for another learns nothing of it, not even whether the signature is right.
    assert.equal(outcome({ signature: "00".repeat(64) }, { device: "van-8" }), "IDENTITY_FOREIGN");
  });

  it("is signed by the device's own key, as this version", () => {
    for (const signature of ["", "00".repeat(64), ...foreign])
      assert.equal(outcome({ signature }), "SIGNATURE_INVALID");
    assert.equal(outcome({}, { publicKey: other.publicKey }), "SIGNATURE_INVALID");
  });

  it("has a number of its line that no other version has", () => {
    const asked: unknown[] = [];
    const versionAt =
      (holder: Hash | undefined) =>
      (...question: readonly unknown[]): Hash | undefined => {
        asked.push(question);
        return holder;
      };
    assert.equal(outcome({}, { versionAt: versionAt(versionId) }), "accepted", "it is announced again");
    assert.equal(outcome({}, { versionAt: versionAt(sha256("x")) }), "ANNOUNCE_INVALID");
    assert.deepEqual(asked, [
      ["soh", 3],
      ["soh", 3],
    ]);
  });

  it("declares no more bytes than are accepted, and the streams that its record has", () => {
    assert.equal(outcome({ tensorBytes: 100 }), "accepted");
    assert.equal(outcome({ tensorBytes: 101 }), "SIZE_OVER_LIMIT");
    assert.equal(outcome({ usesTensorBytes: 50 }), "accepted");
    assert.equal(outcome({ usesTensorBytes: 51 }), "SIZE_OVER_LIMIT");
    assert.equal(outcome({ streamedBytes: [] }), "accepted");
    assert.equal(outcome({ streamedBytes: [1] }), "ANNOUNCE_INVALID");
  });

  it("carries only objects that its record names, each by its own kind", () => {
    assert.equal(outcome({ objects: [] }), "accepted");
    const [first] = announce.objects as [Announce["objects"][number]];
    const changed = { ...first, data: Uint8Array.from([...first.data, 0]) };
    assert.equal(outcome({ objects: [changed] }), "ANNOUNCE_INVALID");
    assert.equal(outcome({ objects: [{ ...first, kind: "names" }] }), "ANNOUNCE_INVALID");
    assert.equal(outcome({ objects: [...announce.objects, changed] }), "ANNOUNCE_INVALID");
  });

  it("has a record that can be read", () => {
    for (const record of [new Uint8Array(), Buffer.from("{}"), announce.record.slice(1)])
      assert.notEqual(outcome({ record }), "accepted");
  });
});
