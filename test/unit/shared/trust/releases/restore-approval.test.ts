/** The owner's signature of a restore: which restore it is of, who has to sign, and which files are one. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { keyOfSeed } from "../../../../../shared/trust/keys.js";
import type { Metadata } from "../../../../../shared/trust/releases/metadata.js";
import { firstChange } from "../../../../../shared/trust/releases/release-change.js";
import {
  approvedLog,
  parseRestoreApproval,
  parseRestoreFile,
  restoreApprovalText,
  restoreFileText,
  restoreSignatures,
  signRestore,
  unsignedRestore,
} from "../../../../../shared/trust/releases/restore-approval.js";
import { sha256 } from "../../../../../shared/tensor/hash.js";
import { keysFor, validity } from "../../../../helpers/release-owner.js";

const key = (digit: string) => keyOfSeed(digit.repeat(64));
const keys = keysFor({ root: ["a"], targets: ["b", "c"], online: ["d"] });
const twoOfTargets = { ...keys, targets: { ...keys.targets, threshold: 2 } };
const root = firstChange("plant", twoOfTargets, validity).root as Metadata<"root">;
const statement = { fleet: "plant", length: 10, root: sha256("journal"), position: 7 };
const unsigned = { root, approval: unsignedRestore(statement) };
const invalid = { code: "RELEASE_METADATA_INVALID" };
const ofPlant = { root: root.signed, fleet: "plant" };

describe("the signature of a restore", () => {
  const signed = signRestore(signRestore(unsigned, key("b")), key("c"));

  it("counts with as many keys of targets as the root asks for, and says which journal", () => {
    assert.throws(() => approvedLog(ofPlant, unsigned.approval), invalid);
    const once = signRestore(signRestore(unsigned, key("b")), key("b"));
    assert.deepEqual(restoreSignatures(root, once.approval), { signatures: 1, threshold: 2 });
    assert.throws(() => approvedLog(ofPlant, once.approval), invalid);
    assert.deepEqual(approvedLog(ofPlant, signed.approval), {
      length: 10,
      root: sha256("journal"),
      position: 7,
    });
  });

  it("is of no other fleet, and of no other restore", () => {
    assert.throws(() => approvedLog({ ...ofPlant, fleet: "other" }, signed.approval), invalid);
    for (const change of [{ fleet: "other" }, { length: 11 }, { root: sha256("x") }, { position: 8 }]) {
      const approval = { ...signed.approval, signed: { ...signed.approval.signed, ...change } };
      assert.throws(() => approvedLog({ ...ofPlant, fleet: approval.signed.fleet }, approval), invalid);
    }
  });

  it("is not made by a key of another role", () => {
    for (const digit of ["a", "d", "9"])
      assert.throws(() => signRestore(unsigned, key(digit)), { code: "KEY_INVALID" });
  });

  it("is read as it was written, and refused where it is malformed", () => {
    const text = restoreApprovalText(signed.approval);
    assert.deepEqual(parseRestoreApproval(text), signed.approval);
    for (const wrong of [
      "",
      "{}",
      text.replace("x-stemma-restored", "targets"),
      text.replace('"length":10', '"length":0'),
      text.replace('"length":10', '"length":10.5'),
      text.replace('"position":7', '"position":7,"more":1'),
      text.padEnd(1024 * 1024),
    ])
      assert.throws(() => parseRestoreApproval(wrong), invalid, wrong.slice(0, 80));
  });
});

describe("the file of a restore", () => {
  const text = restoreFileText(unsigned);

  it("is read as it was written", () => {
    assert.deepEqual(parseRestoreFile(text), unsigned);
  });

  it("is told from files of something else, which are not refused", () => {
    for (const other of ["", "x", "null", "[]", "7", '{"kind":"stemma-release-change"}', '{"kind":1}'])
      assert.equal(parseRestoreFile(other), undefined, other);
  });

  it("is refused where it is malformed, or its parts are", () => {
    const file = JSON.parse(text) as Record<string, unknown>;
    for (const change of [
      { format: 2 },
      { more: 1 },
      { root: "{}" },
      { root: 1 },
      { approval: {} },
      { approval: undefined },
      { approval: { signatures: [], signed: { ...unsigned.approval.signed, position: -1 } } },
    ])
      assert.throws(() => parseRestoreFile(JSON.stringify({ ...file, ...change })), invalid);
  });
});
