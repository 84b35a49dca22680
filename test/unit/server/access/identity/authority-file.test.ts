// The file of an authority that is to be trusted, and what is not one.
import assert from "node:assert/strict";
import { test } from "node:test";
import { readAuthorityFile } from "../../../../../server/access/identity/authority-file.js";
import { openAuthority } from "../../../../../server/access/identity/authority.js";
import { nodeRandom } from "../../../../../shared/adapters/node-ports.js";
import { loadX509 } from "../../../../../shared/trust/certificates/x509-library.js";
import { generateKey } from "../../../../../shared/trust/keys.js";
import { makeAuthority, makeDeviceCertificate } from "../../../../helpers/test-pki.js";

const nowMs = Date.now();
const dayMs = 86_400_000;

test("the certificates of an authority are read, each once, with text around them", async () => {
  const root = await makeAuthority("root");
  const issuing = await makeAuthority("issuing", root);
  const text = `subject: root\n${root.certificate}\n${issuing.certificate}\n${root.certificate}`;
  assert.equal(readAuthorityFile(text, nowMs).length, 2);
});

test("what is not an authority, is too weak, has ended or has limits that are not kept is refused", async () => {
  const x509 = await loadX509();
  const refused = (text: string, why: RegExp): void => {
    assert.throws(
      () => readAuthorityFile(text, nowMs),
      (error: { code?: string; message: string }) =>
        error.code === "CERTIFICATE_REFUSED" && why.test(error.message),
    );
  };
  const root = await makeAuthority("root");
  const device = await makeDeviceCertificate(root, "van-7");
  refused("", /no certificate/);
  refused(device.certificate, /not the certificate of an authority/);
  refused(`${root.certificate}\n${device.key}`, /private key/);
  refused(root.certificate.repeat(9), /at most 8/);
  refused(root.certificate.replace(/^([A-Za-z0-9+/]{20})/m, "AAAA"), /cannot be read/);
  refused((await makeAuthority("weak", undefined, { rsaBits: 1024 })).certificate, /1024 bits/);
  refused(
    (await makeAuthority("no", undefined, { keyUsage: x509.KeyUsageFlags.cRLSign })).certificate,
    /key usage/,
  );
  refused((await makeAuthority("old", undefined, { untilMs: nowMs - 1000 })).certificate, /expired on/);
  refused((await makeAuthority("next", undefined, { fromMs: nowMs + dayMs })).certificate, /valid only from/);
  const own = await openAuthority(generateKey(nodeRandom()), nodeRandom());
  refused(own.certificate, /Stemma server's own/);
});
