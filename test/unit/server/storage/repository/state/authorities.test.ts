// What the journal's facts say of owners' authorities, and what they keep after a removal.
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { checkAuthorityFact } from "../../../../../../server/storage/repository/state/authority-state.js";
import { factCodec } from "../../../../../../server/storage/repository/state/fact-codec.js";
import { applyFact } from "../../../../../../server/storage/repository/state/apply-fact.js";
import { emptyState, type FleetState } from "../../../../../../server/storage/repository/state/state.js";
import type { Fact, FactOf } from "../../../../../../shared/journal/fact.js";

const added: FactOf<"authority-added"> = {
  type: "authority-added",
  atMs: 1,
  authority: "oem",
  certificates: ["pem"],
  nameForm: "cn:{device}",
  onEndedList: "serve",
};
const list = (number: string, more: Partial<FactOf<"authority-list">> = {}): FactOf<"authority-list"> => ({
  type: "authority-list",
  atMs: 2,
  authority: "oem",
  issuer: "i1",
  revoked: [],
  restored: [],
  list: { number, thisUpdateMs: 0, nextUpdateMs: 10 },
  ...more,
});
const removed: Fact = { type: "authority-removed", atMs: 3, authority: "oem", because: "sold" };

function stateAfter(...facts: readonly Fact[]): FleetState {
  const state = emptyState();
  facts.forEach((fact, position) => {
    applyFact(state, position, factCodec.decode(factCodec.encode(fact)));
  });
  return state;
}
const revokedIn = (state: FleetState, issuer = "i1"): readonly string[] => [
  ...(state.authorities.get("oem")?.revoked.get(issuer) ?? []),
];

describe("authorities in the journal", () => {
  it("have the numbers that lists of each issuer revoke", () => {
    const state = stateAfter(
      added,
      list("1", { revoked: ["aa", "bb"] }),
      list("1", { issuer: "i2", revoked: ["aa"] }),
      list("2", { revoked: ["cc"], restored: ["aa"] }),
    );
    assert.deepEqual(revokedIn(state), ["bb", "cc"]);
    assert.deepEqual(revokedIn(state, "i2"), ["aa"]);
    assert.equal(state.authorities.get("oem")?.lists.get("i1")?.number, "2");
  });

  it("take no list that is older, or of an authority that is not there; a part of a list is taken again", () => {
    const { authorities } = stateAfter(added, list("10"));
    for (const number of ["9", "10"])
      assert.throws(() => checkAuthorityFact(authorities, list(number)), { code: "CERTIFICATE_REFUSED" });
    checkAuthorityFact(authorities, list("11"));
    checkAuthorityFact(authorities, list("1", { issuer: "i2" }));
    const { list: _, ...part } = list("9");
    checkAuthorityFact(authorities, part);
    assert.throws(() => checkAuthorityFact(authorities, { ...list("1"), authority: "x" }), {
      code: "NOT_FOUND",
    });
    const gone = stateAfter(added, removed).authorities;
    assert.throws(() => checkAuthorityFact(gone, list("11")), { code: "NOT_FOUND" });
    assert.equal(stateAfter(list("1"), removed).ignoredFacts, 2);
  });

  it("keep what was revoked when they are removed and added again", () => {
    const state = stateAfter(added, list("7", { revoked: ["aa"] }), removed, { ...added, atMs: 4 });
    assert.equal(state.authorities.get("oem")?.removed, undefined);
    assert.deepEqual(revokedIn(state), ["aa"]);
    assert.throws(() => checkAuthorityFact(state.authorities, list("7")), { code: "CERTIFICATE_REFUSED" });
  });

  it("name revoked devices' certificates for good, by issuer and number", () => {
    const certificate = { serial: "aa", keyHash: "k", notAfterMs: 9, authority: "oem", issuer: "i1" };
    const enrolled: Fact = {
      type: "enrolled",
      atMs: 2,
      ...{ device: "v", generation: 1, publicKey: "p", tokenHash: "", profile: "generic", lines: ["l"] },
      certificate,
    };
    const next: Fact = {
      type: "certified",
      atMs: 3,
      device: "v",
      generation: 1,
      certificate: { ...certificate, serial: "bb" },
    };
    const revoked: Fact = { type: "revoked", atMs: 4, device: "v", because: "stolen" };
    const state = stateAfter(added, enrolled, next, revoked, { ...enrolled, atMs: 5, generation: 2 });
    assert.deepEqual([...state.endedCertificates], ["i1:aa", "i1:bb"]);
    assert.equal(state.devices.get("v")?.status, "enrolled");
  });
});
