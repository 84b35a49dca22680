/** Which metadata of releases is read, and whose signatures count on it. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { keyOfSeed, type PrivateKey } from "../../../../../shared/trust/keys.js";
import {
  addSignature,
  checkMetadata,
  keyIdOf,
  parseMetadata,
  metadataText,
  validSigners,
  verifyRole,
  type Metadata,
  type Root,
} from "../../../../../shared/trust/releases/metadata.js";
import { firstChange } from "../../../../../shared/trust/releases/release-change.js";
import { keysFor, validity } from "../../../../helpers/release-owner.js";

const key = (digit: string): PrivateKey => keyOfSeed(digit.repeat(64));
const idOf = (digit: string): string => keyIdOf(key(digit).publicKey);
const change = firstChange(
  "plant",
  keysFor({ root: ["a", "c"], targets: ["b", "e"], online: ["d"] }),
  validity,
);
const root = (change.root as Metadata<"root">).signed;
const invalid = { code: "RELEASE_METADATA_INVALID" };

/** The root with other members, as somebody could write it. */
const rootWith = (members: Partial<Root>) =>
  checkMetadata("root", { signatures: [], signed: { ...root, ...members } });
const targetsWith = (members: object) =>
  checkMetadata("targets", { signatures: [], signed: { ...change.targets.signed, ...members } });
const targetsOf = (count: number) =>
  Object.fromEntries(
    Array.from({ length: count }, (_, at) => [
      `r${at}`,
      { length: 1, hashes: { sha256: "1".repeat(64) }, custom: { versionId: "2".repeat(64) } },
    ]),
  );

describe("the metadata of a root", () => {
  const roleOf = (keyids: readonly string[], threshold: number) => ({
    roles: { ...root.roles, targets: { keyids: [...keyids], threshold } },
  });

  it("names each key of a role once, and all of them", () => {
    assert.doesNotThrow(() => rootWith(roleOf([idOf("b"), idOf("e")], 2)));
    assert.throws(() => rootWith(roleOf([idOf("b"), idOf("b")], 2)), invalid, "one key twice");
    assert.throws(() => rootWith(roleOf([idOf("b"), idOf("9")], 1)), invalid, "a key that is not there");
    assert.throws(() => rootWith(roleOf([idOf("b")], 2)), invalid, "more signatures than keys");
    assert.throws(() => rootWith(roleOf([idOf("b")], 0)), invalid, "no signature at all");
    assert.throws(() => rootWith(roleOf([], 1)), invalid);
  });

  it("names each key by its own id", () => {
    const [one, other] = [root.keys[idOf("a")]!, root.keys[idOf("b")]!];
    assert.throws(() => rootWith({ keys: { ...root.keys, [idOf("a")]: other } }), invalid);
    assert.throws(() => rootWith({ keys: { ...root.keys, [idOf("9")]: one } }), invalid);
    const more = { ...one, comment: "mine" };
    assert.throws(() => rootWith({ keys: { ...root.keys, [idOf("a")]: more } }), invalid);
  });
});

describe("metadata that is read", () => {
  it("names at most 4096 releases", () => {
    assert.doesNotThrow(() => targetsWith({ targets: targetsOf(4096) }));
    assert.throws(() => targetsWith({ targets: targetsOf(4097) }), invalid);
  });

  it("has one canonical form: whole numbers, and texts without control characters", () => {
    for (const unknown of [null, true, 1, "é", ["x"], { y: null }])
      assert.doesNotThrow(() => targetsWith({ x: unknown }), JSON.stringify(unknown));
    for (const unknown of [1.5, -0, 2 ** 53, "\u0000", "\ud800", ["\n"], { "\t": 1 }, { y: 0.1 }, undefined])
      assert.throws(() => targetsWith({ x: unknown }), invalid, JSON.stringify(unknown));
  });

  it("is refused where its text has a number in another form, whose signed bytes would be others", () => {
    const text = metadataText(change.targets);
    assert.match(text, /"version":1[,}]/);
    assert.doesNotThrow(() => parseMetadata("targets", text));
    for (const other of ["1.0", "1e0", "10E-1"])
      assert.throws(
        () => parseMetadata("targets", text.replace(/"version":1(?=[,}])/, `"version":${other}`)),
        invalid,
        other,
      );
  });

  it("is of its role, with the bytes that were written", () => {
    const text = metadataText(change.targets);
    assert.equal(metadataText(parseMetadata("targets", text)), text);
    assert.throws(() => parseMetadata("snapshot", text), invalid);
    assert.throws(() => parseMetadata("targets", text.slice(1)), invalid);
    assert.throws(() => targetsWith({ expires: "2027-02-31" }), invalid);
    assert.throws(() => targetsWith({ expires: "2027-99-01T00:00:00Z" }), invalid);
    assert.throws(() => targetsWith({ version: 0 }), invalid);
  });
});

describe("signatures of a role", () => {
  const signedBy = (...digits: readonly string[]): Metadata<"targets"> =>
    digits.reduce(
      (metadata, digit) => addSignature(root, "targets", metadata, key(digit)) ?? metadata,
      change.targets,
    );
  const rootOfTwo: Root = {
    ...root,
    roles: { ...root.roles, targets: { ...root.roles.targets, threshold: 2 } },
  };
  const isVerified = (of: Root, metadata: Metadata): boolean => {
    try {
      verifyRole(of, "targets", metadata);
      return true;
    } catch {
      return false;
    }
  };

  it("count by distinct keys of that role", () => {
    assert.equal(isVerified(root, change.targets), false);
    assert.equal(isVerified(root, signedBy("b")), true);
    assert.equal(isVerified(rootOfTwo, signedBy("b")), false);
    assert.equal(isVerified(rootOfTwo, signedBy("b", "b")), false);
    assert.equal(isVerified(rootOfTwo, signedBy("b", "e")), true);
    const one = signedBy("b");
    const twice = { ...one, signatures: [...one.signatures, ...one.signatures] };
    assert.equal(isVerified(rootOfTwo, twice), false, "the same signature twice");
  });

  it("are one of each key: metadata with two of one is not read", () => {
    const { signatures } = signedBy("b");
    const read = (all: readonly unknown[]) =>
      checkMetadata("targets", { signatures: all, signed: change.targets.signed });
    assert.doesNotThrow(() => read(signatures));
    assert.throws(() => read([...signatures, ...signatures]), invalid);
    assert.throws(() => read([...signatures, { ...signatures[0], sig: "" }]), invalid);
  });

  it("of keys of other roles, of unknown keys, and empty ones do not count", () => {
    assert.equal(addSignature(root, "targets", change.targets, key("a")), undefined);
    assert.equal(addSignature(root, "targets", change.targets, key("9")), undefined);
    const { sig } = addSignature(root, "root", change.targets, key("a"))!.signatures[0]!;
    for (const signatures of [
      [{ keyid: idOf("a"), sig }],
      [{ keyid: idOf("b"), sig }],
      [{ keyid: idOf("b"), sig: "" }],
      [{ keyid: idOf("9"), sig }],
    ])
      assert.equal(validSigners(root, "targets", { ...change.targets, signatures }).size, 0);
  });

  it("are of the whole of what is signed", () => {
    const signed = signedBy("b");
    const changed = { ...signed, signed: { ...signed.signed, version: signed.signed.version + 1 } };
    assert.equal(isVerified(root, changed), false);
  });
});
