/** What every adapter of the port DeviceKey has to do. An adapter for other hardware runs this suite, too. */
import assert from "node:assert/strict";
import { it } from "node:test";
import { makeRequest, readRequest } from "../../../../shared/trust/certificates/certificate-request.js";
import { generateConnectionKey } from "../../../../shared/trust/certificates/connection-key.js";
import { isSignatureValid, type DeviceKey } from "../../../../shared/trust/keys.js";
import {
  isSessionSigned,
  signAnnounce,
  signSession,
  verifyAnnounce,
} from "../../../../shared/trust/signatures.js";
import type { Hash } from "../../../../shared/tensor/tensor.js";

/** @param publicKey of the key that is opened */
export function deviceKeyContract(open: () => Promise<{ key: DeviceKey; publicKey: string }>): void {
  it("signs any bytes, as its public key says", async () => {
    const { key, publicKey } = await open();
    assert.equal(key.publicKey, publicKey);
    // None, a NUL and line ends, all values, and more than a pipe holds.
    const messages = [
      "",
      "\0\n\r\n",
      Buffer.from(Array.from({ length: 256 }, (_, at) => at)),
      "x".repeat(100_000),
    ];
    for (const message of messages) {
      const bytes = Buffer.from(message);
      const signature = await key.sign(bytes);
      assert.equal(signature.length, 64);
      assert.ok(isSignatureValid(publicKey, bytes, signature));
    }
  });

  it("signs several at a time, each its own", async () => {
    const { key, publicKey } = await open();
    const messages = [1, 2, 3].map((digit) => Buffer.from(`message ${digit}`));
    const signatures = await Promise.all(messages.map(async (message) => key.sign(message)));
    for (const [at, message] of messages.entries())
      assert.ok(isSignatureValid(publicKey, message, signatures[at] ?? ""));
  });

  it("proves a device: its sessions, its announcements, its request for a certificate", async () => {
    const { key, publicKey } = await open();
    const subject = { fleet: "cars", device: "van-7", generation: 2 };
    const session = { ...subject, session: 3, previousSession: 2, online: true };
    assert.ok(isSessionSigned(publicKey, session, await signSession(key, session)));
    const versionId = "ab".repeat(32) as Hash;
    verifyAnnounce(publicKey, versionId, await signAnnounce(key, versionId));
    const request = await makeRequest(subject, key, generateConnectionKey());
    assert.equal((await readRequest(request, subject)).devicePublicKey, publicKey);
  });
}
