/**
 * Checkpoints and cosignatures: examples of C2SP's documents and of Go's package note; notes made here and read by a
 * second implementation below, which has nothing of the first; and notes that are to be refused.
 */
import assert from "node:assert/strict";
import { createPublicKey, verify, type KeyObject } from "node:crypto";
import { describe, it } from "node:test";
import { isStemmaError } from "../../../../shared/errors.js";
import { isSignatureValid, keyOfSeed } from "../../../../shared/trust/keys.js";
import {
  cosignedCheckpoint,
  cosigners,
  isOriginOf,
  journalOrigin,
  parseCheckpoint,
  signCheckpoint,
  witnessKeys,
  type WitnessPolicy,
} from "../../../../shared/trust/checkpoint.js";
import {
  maxNoteSignatures,
  parseSignedNote,
  parseVerifierKey,
  signedNoteText,
  verifierKeyText,
} from "../../../../shared/trust/signed-note.js";
import type { Hash } from "../../../../shared/tensor/tensor.js";
import { noteIdOf, testWitness, type TestWitness } from "../../../helpers/test-witness.js";

// The second implementation: notes are split, hashed and checked without the code under test.

/** Reads the log's signature of a checkpoint as a witness does, before it cosigns. */
function logSignatureHolds(note: string, origin: string, key: KeyObject): boolean {
  const [body = "", lines = ""] = note.split("\n\n");
  const [, name, encoded = ""] = (lines.split("\n")[0] ?? "").split(" ");
  const bytes = Buffer.from(encoded, "base64");
  return (
    name === origin &&
    bytes.subarray(0, 4).equals(noteIdOf(origin, 1, key)) &&
    verify(null, Buffer.from(`${body}\n`), key, bytes.subarray(4))
  );
}

const server = keyOfSeed("07".repeat(32));
const serverKey = createPublicKey({
  key: Buffer.concat([Buffer.from("302a300506032b6570032100", "hex"), Buffer.from(server.publicKey, "hex")]),
  format: "der",
  type: "spki",
});
const origin = journalOrigin(server.publicKey, "cars");
const root = "ab".repeat(32) as Hash;
const checkpoint = signCheckpoint(server, { origin, length: 42, root });
const witnesses = ["witness.example/w1", "witness.example/w2", "other.example/w"].map(testWitness);
const [w1, w2, w3] = witnesses as [TestWitness, TestWitness, TestWitness];
const policyOf = (threshold: number): WitnessPolicy => ({
  origin,
  threshold,
  witnesses: witnessKeys(witnesses.map(({ vkey }) => vkey)) ?? assert.fail(),
});

/** The example of C2SP's tlog-cosignature.md, which says that the cosignature's time is 1679315147. */
const example = `example.com/behind-the-sofa
20852163
CsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=

— example.com/behind-the-sofa Az3grlgtzPICa5OS8npVmf1Myq/5IZniMp+ZJurmRDeOoRDe4URYN7u5/Zhcyv2q1gGzGku9nTo+zyWE+xeMcTOAYQ8=
— witness.example.com/w1 jWbPPwAAAABkGFDLEZMHwSRaJNiIDoe9DYn/zXcrtPHeolMI5OWXEhZCB9dlrDJsX3b2oyin1nPZqhf5nNo0xUe+mbIUBkBIfZ+qnA==
`;

describe("published examples", () => {
  it("reads C2SP's checkpoint with its cosignature, and writes the same bytes", () => {
    const { checkpoint: read, note } = parseCheckpoint(example);
    assert.equal(read.origin, "example.com/behind-the-sofa");
    assert.equal(read.length, 20852163);
    assert.equal(Buffer.from(note.signatures[1]?.bytes ?? []).readBigUInt64BE(0), 1679315147n);
    assert.equal(signedNoteText(note), example);
  });
  it("checks the note in Go's documentation", () => {
    const key = parseVerifierKey("PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW");
    const { text, signatures } = parseSignedNote(
      "If you think cryptography is the answer to your problem,\nthen you don't know what your problem is.\n\n" +
        "— PeterNeumann x08go/ZJkuBS9UG/SffcvIAQxVBtiFupLLr8pAcElZInNIuGUgYN1FFYC2pZSNXgKvqfqdngotpRZb6KE6RyyBwJnAM=\n",
    );
    assert.equal(signatures[0]?.keyId, key?.keyId);
    assert.ok(isSignatureValid(key?.publicKey ?? "", Buffer.from(text), signatures[0]?.bytes ?? Buffer.of()));
  });
  it("takes the key of Go's checksum database, and no other text", () => {
    const text = "sum.golang.org+033de0ae+Ac4zctda0e5eza+HJyk9SxEdh+s3Ux18htTTAD8OuAn8";
    const key = parseVerifierKey(text);
    assert.equal(key?.name, "sum.golang.org");
    assert.equal(verifierKeyText(key.name, key.algorithm, key.publicKey), text);
    assert.equal(parseVerifierKey(text.replace("033de0ae", "033de0af")), undefined);
    assert.equal(parseVerifierKey(text.replace("+Ac", "+Bc")), undefined);
    assert.equal(parseVerifierKey(text.replace("sum.", "sum ")), undefined);
  });
});

describe("a checkpoint of a journal", () => {
  it("is read by another implementation, which cosigns it", () => {
    assert.ok(logSignatureHolds(checkpoint, origin, serverKey));
    const [body] = checkpoint.split("\n\n");
    assert.equal(body, `${origin}\n42\n${Buffer.from(root, "hex").toString("base64")}`);
    const cosigned = checkpoint + w1.cosign(checkpoint, 1_700_000_000) + w2.cosign(checkpoint, 1_700_000_001);
    assert.deepEqual(cosigners(policyOf(2), parseCheckpoint(cosigned).note), [w1.name, w2.name]);
    assert.deepEqual(cosignedCheckpoint(policyOf(2), cosigned), { origin, length: 42, root });
  });

  const missing = (text: string, threshold: number): void => {
    assert.throws(
      () => cosignedCheckpoint(policyOf(threshold), text),
      (error) => isStemmaError(error, "COSIGNATURES_MISSING"),
    );
  };
  it("counts a witness once, however often it signed", () => {
    missing(checkpoint + w1.cosign(checkpoint, 1) + w1.cosign(checkpoint, 2) + w1.cosign(checkpoint, 1), 2);
    // The form of another witness's line with the first one's signature.
    missing(checkpoint + w1.cosign(checkpoint, 1) + w1.cosign(checkpoint, 1).replace(w1.name, w2.name), 2);
  });
  it("counts neither unknown witnesses, nor signatures of another state, nor the server's own", () => {
    const other = signCheckpoint(server, { origin, length: 43, root });
    missing(checkpoint, 1);
    missing(checkpoint + testWitness("nobody.example").cosign(checkpoint, 1), 1);
    missing(checkpoint + testWitness(w1.name).cosign(checkpoint, 1), 1);
    missing(checkpoint + w1.cosign(other, 1), 1);
    missing(checkpoint + checkpoint.split("\n\n")[1], 1);
  });
  it("counts the others where a line of a known witness is altered", () => {
    const [start = "", name = "", encoded = ""] = w1.cosign(checkpoint, 7).trimEnd().split(" ");
    const bytes = Buffer.from(encoded, "base64");
    bytes[11] = (bytes[11] ?? 0) ^ 1;
    const altered = `${start} ${name} ${bytes.toString("base64")}\n`;
    missing(checkpoint + altered, 1);
    assert.equal(cosignedCheckpoint(policyOf(1), checkpoint + altered + w3.cosign(checkpoint, 7)).length, 42);
    // A time beyond 2^63 - 1 is not allowed.
    bytes.fill(0xff, 4, 12);
    missing(`${checkpoint}${start} ${name} ${bytes.toString("base64")}\n`, 1);
  });
  it("of another journal is refused; after a restore it goes on under a further name", () => {
    for (const foreign of [
      journalOrigin(server.publicKey, "vans"),
      `${origin}s`,
      `${origin}/restored-x`,
      "a",
    ]) {
      const note = signCheckpoint(server, { origin: foreign, length: 42, root });
      assert.throws(
        () => cosignedCheckpoint(policyOf(1), note + w1.cosign(note, 1)),
        (error) => isStemmaError(error, "CHECKPOINT_INVALID"),
      );
    }
    const restored = journalOrigin(server.publicKey, "cars", "12".repeat(32) as Hash);
    assert.ok(isOriginOf(origin, restored));
    const note = signCheckpoint(server, { origin: restored, length: 42, root });
    assert.equal(cosignedCheckpoint(policyOf(1), note + w1.cosign(note, 1)).origin, restored);
  });
  it("is asked for by witnesses that differ in name and key", () => {
    const twin = verifierKeyText("twin.example", 4, w1.publicKey);
    assert.equal(witnessKeys([w1.vkey, w1.vkey]), undefined);
    assert.equal(witnessKeys([w1.vkey, twin]), undefined);
    assert.equal(witnessKeys([w1.vkey, verifierKeyText("log.example", 1, server.publicKey)]), undefined);
    assert.equal(witnessKeys([w1.vkey, "nonsense"]), undefined);
    assert.equal(witnessKeys([w1.vkey, w2.vkey])?.length, 2);
  });
});

describe("a note from outside", () => {
  const line = w1.cosign(checkpoint, 1);
  const cases: readonly (readonly [string, string])[] = [
    ["nothing", ""],
    ["no signatures", checkpoint.slice(0, checkpoint.indexOf("\n\n") + 1)],
    ["an empty list of signatures", checkpoint.slice(0, checkpoint.indexOf("\n\n") + 2)],
    ["no line feed at its end", checkpoint.slice(0, -1)],
    ["a blank line after the signatures", `${checkpoint}\n`],
    ["a line that is not a signature", `${checkpoint}hello\n`],
    ["another dash", checkpoint + line.replace("—", "-")],
    ["a further word", checkpoint + line.replace("\n", " x\n")],
    ["a name with a plus", checkpoint + line.replace(w1.name, "a+b")],
    ["a name with a space of Unicode", checkpoint + line.replace(w1.name, "a\u2003b")],
    ["base64 that is not canonical", checkpoint + line.replace("=\n", "\n")],
    ["a signature that is a key id alone", `${checkpoint}— w AAAAAA==\n`],
    ["carriage returns", checkpoint.replaceAll("\n", "\r\n")],
    ["NUL", checkpoint.replace("42", "4\u00002")],
    ["half a surrogate pair", checkpoint + line.replace(w1.name, "\ud800")],
    ["more signatures than are read", checkpoint + line.repeat(maxNoteSignatures)],
    ["a long name", checkpoint + line.replace(w1.name, "n".repeat(256))],
    ["20 MB", `${"x".repeat(20_000_000)}\n\n${line}`],
    ["leading zeros", checkpoint.replace("\n42\n", "\n042\n")],
    ["a sign", checkpoint.replace("\n42\n", "\n-42\n")],
    ["a number beyond 2^53", checkpoint.replace("\n42\n", "\n9007199254740993\n")],
    ["a root of 31 bytes", example.replace("CsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=", "q6urq6s=")],
    ["an extension line", checkpoint.replace("\n\n", "\nmore\n\n")],
    ["no origin", checkpoint.replace(origin, "")],
  ];
  for (const [name, text] of cases)
    it(`with ${name} is refused`, () => {
      assert.throws(
        () => parseCheckpoint(text),
        (error) => isStemmaError(error, "CHECKPOINT_INVALID"),
      );
    });
  it("with as many signatures as are read is taken", () => {
    assert.equal(
      parseCheckpoint(checkpoint + line.repeat(maxNoteSignatures - 1)).note.signatures.length,
      maxNoteSignatures,
    );
  });
});
