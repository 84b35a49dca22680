/** The owner's statement of the time: who has to sign, of which fleet it is, and how it is read. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { keyOfSeed } from "../../../../../shared/trust/keys.js";
import type { Metadata } from "../../../../../shared/trust/releases/metadata.js";
import {
  ownerTimeFileText,
  ownerTimeSignatures,
  ownerTimeText,
  parseOwnerTime,
  parseOwnerTimeFile,
  signOwnerTime,
  statedTime,
  unsignedOwnerTime,
} from "../../../../../shared/trust/releases/owner-time.js";
import { firstChange } from "../../../../../shared/trust/releases/release-change.js";
import { keysFor, startMs, validity } from "../../../../helpers/release-owner.js";

const key = (digit: string) => keyOfSeed(digit.repeat(64));
const keys = keysFor({ root: ["a"], targets: ["b", "c"], online: ["d"] });
const twoOfTargets = { ...keys, targets: { ...keys.targets, threshold: 2 } };
const root = firstChange("plant", twoOfTargets, validity).root as Metadata<"root">;
const unsigned = { root, statement: unsignedOwnerTime({ fleet: "plant", number: 3, timeMs: startMs }) };
const invalid = { code: "RELEASE_METADATA_INVALID" };
const ofPlant = { root: root.signed, fleet: "plant" };

describe("the owner's statement of the time", () => {
  const signed = signOwnerTime(signOwnerTime(unsigned, key("b")), key("c"));

  it("counts with as many keys of targets as the root asks for", () => {
    assert.throws(() => statedTime(ofPlant, unsigned.statement), invalid);
    const once = signOwnerTime(signOwnerTime(unsigned, key("b")), key("b"));
    assert.deepEqual(ownerTimeSignatures(root.signed, once.statement), { signatures: 1, threshold: 2 });
    assert.throws(() => statedTime(ofPlant, once.statement), invalid);
    assert.deepEqual(statedTime(ofPlant, signed.statement), { number: 3, timeMs: startMs });
  });

  it("is of no other fleet, number or time", () => {
    assert.throws(() => statedTime({ ...ofPlant, fleet: "other" }, signed.statement), invalid);
    for (const change of [{ fleet: "other" }, { number: 4 }, { time: "2030-01-01T00:00:00Z" }]) {
      const statement = { ...signed.statement, signed: { ...signed.statement.signed, ...change } };
      assert.throws(() => statedTime({ ...ofPlant, fleet: statement.signed.fleet }, statement), invalid);
    }
  });

  it("is not made by a key of another role", () => {
    for (const digit of ["a", "d", "9"])
      assert.throws(() => signOwnerTime(unsigned, key(digit)), { code: "KEY_INVALID" });
  });

  it("is read as it was written, and refused where it is malformed", () => {
    assert.deepEqual(parseOwnerTime(ownerTimeText(signed.statement)), signed.statement);
    const [first] = signed.statement.signatures;
    for (const wrong of [
      "",
      "{}",
      "x".repeat(5000),
      JSON.stringify({ ...signed.statement, more: 1 }),
      JSON.stringify({ ...signed.statement, signatures: [first, first] }),
      JSON.stringify({ ...signed.statement, signed: { ...signed.statement.signed, time: "tomorrow" } }),
      JSON.stringify({ ...signed.statement, signed: { ...signed.statement.signed, number: 0 } }),
    ])
      assert.throws(() => parseOwnerTime(wrong), invalid);
    assert.deepEqual(parseOwnerTimeFile(ownerTimeFileText(signed)), signed);
    assert.equal(parseOwnerTimeFile('{"kind":"stemma-release-change"}'), undefined);
    assert.throws(() => parseOwnerTimeFile('{"kind":"stemma-owner-time"}'), invalid);
  });
});
