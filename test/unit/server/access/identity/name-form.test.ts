// How certificates of an owner's authority name devices: exactly, and never two of them.
import assert from "node:assert/strict";
import { before, describe, it } from "node:test";
import { parseNameForm, whyNotNamed } from "../../../../../server/access/identity/name-form.js";
import { readCertificateFields } from "../../../../../shared/trust/certificates/certificate-fields.js";
import { certificatesOfPem } from "../../../../../shared/trust/certificates/pem-chain.js";
import { makeAuthority, makeDeviceCertificate, type TestAuthority } from "../../../../helpers/test-pki.js";

const van = { fleet: "cars", device: "van-7" };

describe("the name of a device in its certificate", () => {
  let root: TestAuthority;
  before(async () => {
    root = await makeAuthority("root");
  });
  async function why(
    form: string,
    options: { readonly subject?: string; readonly uris?: readonly string[] },
    device = van,
  ): Promise<string | undefined> {
    const { certificate } = await makeDeviceCertificate(root, device.device, options);
    return whyNotNamed(readCertificateFields(certificatesOfPem(certificate)[0] as Uint8Array), form, device);
  }

  it("is the whole common name, which is there once", async () => {
    assert.equal(await why("cn:{device}", { subject: "O=Oem, CN=van-7" }), undefined);
    for (const subject of ["CN=van-70", "CN=xvan-7", "CN=VAN-7", "O=van-7"])
      assert.ok((await why("cn:{device}", { subject })) !== undefined, subject);
    assert.match((await why("cn:{device}", { subject: "CN=van-8, CN=van-7" })) ?? "", /several/);
    assert.match((await why("cn:{device}", { subject: "CN=van-7, CN=van-7" })) ?? "", /several/);
    assert.match((await why("cn:{device}", { subject: "CN=van-8" })) ?? "", /"van-8".*"van-7"/);
  });

  it("is the serial number of the subject, as in IEEE 802.1AR", async () => {
    assert.equal(await why("serialNumber:{device}", { subject: "CN=anything, 2.5.4.5=van-7" }), undefined);
    assert.match((await why("serialNumber:{device}", { subject: "CN=van-7" })) ?? "", /has no serial number/);
  });

  it("is an alternative name, beside others, with the fleet in it", async () => {
    const form = "uri:urn:oem:{fleet}:vehicle:{device}";
    const own = "urn:oem:cars:vehicle:van-7";
    assert.equal(await why(form, { uris: ["https://oem.example/doc", own] }), undefined);
    assert.ok((await why(form, { uris: ["urn:oem:trucks:vehicle:van-7"] })) !== undefined);
    assert.match((await why(form, { uris: [own, "urn:oem:cars:vehicle:van-8"] })) ?? "", /several/);
    assert.ok((await why(form, { uris: [] })) !== undefined);
    assert.ok((await why(form, { uris: [own] }, { fleet: "trucks", device: "van-7" })) !== undefined);
  });

  it("has one form, which says where the device's name is", () => {
    for (const form of ["cn:{device}", "dns:{device}.{fleet}.example", "uri:urn:{fleet}:{device}"])
      parseNameForm(form);
    for (const form of [
      "",
      "{device}",
      "cn:",
      "cn:van",
      "cn:{device}{device}",
      "cn:{Device}",
      "cn:{device",
      "cn:{device}}",
      "email:{device}",
      "cn:{device} x",
      "cn:{fleet}{fleet}{device}",
      `cn:${"x".repeat(300)}{device}`,
    ])
      assert.throws(() => parseNameForm(form), { code: "USAGE" }, form);
  });
});
