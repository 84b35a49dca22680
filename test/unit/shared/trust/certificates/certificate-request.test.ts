/** A device's request for a certificate: which keys may ask, and that it is of one key, one device, one enrolment. */
import assert from "node:assert/strict";
import { generateKeyPairSync } from "node:crypto";
import { describe, it } from "node:test";
import { isStemmaError } from "../../../../../shared/errors.js";
import {
  importPair,
  makeRequest,
  readRequest,
  signingAlgorithm,
} from "../../../../../shared/trust/certificates/certificate-request.js";
import {
  connectionKeyHash,
  generateConnectionKey,
  publicKeyInfo,
} from "../../../../../shared/trust/certificates/connection-key.js";
import { loadX509 } from "../../../../../shared/trust/certificates/x509-library.js";
import { keyOfSeed } from "../../../../../shared/trust/keys.js";

const subject = { fleet: "cars", device: "van-7", generation: 2 };
const device = keyOfSeed("1".repeat(64));
const refusedAs = (why: RegExp) => (error: unknown) =>
  isStemmaError(error, "CERTIFICATE_REFUSED") && why.test(error.message);
const pem = (pair: { readonly privateKey: { export(options: object): string | Buffer } }): string =>
  pair.privateKey.export({ type: "pkcs8", format: "pem" }) as string;
const curveKey = (namedCurve: string): string => pem(generateKeyPairSync("ec", { namedCurve }));

/** A request like Stemma's with another extension, or none. */
async function requestWith(
  id: string | undefined,
  bytes: Uint8Array,
  key = generateConnectionKey(),
  algorithm: Parameters<typeof importPair>[1] = signingAlgorithm,
) {
  const x509 = await loadX509();
  const { rawData } = await x509.Pkcs10CertificateRequestGenerator.create({
    name: "CN=van-7",
    keys: await importPair(key, algorithm),
    signingAlgorithm: algorithm,
    extensions: id === undefined ? [] : [new x509.Extension(id, false, bytes)],
  });
  return Buffer.from(rawData).toString("base64");
}

describe("a request for a certificate", () => {
  it("is of the connection key and the device's key that made it", async () => {
    const key = generateConnectionKey();
    const info = publicKeyInfo(key);
    assert.deepEqual(await readRequest(await makeRequest(subject, device, key), subject), {
      connectionKey: info,
      keyHash: connectionKeyHash(info),
      devicePublicKey: device.publicKey,
    });
  });

  it("may have keys of other curves and RSA where the fleet's owner has certified them, and nowhere else", async () => {
    const keys = {
      "P-384": curveKey("secp384r1"),
      "P-521": curveKey("secp521r1"),
      RSA: pem(generateKeyPairSync("rsa", { modulusLength: 2048 })),
    };
    for (const [name, key] of Object.entries(keys)) {
      const request = await makeRequest(subject, device, key);
      const { keyHash } = await readRequest(request, subject, { ofOwner: true });
      assert.equal(keyHash, connectionKeyHash(publicKeyInfo(key)), name);
      await assert.rejects(() => readRequest(request, subject), refusedAs(/not of P-256/), name);
    }
    const weak = pem(generateKeyPairSync("rsa", { modulusLength: 1024 }));
    await assert.rejects(() => makeRequest(subject, device, weak), refusedAs(/1024/));
    // Whoever makes one all the same is not believed.
    const algorithm = { name: "RSASSA-PKCS1-v1_5", hash: "SHA-256" };
    const forged = await requestWith(undefined, new Uint8Array(), weak, algorithm);
    await assert.rejects(() => readRequest(forged, subject, { ofOwner: true }), refusedAs(/1024/));
  });

  it("counts for no other device, fleet or enrolment", async () => {
    const request = await makeRequest(subject, device, generateConnectionKey());
    for (const other of [{ device: "van-8" }, { fleet: "vans" }, { generation: 3 }])
      await assert.rejects(
        () => readRequest(request, { ...subject, ...other }),
        refusedAs(/did not sign/),
        JSON.stringify(other),
      );
  });

  it("cannot be made with a proof of another request, nor with the key of another device", async () => {
    const x509 = await loadX509();
    const request = await makeRequest(subject, device, generateConnectionKey());
    const parsed = new x509.Pkcs10CertificateRequest(Buffer.from(request, "base64"));
    const { type, value } = parsed.extensions[0]!;
    const moved = await requestWith(type, new Uint8Array(value));
    await assert.rejects(() => readRequest(moved, subject), refusedAs(/did not sign/));
    for (const length of [0, 32, 95, 97]) {
      const shortened = await requestWith(type, new Uint8Array(length));
      await assert.rejects(() => readRequest(shortened, subject), refusedAs(/does not contain/), `${length}`);
    }
    const none = await requestWith(undefined, new Uint8Array());
    await assert.rejects(() => readRequest(none, subject), refusedAs(/does not contain/));
  });

  it("is refused where it cannot be read, or was changed", async () => {
    const request = Buffer.from(await makeRequest(subject, device, generateConnectionKey()), "base64");
    const refused = (bytes: Buffer, why: RegExp) =>
      assert.rejects(() => readRequest(bytes.toString("base64"), subject), refusedAs(why));
    await refused(Buffer.of(), /empty or too long/);
    await refused(Buffer.alloc(5000), /empty or too long/);
    await refused(Buffer.from("x"), /cannot be read/);
    await refused(request.subarray(0, 100), /cannot be read/);
    // The last byte is of the signature with the connection key.
    request[request.length - 1]! ^= 1;
    await assert.rejects(() => readRequest(request.toString("base64"), subject), refusedAs(/./));
  });
});
