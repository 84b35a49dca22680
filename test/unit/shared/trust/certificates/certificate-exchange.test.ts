/** What a device sends for a certificate, and which answers, invitations and proofs count. */
import assert from "node:assert/strict";
import { before, describe, it } from "node:test";
import {
  isBatchUse,
  parseBatchInvitation,
  signBatchTerms,
  useBatch,
  type BatchInvitation,
} from "../../../../../shared/trust/certificates/batch-invitation.js";
import {
  isRenewalSigned,
  parseAnswer,
  parseCertificateRequest,
  renewalSignature,
  signAnswer,
} from "../../../../../shared/trust/certificates/certificate-exchange.js";
import { parseInvitation, signInvitation } from "../../../../../shared/trust/certificates/invitation.js";
import { keyOfSeed } from "../../../../../shared/trust/keys.js";
import { makeAuthority, makeDeviceCertificate, type TestCertificate } from "../../../../helpers/test-pki.js";

const [server, batchKey, thief] = ["1", "2", "3"].map((digit) => keyOfSeed(digit.repeat(64))) as [
  ReturnType<typeof keyOfSeed>,
  ReturnType<typeof keyOfSeed>,
  ReturnType<typeof keyOfSeed>,
];
const invalid = { code: "ENROLMENT_INVALID" };
const common = {
  fleet: "cars",
  lines: ["soh"],
  profile: "generic",
  mqtt: ["mqtts://a.example:8883"],
  root: "stemma",
  authorities: ["pem"],
  serverPublicKey: server.publicKey,
  issuedAtMs: 1,
  expiresAtMs: 2,
};
const invitation = signInvitation(server, {
  kind: "stemma-invitation",
  format: 1,
  device: "van-7",
  generation: 1,
  ...common,
});
const terms = signBatchTerms(server, {
  kind: "stemma-batch-invitation",
  format: 1,
  batch: "spring",
  publicKey: batchKey.publicKey,
  ...common,
});
const file: BatchInvitation = { kind: "stemma-batch-file", format: 1, terms, seed: batchKey.seed };
const request = "AAAA";
const renewal = { fleet: "cars", device: "van-7", generation: 1, certificate: "pem", signature: "AA" };
const requestOf = (members: object) => ({
  kind: "stemma-certificate-request",
  format: 1,
  request,
  ...members,
});

describe("a request for a certificate", () => {
  const batch = useBatch(file, "van-7", request);

  it("has exactly one proof; a certificate of the owner goes with a first one", () => {
    for (const members of [
      { invitation },
      { batch },
      { renewal },
      { invitation, owned: "pem" },
      { batch, owned: "pem" },
    ])
      assert.deepEqual(parseCertificateRequest(requestOf(members)), requestOf(members));
    for (const members of [
      {},
      { owned: "pem" },
      { invitation, renewal },
      { invitation, batch },
      { batch, renewal },
      { invitation, batch, renewal },
      { renewal, owned: "pem" },
      { invitation, more: 1 },
      { renewal: { ...renewal, generation: 0 } },
    ])
      assert.throws(() => parseCertificateRequest(requestOf(members)), invalid, Object.keys(members).join());
    assert.throws(() => parseCertificateRequest(undefined), invalid);
  });
});

describe("the signature of a renewal", () => {
  let device: TestCertificate;
  let other: TestCertificate;
  before(async () => {
    const authority = await makeAuthority("root");
    device = await makeDeviceCertificate(authority, "van-7");
    other = await makeDeviceCertificate(authority, "van-7");
  });

  it("is of this request, by the key of the present certificate", () => {
    const signature = renewalSignature(request, device.key);
    assert.equal(isRenewalSigned(request, device.certificate, signature), true);
    assert.equal(isRenewalSigned("AAAB", device.certificate, signature), false);
    assert.equal(isRenewalSigned(request, other.certificate, signature), false);
    assert.equal(isRenewalSigned(request, device.certificate, ""), false);
    assert.equal(isRenewalSigned(request, "not a certificate", signature), false);
  });
});

describe("an answer with a certificate", () => {
  const members = { certificate: "pem", authorities: ["pem"], issuedAtMs: 3 };
  const answer = signAnswer(server, request, members);

  it("counts where the server signed it for this request", () => {
    const parsed = parseAnswer(answer, server.publicKey, request);
    assert.deepEqual([parsed.certificate, parsed.serverKey.publicKey], ["pem", server.publicKey]);
    assert.throws(() => parseAnswer(answer, server.publicKey, "AAAB"), invalid);
    assert.throws(() => parseAnswer(signAnswer(thief, request, members), server.publicKey, request), invalid);
    assert.throws(() => parseAnswer(undefined, server.publicKey, request), invalid);
  });

  it("does not count where anything of it was changed", () => {
    for (const change of [
      { certificate: "other" },
      { authorities: ["other"] },
      { issuedAtMs: 4 },
      { generation: 2 },
      { signature: "0".repeat(128) },
    ])
      assert.throws(() => parseAnswer({ ...answer, ...change }, server.publicKey, request), invalid);
  });
});

describe("an invitation", () => {
  it("is the one that the server which it names made", () => {
    assert.deepEqual(parseInvitation(invitation), invitation);
    for (const change of [
      { device: "van-8" },
      { generation: 2 },
      { mqtt: ["mqtts://b.example:8883"] },
      { authorities: ["other"] },
      { serverPublicKey: thief.publicKey },
      { expiresAtMs: 3 },
      { by: { who: "ann", through: "http" } },
    ])
      assert.throws(() => parseInvitation({ ...invitation, ...change }), invalid, Object.keys(change).join());
    const { signature: _, ...unsigned } = invitation;
    assert.throws(() => parseInvitation(unsigned), invalid);
  });
});

describe("the invitation of a batch", () => {
  const parse = (value: unknown) => parseBatchInvitation(value, "x");

  it("is the one that the server which it names made, with its own key", () => {
    assert.deepEqual(parse(file), file);
    for (const change of [
      { seed: thief.seed },
      { terms: { ...terms, fleet: "vans" } },
      { terms: { ...terms, publicKey: thief.publicKey }, seed: thief.seed },
      { terms: { ...terms, serverPublicKey: thief.publicKey } },
      { format: 2 },
    ])
      assert.throws(() => parse({ ...file, ...change }), invalid, Object.keys(change).join());
  });

  it("is told from files of something else, which are not refused", () => {
    for (const other of [undefined, null, 7, {}, invitation, { ...file, kind: "x" }])
      assert.equal(parse(other), undefined);
  });

  it("is used for one device and one request", () => {
    const use = useBatch(file, "van-7", request);
    assert.equal(isBatchUse(use, request), true);
    assert.equal(isBatchUse(use, "AAAB"), false);
    assert.equal(isBatchUse({ ...use, device: "van-8" }, request), false);
    assert.equal(isBatchUse({ ...use, terms: { ...terms, batch: "autumn" } }, request), false);
    assert.equal(isBatchUse({ ...use, terms: { ...terms, publicKey: thief.publicKey } }, request), false);
  });
});
