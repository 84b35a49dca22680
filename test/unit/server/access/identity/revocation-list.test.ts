// Revocation lists of an owner's authority: who may sign them, when they are valid, and which are not understood.
import assert from "node:assert/strict";
import { before, describe, it } from "node:test";
import {
  checkRevocationList,
  type CheckedList,
} from "../../../../../server/access/identity/revocation-list.js";
import { loadX509 } from "../../../../../shared/trust/certificates/x509-library.js";
import { isStemmaError } from "../../../../../shared/errors.js";
import { bytesOfPem, pemBlocks } from "../../../../../shared/trust/certificates/pem-chain.js";
import {
  makeAuthority,
  makeRevocationList,
  newSerial,
  type TestAuthority,
} from "../../../../helpers/test-pki.js";

const nowMs = Date.now();
const dayMs = 86_400_000;

describe("a revocation list", () => {
  let root: TestAuthority;
  let issuing: TestAuthority;
  before(async () => {
    root = await makeAuthority("root");
    issuing = await makeAuthority("issuing", root);
  });
  const check = (text: string, trusted = [root], atMs = nowMs): CheckedList =>
    checkRevocationList(
      text,
      trusted.map(({ certificate }) => certificate),
      atMs,
    );
  const refused = (text: string, why: RegExp, trusted?: TestAuthority[], atMs?: number): void => {
    assert.throws(
      () => check(text, trusted, atMs),
      (error: { message: string }) => isStemmaError(error, "CERTIFICATE_REFUSED") && why.test(error.message),
    );
  };

  it("names what its issuer revoked", async () => {
    const serials = [newSerial(), "01", "70".padEnd(40, "1")];
    const list = check(await makeRevocationList(root, { number: 7, serials }));
    assert.equal(list.number, "7");
    assert.deepEqual([...list.serials].sort(), [...serials].sort());
    assert.equal(check(await makeRevocationList(root)).serials.size, 0);
  });

  it("may be signed by what the authority lets issue certificates, whose certificate comes with it", async () => {
    const text = await makeRevocationList(issuing, { serials: [newSerial()] });
    refused(text, /neither the authority nor/);
    const list = check(`${text}\n${issuing.certificate}`);
    assert.notEqual(list.issuer, check(await makeRevocationList(root)).issuer);
    assert.equal(check(text, [issuing]).issuer, list.issuer);
  });

  it("is refused from another authority, also one of the same name, and where it was changed", async () => {
    const other = await makeAuthority("other");
    const namesake = await makeAuthority("root");
    refused(await makeRevocationList(other), /neither the authority nor/);
    refused(`${await makeRevocationList(other)}\n${other.certificate}`, /not of this authority/);
    refused(await makeRevocationList(root, { signer: namesake }), /signature is not/);
    refused(`${await makeRevocationList(namesake)}\n${namesake.certificate}`, /not of this authority/);
    const x509 = await loadX509();
    const mute = await makeAuthority("mute", undefined, { keyUsage: x509.KeyUsageFlags.keyCertSign });
    refused(await makeRevocationList(mute), /may not sign revocation lists/, [mute]);
  });

  it("is refused before its time and after it", async () => {
    refused(
      await makeRevocationList(root, { fromMs: nowMs + dayMs, untilMs: nowMs + 2 * dayMs }),
      /only from/,
    );
    const text = await makeRevocationList(root, { untilMs: nowMs + dayMs });
    refused(text, /ended on/, [root], nowMs + dayMs + 1);
  });

  it("is refused where it says less than all: changes, a part, other issuers", async () => {
    const x509 = await loadX509();
    const critical = (id: string) => new x509.Extension(id, true, Buffer.from([0x30, 0]));
    for (const id of ["2.5.29.27", "2.5.29.28"])
      refused(await makeRevocationList(root, { more: [critical(id)] }), /is not known here/);
    const text = await makeRevocationList(root);
    refused(`${text}\n${text}`, /2 lists/);
    refused(root.certificate, /0 lists/);
  });

  it("is refused without a crash whatever its bytes are", async () => {
    const [block] = pemBlocks(await makeRevocationList(root, { serials: [newSerial()] }));
    assert.ok(block !== undefined);
    const der = bytesOfPem(block);
    const asPem = (bytes: Uint8Array): string =>
      `-----BEGIN X509 CRL-----\n${Buffer.from(bytes).toString("base64")}\n-----END X509 CRL-----`;
    for (let at = 0; at < der.length; at += 3) {
      const changed = Uint8Array.from(der);
      changed[at] = (changed[at] ?? 0) ^ 0xff;
      for (const bytes of [changed, der.subarray(0, at)])
        assert.throws(
          () => check(asPem(bytes)),
          (error) => isStemmaError(error, "CERTIFICATE_REFUSED"),
        );
    }
  });
});
