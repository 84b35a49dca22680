// The files of a certificate of the owner's authority, while somebody replaces them.
import assert from "node:assert/strict";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { checkOwnerCertificate, OwnerCertificate } from "../../../../agent/identity/owner-certificate.js";
import { nodeFiles } from "../../../../shared/files/node-files.js";
import { WaitableLog } from "../../../helpers/agent-fixtures.js";
import { makeAuthority, makeDeviceCertificate } from "../../../helpers/test-pki.js";

async function opened(t: TestContext) {
  const folder = await mkdtemp(join(tmpdir(), "stemma-owner-certificate-"));
  t.after(() => rm(folder, { recursive: true, force: true }));
  const settings = { file: join(folder, "device.crt"), key: join(folder, "device.key") };
  const log = new WaitableLog();
  return { settings, log, owned: new OwnerCertificate({ files: nodeFiles(), settings, log }) };
}

test("a new pair is taken, and while the files do not fit together the one before is used", async (t) => {
  const { settings, log, owned } = await opened(t);
  const root = await makeAuthority("root");
  const [first, second] = [await makeDeviceCertificate(root, "v"), await makeDeviceCertificate(root, "v")];
  await writeFile(settings.file, `some text\n${first.certificate}`);
  await writeFile(settings.key, first.key);
  assert.equal((await owned.present()).key, first.key);
  for (const [file, text] of [
    [settings.key, second.key],
    [settings.key, "-----BEGIN PRIVATE KEY-----\n"],
    [settings.key, "x".repeat(100_000)],
    [settings.file, ""],
    [settings.file, second.certificate],
  ] as const) {
    await writeFile(file, text);
    assert.equal((await owned.present()).key, first.key);
  }
  assert.ok(log.count("certificate-not-taken") > 1);
  const warned = log.count("certificate-not-taken");
  await owned.present();
  assert.equal(log.count("certificate-not-taken"), warned);
  await rm(settings.key);
  assert.equal((await owned.present()).key, first.key);
  await writeFile(settings.key, second.key);
  assert.equal((await owned.present()).key, second.key);
  assert.equal(log.count("certificate-taken"), 1);
});

test("without a pair that was good, what is wrong is said", async (t) => {
  const { settings, owned } = await opened(t);
  await assert.rejects(owned.present(), { code: "FILE_MISSING" });
  const root = await makeAuthority("root");
  const [first, second] = [await makeDeviceCertificate(root, "v"), await makeDeviceCertificate(root, "v")];
  await writeFile(settings.file, first.certificate);
  await writeFile(settings.key, second.key);
  await assert.rejects(owned.present(), { code: "CERTIFICATE_REFUSED" });
  await writeFile(settings.key, first.key);
  await writeFile(settings.file, first.certificate.repeat(5));
  await assert.rejects(owned.present(), { code: "CERTIFICATE_REFUSED" });
});

test("settings have to fit to how the device was enrolled", () => {
  const enrolled = { device: "v", ownerCertificate: { authority: "oem", issuedAtMs: 0 } };
  checkOwnerCertificate(enrolled, true);
  checkOwnerCertificate({ device: "v" }, false);
  for (const wrong of [
    () => checkOwnerCertificate(enrolled, false),
    () => checkOwnerCertificate({ device: "v" }, true),
  ])
    assert.throws(wrong, { code: "CONFIG_INVALID" });
});
