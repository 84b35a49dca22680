/** Which claims are taken, so that their tensors need not be sent: within limits, and with a base that is here. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import {
  claimedBy,
  Claims,
  isKnown,
  type ClaimOffer,
} from "../../../../../server/fleet/ingest/uploads/claims.js";
import type { ClaimSummary } from "../../../../../server/storage/repository/claim.js";
import { silentLog } from "../../../../../shared/adapters/node-ports.js";
import { sha256 } from "../../../../../shared/tensor/hash.js";

const base = sha256("base");
const record = { device: "van-7", line: "soh", kind: "architecture", bases: [base], objects: {} };

interface Case {
  readonly claims?: readonly object[];
  readonly hasHad?: boolean;
  readonly record?: object;
  readonly whyNot?: string;
  readonly hasReplays?: boolean;
  readonly claimsPerDevice?: number;
}
const claim = (change: object = {}): object => ({
  versionId: sha256("claim"),
  record,
  ended: undefined,
  isDeviceGone: false,
  ...change,
});

function isTaken({ claims = [], hasHad = true, hasReplays = true, claimsPerDevice = 2, ...rest }: Case = {}) {
  const parts = {
    repository: { claims: () => claims, hasHad: () => hasHad },
    limits: { claimsPerDevice, claimsTotal: 3 },
    log: silentLog(),
    replays: hasReplays ? { whyNot: () => Promise.resolve(rest.whyNot), wake: () => undefined } : undefined,
  } as unknown as ConstructorParameters<typeof Claims>[0];
  const offered = { device: "van-7", record: { ...record, ...rest.record } } as unknown as ClaimOffer;
  return new Claims(parts).isTaken(offered);
}

describe("a claim", () => {
  it("is taken where a replay can give its tensors, and in no other case", async () => {
    assert.equal(await isTaken(), true);
    assert.equal(await isTaken({ whyNot: "it takes too long" }), false);
    assert.equal(await isTaken({ hasReplays: false }), false);
  });

  it("is of an exact network without anything that only the device has", async () => {
    for (const change of [
      { kind: "opaque" },
      { scheme: "half" },
      { uses: { optimizer: {} } },
      { uses: { checkpoints: [] } },
    ])
      assert.equal(await isTaken({ record: change }), false, JSON.stringify(change));
    assert.equal(await isTaken({ record: { uses: {} } }), true);
  });

  it("has a base that its device provably had, or an open claim of its own for that", async () => {
    const none = { hasHad: false };
    const ofBase = (change: object = {}) => [claim({ versionId: base, ...change })];
    assert.equal(await isTaken(none), false);
    assert.equal(await isTaken({ ...none, record: { bases: [] } }), true);
    assert.equal(await isTaken({ ...none, claims: ofBase() }), true);
    assert.equal(await isTaken({ ...none, claims: [claim()] }), false, "of another version");
    assert.equal(await isTaken({ ...none, claims: ofBase({ record: { ...record, device: "x" } }) }), false);
    assert.equal(await isTaken({ ...none, claims: ofBase({ isDeviceGone: true }) }), false);
    assert.equal(await isTaken({ ...none, claims: ofBase({ ended: {} }) }), false);
  });

  it("is taken up to the limits: of the device also what was not proved, of the fleet what is open", async () => {
    const foreign = claim({ record: { ...record, device: "x" } });
    const ended = claim({ ended: {} });
    assert.equal(await isTaken({ claims: [claim()] }), true);
    assert.equal(await isTaken({ claims: [claim(), ended] }), false);
    assert.equal(await isTaken({ claims: [claim(), claim({ isDeviceGone: true })] }), true);
    assert.equal(await isTaken({ claims: [foreign, foreign] }), true);
    assert.equal(await isTaken({ claims: [foreign, foreign, foreign] }), false);
    assert.equal(await isTaken({ claims: [foreign, foreign, { ...foreign, ended: {} }] }), true);
    assert.equal(await isTaken({ claimsPerDevice: 0 }), false);
  });
});

describe("what is known of a claim", () => {
  const summary = { generation: 2, record: { objects: {} } } as unknown as ClaimSummary;
  const repository = (found?: ClaimSummary, version?: object) =>
    ({ claim: () => found, get: () => version }) as unknown as Parameters<typeof isKnown>[0];

  it("is what this generation of the device sent with it, and need not send again", () => {
    const versionId = sha256("claim");
    assert.ok(claimedBy(repository(summary), { versionId, generation: 2 }).includes(versionId));
    assert.deepEqual(claimedBy(repository(summary), { versionId, generation: 3 }), []);
    assert.deepEqual(claimedBy(repository(), { versionId, generation: 2 }), []);
  });

  it("is known like a recorded version: what was trained from it need not wait", () => {
    assert.equal(isKnown(repository(summary), base), true);
    assert.equal(isKnown(repository(undefined, {}), base), true);
    assert.equal(isKnown(repository(), base), false);
  });
});
