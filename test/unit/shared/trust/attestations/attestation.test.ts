/** An attestation holds for the file, statement and release key that it was made for, and for nothing else. */
import assert from "node:assert/strict";
import { createHash, createPrivateKey, createPublicKey, sign, verify, X509Certificate } from "node:crypto";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, it } from "node:test";
import { differenceFrom } from "../../../../../server/cli/attested-files.js";
import {
  attest,
  maxStatementBytes,
  verifyAttestation,
} from "../../../../../shared/trust/attestations/bundle.js";
import {
  attestedFiles,
  signatureStatement,
  type AttestedFile,
} from "../../../../../shared/trust/attestations/statement.js";
import { connectionKeyOf, publicKeyInfo } from "../../../../../shared/trust/certificates/connection-key.js";
import {
  certifyKey,
  ownerCertificate,
  pemOf,
} from "../../../../../shared/trust/certificates/owner-certificate.js";
import { keyOfSeed } from "../../../../../shared/trust/keys.js";
import { repositoryRoot } from "../../../../helpers/markdown.js";

const vectors = join(repositoryRoot, "test/vectors/trust");
const owner = keyOfSeed("07".repeat(32));
const other = keyOfSeed("08".repeat(32));
const sha256 = createHash("sha256").update("abc").digest("hex");
const statement = signatureStatement("model.safetensors", [{ name: ".", sha256 }]);
const golden = readFileSync(join(vectors, "model.sigstore.json"));

interface Bundle {
  readonly verificationMaterial: {
    readonly x509CertificateChain: { readonly certificates: readonly { readonly rawBytes: string }[] };
  };
  readonly dsseEnvelope: {
    readonly payload: string;
    readonly signatures: readonly { readonly sig: string }[];
  };
}
const bundleOf = (bytes: Uint8Array | string): Bundle => JSON.parse(String(bytes)) as Bundle;
const bytesOf = (bundle: object): Buffer => Buffer.from(JSON.stringify(bundle));
const refuses = (bytes: Uint8Array, key = owner.publicKey): void =>
  assert.throws(() => verifyAttestation("a", bytes, key), { code: "SIGNATURE_INVALID" });
/** A bundle of this certificate whose statement the key signed. */
function bundleWith(certificate: Uint8Array, key: ReturnType<typeof createPrivateKey>): Buffer {
  const payload = Buffer.from(JSON.stringify(statement));
  const type = "application/vnd.in-toto+json";
  const signed = Buffer.concat([Buffer.from(`DSSEv1 ${type.length} ${type} ${payload.length} `), payload]);
  return bytesOf({
    mediaType: "application/vnd.dev.sigstore.bundle.v0.3+json",
    verificationMaterial: {
      x509CertificateChain: { certificates: [{ rawBytes: Buffer.from(certificate).toString("base64") }] },
    },
    dsseEnvelope: {
      payload: payload.toString("base64"),
      payloadType: type,
      signatures: [{ sig: sign("sha256", signed, key).toString("base64") }],
    },
  });
}

describe("attestations", () => {
  it("of the past verify, and a release key has the same certificate for ever", () => {
    assert.deepEqual(verifyAttestation("golden", golden, owner.publicKey), statement);
    assert.deepEqual(attestedFiles(statement), [{ name: ".", sha256 }]);
    assert.equal(pemOf(ownerCertificate(owner)), readFileSync(join(vectors, "owner.pem"), "utf8"));
  });

  it("are what others read: X.509 from the owner to the key, and DSSE by that key", () => {
    const text = attest(statement, owner);
    const { verificationMaterial, dsseEnvelope } = bundleOf(text);
    const [first] = verificationMaterial.x509CertificateChain.certificates;
    const leaf = new X509Certificate(Buffer.from(first?.rawBytes ?? "", "base64"));
    const root = new X509Certificate(pemOf(ownerCertificate(owner)));
    assert.ok(root.ca && root.checkIssued(root) && root.verify(root.publicKey));
    assert.ok(!leaf.ca && leaf.checkIssued(root) && leaf.verify(root.publicKey));
    assert.ok(!leaf.verify(createPublicKey(leaf.publicKey.export({ type: "spki", format: "pem" }))));
    assert.equal(root.subject, `CN=${owner.publicKey}`);
    assert.deepEqual(leaf.keyUsage, ["1.3.6.1.5.5.7.3.3"]);
    const payload = Buffer.from(dsseEnvelope.payload, "base64");
    const signature = Buffer.from(dsseEnvelope.signatures[0]?.sig ?? "", "base64");
    const signed = `DSSEv1 28 application/vnd.in-toto+json ${payload.length} ${payload.toString()}`;
    assert.ok(verify("sha256", Buffer.from(signed), leaf.publicKey, signature));
    assert.notEqual(text, attest(statement, owner), "a key of its own for each signature");
  });

  it("with a character changed are refused, or say the very same", () => {
    for (let at = 0; at < golden.length; at += 7) {
      const changed = Buffer.from(golden);
      changed[at] = (changed[at] ?? 0) ^ 1;
      try {
        assert.deepEqual(verifyAttestation("changed", changed, owner.publicKey), statement);
      } catch (error) {
        assert.equal((error as { readonly code?: string }).code, "SIGNATURE_INVALID", String(error));
      }
    }
  });

  it("are refused of another key, of none, and of certificates that the owner did not make for this", () => {
    refuses(golden, other.publicKey);
    refuses(golden, "nothing");
    const key = connectionKeyOf(Buffer.alloc(48, 3));
    assert.deepEqual(
      verifyAttestation("a", bundleWith(certifyKey(owner, publicKeyInfo(key)), key), owner.publicKey),
      statement,
    );
    refuses(bundleWith(certifyKey(other, publicKeyInfo(key)), key));
    refuses(bundleWith(certifyKey(owner, publicKeyInfo(connectionKeyOf(Buffer.alloc(48, 4)))), key));
    refuses(bundleWith(ownerCertificate(owner), key));
    for (const certificate of [Buffer.alloc(0), Buffer.alloc(1000, 0x30)])
      refuses(bundleWith(certificate, key));
  });

  it("are bounded, whatever comes", () => {
    for (const text of ["", "{}", "[]", "null", "x".repeat(2 * 1024 * 1024)]) refuses(Buffer.from(text));
    refuses(Buffer.concat([golden, Buffer.alloc(1024 * 1024, 0x20)]));
    const long = signatureStatement("x".repeat(maxStatementBytes), [{ name: ".", sha256 }]);
    assert.throws(() => attest(long, owner), { code: "RECORD_TOO_LARGE" });
    const full = signatureStatement("\0".repeat(maxStatementBytes / 6 - 200), [{ name: ".", sha256 }]);
    assert.deepEqual(verifyAttestation("full", Buffer.from(attest(full, owner)), owner.publicKey), full);
  });

  it("name no file where their parts contradict each other", () => {
    const [subject] = statement.subject;
    const lying = {
      ...statement,
      subject: [{ ...subject, digest: { sha256: "0".repeat(64) } }] as [typeof subject],
    };
    assert.equal(attestedFiles(lying), undefined);
    assert.equal(attestedFiles({ ...statement, predicate: {} }), undefined);
    assert.deepEqual(attestedFiles({ ...statement, predicateType: "https://slsa.dev/provenance/v1" }), [
      { name: ".", sha256: subject.digest.sha256 },
    ]);
    const twice = [".", "."].map((name) => ({ name, sha256 }));
    assert.equal(attestedFiles(signatureStatement("m", twice)), undefined);
  });

  it("of a folder name its files in an order of their own, and tell which one differs", () => {
    const other = sha256.replace(/^./, "0");
    const files = [
      { name: "weights.bin", sha256 },
      { name: "model.json", sha256: other },
    ];
    const folder = signatureStatement("web", files);
    const attested = attestedFiles(folder)!;
    assert.deepEqual(attested, [files[1], files[0]]);
    assert.deepEqual(signatureStatement("web", attested), folder);
    assert.equal(differenceFrom(attested, files), undefined);
    const cases: readonly (readonly [readonly AttestedFile[], RegExp])[] = [
      [files.slice(1), /^weights\.bin was signed, and is not there$/],
      [[...files, { name: "more\u001b", sha256 }], /^more.+ was not signed$/],
      [[{ name: "weights.bin", sha256: other }, files[1]!], /^weights\.bin has the SHA-256/],
      [[{ name: ".", sha256 }], /^model\.json was signed/],
    ];
    for (const [found, text] of cases) assert.match(differenceFrom(attested, found) ?? "", text);
    assert.match(differenceFrom([{ name: ".", sha256 }], files) ?? "", /^the file was signed/);
  });
});
