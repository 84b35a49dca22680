// Chains of an owner's authority: what RFC 5280 lets an authority limit, and what an attacker would build.
import assert from "node:assert/strict";
import { X509Certificate } from "node:crypto";
import { before, describe, it } from "node:test";
import { readCertificateFields } from "../../../../../shared/trust/certificates/certificate-fields.js";
import { importPair } from "../../../../../shared/trust/certificates/certificate-request.js";
import { certificatesOfPem } from "../../../../../shared/trust/certificates/pem-chain.js";
import { verifyChain, whyNotIssuingChain } from "../../../../../shared/trust/certificates/verify-chain.js";
import { loadX509 } from "../../../../../shared/trust/certificates/x509-library.js";
import { isStemmaError } from "../../../../../shared/errors.js";
import {
  clientAuth,
  makeAuthority,
  makeDeviceCertificate,
  serverAuth,
  type AuthorityOptions,
  type DeviceOptions,
  type TestAuthority,
} from "../../../../helpers/test-pki.js";

const nowMs = Date.now();
const dayMs = 86_400_000;

describe("a chain of an owner's authority", () => {
  let root: TestAuthority;
  before(async () => {
    root = await makeAuthority("root");
  });
  const judge = (pem: string, trusted: readonly TestAuthority[], atMs = nowMs): string => {
    const authorities = trusted.map(({ certificate }) => new X509Certificate(certificate));
    const found = verifyChain(certificatesOfPem(pem), { authorities, atMs, purpose: "device" });
    return found.verdict === "refused" ? found.why : found.verdict;
  };
  /** The verdict of a device below an authority below the root. */
  async function below(options: AuthorityOptions, device: DeviceOptions = {}): Promise<string> {
    const issuing = await makeAuthority("issuing", root, options);
    const made = await makeDeviceCertificate(issuing, "van-7", { ...device, between: [issuing] });
    return judge(made.certificate, [root]);
  }

  it("is trusted with what is between, and from what is between alone where that is trusted", async () => {
    const policy = await makeAuthority("policy", root, { pathLength: 1 });
    const issuing = await makeAuthority("issuing", policy, { pathLength: 0, extendedKeyUsage: [clientAuth] });
    const device = await makeDeviceCertificate(issuing, "van-7", { between: [issuing, policy] });
    assert.equal(judge(device.certificate, [root]), "trusted");
    const alone = await makeDeviceCertificate(issuing, "van-7");
    assert.match(judge(alone.certificate, [root]), /not issued by an authority/);
    assert.equal(judge(alone.certificate, [issuing]), "trusted");
    const found = verifyChain(certificatesOfPem(device.certificate), {
      authorities: [new X509Certificate(root.certificate)],
      atMs: nowMs,
      purpose: "device",
    });
    assert.ok(found.verdict === "trusted");
    assert.equal(found.certificate.path.length, 3);
    assert.equal(found.certificate.path[0]?.serial, device.serial);
  });

  it("is trusted with keys of RSA, and refused with weak ones", async () => {
    const strong = await makeAuthority("rsa", undefined, { rsaBits: 2048 });
    const device = await makeDeviceCertificate(strong, "van-7", { rsaBits: 2048 });
    assert.equal(judge(device.certificate, [strong]), "trusted");
    assert.match(await below({ rsaBits: 1024 }), /1024 bits/);
    assert.match(await below({}, { rsaBits: 1024 }), /1024 bits/);
  });

  it("is refused where it is longer than an authority in it allows", async () => {
    const policy = await makeAuthority("policy", root, { pathLength: 0 });
    const issuing = await makeAuthority("issuing", policy);
    const device = await makeDeviceCertificate(issuing, "van-7", { between: [issuing, policy] });
    assert.match(judge(device.certificate, [root]), /allows 0 authorities/);
    const short = await makeAuthority("short", undefined, { pathLength: 0 });
    const child = await makeAuthority("child", short);
    const grandchild = await makeDeviceCertificate(child, "van-7", { between: [child] });
    assert.match(judge(grandchild.certificate, [short]), /allows 0 authorities/);
  });

  it("is refused where something in it may not issue certificates", async () => {
    const x509 = await loadX509();
    assert.match(await below({ isAuthority: false }), /not issued by an authority/);
    assert.match(await below({ keyUsage: 0 }), /may not be used to issue/);
    assert.match(
      await below({ keyUsage: x509.KeyUsageFlags.digitalSignature }),
      /not issued|may not be used/,
    );
    assert.match(await below({ extendedKeyUsage: [serverAuth] }), /may not issue certificates for a device/);
    // A device's certificate as an authority.
    const device = await makeDeviceCertificate(root, "van-7");
    const asAuthority: TestAuthority = {
      ...root,
      name: "CN=van-7",
      certificate: device.certificate,
      keys: await importPair(device.key),
    };
    const forged = await makeDeviceCertificate(asAuthority, "van-8", { between: [asAuthority] });
    assert.match(judge(forged.certificate, [root]), /not issued by an authority/);
    assert.match(judge(forged.certificate, [asAuthority]), /not issued by an authority/);
  });

  it("is refused where the device's certificate is for something else", async () => {
    const x509 = await loadX509();
    assert.match(await below({}, { usage: [serverAuth] }), /not for a device/);
    assert.match(
      await below({}, { keyUsage: x509.KeyUsageFlags.keyEncipherment }),
      /may not be used to sign/,
    );
  });

  it("is refused where it has limits that are not understood here", async () => {
    const x509 = await loadX509();
    const unknown = new x509.Extension("1.3.6.1.4.1.99999.1", true, Buffer.from([5, 0]));
    assert.match(await below({ more: [unknown] }), /1\.3\.6\.1\.4\.1\.99999\.1 is not known/);
    assert.match(await below({}, { more: [unknown] }), /is not known/);
    const harmless = new x509.Extension("1.3.6.1.4.1.99999.1", false, Buffer.from([5, 0]));
    assert.equal(await below({ more: [harmless] }), "trusted");
    // Constraints of names, also where they are not critical: permitted are DNS names below one.
    const names = Buffer.from("300da00b3009820765786d706c6573", "hex");
    const constraints = new x509.Extension("2.5.29.30", false, names);
    assert.match(await below({ more: [constraints] }), /constraints of names/);
  });

  it("has ended with the first that ends, and its authority too", async () => {
    const endsMs = Math.floor((nowMs + dayMs) / 1000) * 1000;
    const issuing = await makeAuthority("issuing", root, { untilMs: endsMs });
    const device = await makeDeviceCertificate(issuing, "van-7", { between: [issuing] });
    assert.equal(judge(device.certificate, [root], endsMs - 1), "trusted");
    assert.equal(judge(device.certificate, [root], endsMs), "expired");
    const ended = await makeAuthority("ended", undefined, { untilMs: endsMs });
    const last = await makeDeviceCertificate(ended, "van-7");
    assert.equal(judge(last.certificate, [ended], endsMs + 1), "expired");
    // The same authority with a new certificate for its key.
    const renewed = await makeAuthority("ended", undefined, { sameKeyAs: ended });
    assert.equal(judge(last.certificate, [ended, renewed], endsMs + 1), "trusted");
    assert.match(judge(device.certificate, [root], nowMs - 2 * dayMs), /valid only from/);
  });

  it("may issue from its beginning to its end, and by an authority that is trusted", async () => {
    const fromMs = Math.floor(nowMs / 1000) * 1000;
    const issuing = await makeAuthority("issuing", root, { fromMs, untilMs: fromMs + dayMs });
    const other = await makeAuthority("root");
    const whyNot = (atMs: number, trusted = root, between: readonly TestAuthority[] = []): unknown =>
      whyNotIssuingChain(
        [issuing, ...between].flatMap(({ certificate }) => certificatesOfPem(certificate)),
        { authorities: [new X509Certificate(trusted.certificate)], atMs, purpose: "device" },
      );
    assert.equal(whyNot(fromMs), undefined);
    assert.equal(whyNot(fromMs + dayMs - 1), undefined);
    assert.notEqual(whyNot(fromMs - 1), undefined);
    assert.notEqual(whyNot(fromMs + dayMs), undefined);
    assert.notEqual(whyNot(fromMs, other), undefined, "of the same name");
    assert.equal(whyNot(fromMs, root, [root, root, root]), undefined);
    assert.notEqual(whyNot(fromMs, root, [root, root, root, root]), undefined);
  });

  it("is read without a crash whatever its bytes are", async () => {
    const device = await makeDeviceCertificate(root, "van-7", { uris: ["urn:oem:van-7"] });
    const [der = new Uint8Array()] = certificatesOfPem(device.certificate);
    for (let at = 0; at < der.length; at++)
      for (const change of [1, 0x80, 0xff]) {
        const bytes = Uint8Array.from(der);
        bytes[at] = (bytes[at] ?? 0) ^ change;
        for (const cut of [bytes, bytes.subarray(0, at)])
          try {
            readCertificateFields(cut);
          } catch (error) {
            assert.ok(isStemmaError(error, "CERTIFICATE_REFUSED"), String(error));
          }
      }
  });
});
