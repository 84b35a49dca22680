/**
 * Signs a statement about a model's file, and verifies one: a DSSE envelope (version 1.0.2) in a Sigstore bundle
 * (version 0.3), as the OpenSSF Model Signing specification has it. The key is P-256, which that specification demands;
 * it is made for this one signature, certified by a release key, and kept nowhere.
 */
import { createPrivateKey, sign, verify, X509Certificate } from "node:crypto";
import * as z from "zod";
import { StemmaError } from "../../errors.js";
import { generateConnectionKey, publicKeyInfo } from "../certificates/connection-key.js";
import { certifyKey, isCertifiedBy } from "../certificates/owner-certificate.js";
import { parseJson, type Signer } from "../keys.js";
import { statementSchema, type Statement } from "./statement.js";

/** Longest statement, in bytes: a bundle with it has less than the 1 MiB that is read. */
export const maxStatementBytes = 512 * 1024;
const mediaType = "application/vnd.dev.sigstore.bundle.v0.3+json";
const payloadType = "application/vnd.in-toto+json";

const bundleSchema = z.object({
  mediaType: z.literal(mediaType),
  verificationMaterial: z.object({
    x509CertificateChain: z.object({
      certificates: z
        .array(z.object({ rawBytes: z.base64() }))
        .min(1)
        .max(8),
    }),
  }),
  dsseEnvelope: z.object({
    payload: z.base64(),
    payloadType: z.literal(payloadType),
    signatures: z.tuple([z.object({ sig: z.base64() })]),
  }),
});

/** The bytes that are signed: the pre-authentication encoding of DSSE. */
function signedBytes(payload: Uint8Array): Buffer {
  return Buffer.concat([
    Buffer.from(`DSSEv1 ${payloadType.length} ${payloadType} ${payload.length} `),
    payload,
  ]);
}

/** The text of the bundle. @throws RECORD_TOO_LARGE, SIGNER_FAILED */
export function attest(statement: Statement, signer: Signer): string {
  const payload = Buffer.from(JSON.stringify(statement));
  if (payload.length > maxStatementBytes)
    throw new StemmaError(
      "RECORD_TOO_LARGE",
      `The statement would have ${payload.length} bytes, and at most ${maxStatementBytes} are signed: the version ` +
        "records very long values. Attest the file without --provenance.",
    );
  const key = createPrivateKey(generateConnectionKey());
  const certificate = certifyKey(signer, publicKeyInfo(key));
  return JSON.stringify({
    mediaType,
    verificationMaterial: {
      x509CertificateChain: { certificates: [{ rawBytes: Buffer.from(certificate).toString("base64") }] },
      tlogEntries: [],
    },
    dsseEnvelope: {
      payload: payload.toString("base64"),
      payloadType,
      signatures: [{ sig: sign("sha256", signedBytes(payload), key).toString("base64"), keyid: "" }],
    },
  });
}

const invalid = (where: string, why: string): StemmaError =>
  new StemmaError(
    "SIGNATURE_INVALID",
    `${where} attests nothing: ${why}. Get the file and its attestation again from who released the model.`,
  );

/**
 * The statement of a bundle that this release key stands for.
 * @param where the bundle is from, for the error
 * @param ownerKey 64 lower-case hex digits
 * @throws SIGNATURE_INVALID
 */
export function verifyAttestation(where: string, bytes: Uint8Array, ownerKey: string): Statement {
  const bundle = bundleSchema.safeParse(parseJson(bytes));
  if (!bundle.success)
    throw invalid(where, "it is not a Sigstore bundle 0.3 with a certificate and one signature");
  const { verificationMaterial, dsseEnvelope } = bundle.data;
  const [first] = verificationMaterial.x509CertificateChain.certificates;
  const certificate = Buffer.from(first?.rawBytes ?? "", "base64");
  const key = certifiedKey(where, certificate, ownerKey);
  const payload = Buffer.from(dsseEnvelope.payload, "base64");
  const signature = Buffer.from(dsseEnvelope.signatures[0].sig, "base64");
  if (!verify("sha256", signedBytes(payload), key, signature))
    throw invalid(where, "its statement is not the one that was signed");
  const statement = statementSchema.safeParse(parseJson(payload));
  if (!statement.success) throw invalid(where, "what was signed is not an in-toto statement about one file");
  return statement.data;
}

/** The P-256 key that the release key certified for signatures. @throws SIGNATURE_INVALID */
function certifiedKey(where: string, certificate: Buffer, ownerKey: string): X509Certificate["publicKey"] {
  const parsed = readCertificate(certificate);
  if (parsed === undefined) throw invalid(where, "its certificate cannot be read");
  if (!isCertifiedBy(ownerKey, certificate))
    throw invalid(where, `the key that signed it is not certified by the key ${ownerKey.slice(0, 16)}…`);
  const { publicKey, ca } = parsed;
  if (ca || publicKey.asymmetricKeyDetails?.namedCurve !== "prime256v1")
    throw invalid(where, "its certificate is not that of a P-256 key for signatures");
  return publicKey;
}

function readCertificate(bytes: Buffer): X509Certificate | undefined {
  try {
    const parsed = new X509Certificate(bytes);
    return parsed.raw.equals(bytes) ? parsed : undefined;
  } catch {
    return undefined;
  }
}
