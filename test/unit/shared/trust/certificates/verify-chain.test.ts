// Chains of certificates, as an attacker or a wrong clock could present them.
import assert from "node:assert/strict";
import { X509Certificate } from "node:crypto";
import { before, describe, it } from "node:test";
import { nodeRandom } from "../../../../../shared/adapters/node-ports.js";
import {
  deviceCertificateMs,
  openAuthority,
  type Authority,
} from "../../../../../server/access/identity/authority.js";
import {
  generateConnectionKey,
  publicKeyInfo,
} from "../../../../../shared/trust/certificates/connection-key.js";
import {
  importPair,
  signingAlgorithm,
} from "../../../../../shared/trust/certificates/certificate-request.js";
import {
  certificatesBeginMs,
  verifyChain,
  type ChainRules,
} from "../../../../../shared/trust/certificates/verify-chain.js";
import { loadX509 } from "../../../../../shared/trust/certificates/x509-library.js";
import { generateKey, keyOfSeed } from "../../../../../shared/trust/keys.js";

const subject = { fleet: "cars", device: "van-7", generation: 2 };
const atMs = Date.UTC(2026, 5, 1);
const derOf = (pem: string): Uint8Array => new X509Certificate(pem).raw;

describe("a chain of certificates", () => {
  let authority: Authority;
  let other: Authority;
  let leafKey: string;
  let leaf: Uint8Array;
  const seed = "11".repeat(32);
  const rules = (change: Partial<ChainRules> = {}): ChainRules => ({
    authorities: [authority.parsed],
    atMs,
    purpose: "device",
    ...change,
  });
  const whyNot = (chain: readonly Uint8Array[], change: Partial<ChainRules> = {}): string => {
    const found = verifyChain(chain, rules(change));
    return found.verdict === "refused" ? found.why : found.verdict;
  };
  before(async () => {
    authority = await openAuthority(keyOfSeed(seed), nodeRandom());
    other = await openAuthority(generateKey(nodeRandom()), nodeRandom());
    leafKey = generateConnectionKey();
    leaf = derOf((await authority.issueForDevice(subject, publicKeyInfo(leafKey), { atMs })).certificate);
  });

  it("is trusted from its issue to its end, and says whose it is", () => {
    const found = verifyChain([leaf], rules());
    assert.equal(found.verdict, "trusted");
    assert.equal(found.certificate.subject, "O=cars\nOU=generation 2\nCN=van-7");
    assert.equal(found.certificate.notAfterMs, atMs + deviceCertificateMs);
    assert.equal(whyNot([leaf], { atMs: atMs + deviceCertificateMs - 1 }), "trusted");
    assert.equal(whyNot([leaf], { atMs: certificatesBeginMs }), "trusted");
  });
  it("has expired at its end, and is refused before its beginning and at 1970", () => {
    assert.equal(whyNot([leaf], { atMs: atMs + deviceCertificateMs }), "expired");
    assert.equal(whyNot([leaf], { atMs: Date.UTC(2099, 0, 1) }), "expired");
    assert.match(whyNot([leaf], { atMs: certificatesBeginMs - 1 }), /valid only from/);
    assert.match(whyNot([leaf], { atMs: 0 }), /valid only from/);
  });
  it("is trusted by a certificate of the same authority that was made at another start", async () => {
    const again = await openAuthority(keyOfSeed(seed), nodeRandom());
    assert.notEqual(again.certificate, authority.certificate);
    assert.equal(whyNot([leaf], { authorities: [again.parsed] }), "trusted");
  });
  it("is refused by another authority, also beside the right name", async () => {
    assert.match(whyNot([leaf], { authorities: [other.parsed] }), /authority/);
    assert.match(whyNot([leaf], { authorities: [] }), /authority/);
    // The names are made of the key, so the same name needs a certificate made by hand.
    const x509 = await loadX509();
    const keys = await importPair(generateConnectionKey());
    const named = await x509.X509CertificateGenerator.createSelfSigned({
      name: new x509.X509Certificate(authority.certificate).subject,
      keys,
      signingAlgorithm,
      extensions: [new x509.BasicConstraintsExtension(true, undefined, true)],
    });
    assert.match(whyNot([leaf], { authorities: [new X509Certificate(named.toString("pem"))] }), /authority/);
  });
  it("is refused for another use, in both directions, and where it is an authority's", async () => {
    const server = await authority.issueForServer(["localhost"], atMs);
    assert.equal(whyNot([derOf(server.cert)], { purpose: "server" }), "trusted");
    assert.match(whyNot([derOf(server.cert)]), /not for a device/);
    assert.match(whyNot([leaf], { purpose: "server" }), /not for a server/);
    assert.match(whyNot([authority.parsed.raw]), /authority/);
  });
  it("is refused where a device's certificate acts as an authority", async () => {
    const x509 = await loadX509();
    const forged = await x509.X509CertificateGenerator.create({
      subject: "O=cars, OU=generation 1, CN=van-8",
      issuer: new x509.X509Certificate(leaf).subject,
      notBefore: new Date(certificatesBeginMs),
      notAfter: new Date(atMs * 2),
      publicKey: (await importPair(generateConnectionKey())).publicKey,
      signingKey: (await importPair(leafKey)).privateKey,
      signingAlgorithm,
      extensions: [new x509.ExtendedKeyUsageExtension([x509.ExtendedKeyUsage.clientAuth])],
    });
    assert.match(whyNot([new Uint8Array(forged.rawData), leaf]), /authority/);
  });
  it("does not mind certificates that it does not need, up to four", () => {
    const { raw } = authority.parsed;
    assert.equal(whyNot([leaf, raw]), "trusted");
    assert.equal(whyNot([leaf, raw, raw, raw]), "trusted");
    assert.match(whyNot([leaf, leaf, leaf, leaf, leaf]), /at most 4/);
  });
  it("is refused where it is empty, unreadable, changed or huge", () => {
    assert.match(whyNot([]), /no certificate/);
    assert.match(whyNot([new Uint8Array(10)]), /cannot be read/);
    assert.match(whyNot([new Uint8Array(20_000)]), /larger than/);
    const changed = Uint8Array.from(leaf);
    changed[changed.length - 3] = (changed[changed.length - 3] ?? 0) ^ 1;
    assert.match(whyNot([changed]), /authority|cannot be read/);
  });
});
