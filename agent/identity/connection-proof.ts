/**
 * Opens this device's connections and asks its server to go on. It does so with the certificate that the server issued,
 * which a renewal replaces, or with one of its owner's authority, for which the server only confirms its own keys.
 */
import { createPrivateKey, createPublicKey, X509Certificate } from "node:crypto";
import { StemmaError } from "../../shared/errors.js";
import type { Files } from "../../shared/ports.js";
import {
  parseAnswer,
  renewalSignature,
  type CertificateAnswer,
  type CertificateRequest,
  type VerifiedAnswer,
} from "../../shared/trust/certificates/certificate-exchange.js";
import { makeRequest } from "../../shared/trust/certificates/certificate-request.js";
import { generateConnectionKey } from "../../shared/trust/certificates/connection-key.js";
import { certificatesOfPem } from "../../shared/trust/certificates/pem-chain.js";
import { subjectOf, type DeviceSubject } from "../../shared/trust/certificates/verify-chain.js";
import type { Enrolment } from "../../shared/trust/enrolment.js";
import type { DeviceKey } from "../../shared/trust/keys.js";
import { hasToken, noRenewalWaits } from "./identity-errors.js";
import type { OwnerCertificate } from "./owner-certificate.js";
import { WaitingRequestFile } from "./waiting-request.js";

/** PEM, for TLS: the device's own certificate first. */
export interface TlsPair {
  readonly certificate: string;
  readonly key: string;
}

export interface AcceptedAnswer {
  readonly answer: VerifiedAnswer;
  /** Members of the enrolment that it changes, without those of the server's key. */
  readonly changes: Partial<Enrolment>;
  /** A description of the change, for the log. */
  readonly text: string;
}

export interface ConnectionProof {
  /** Returns the certificate and key; undefined: the device has a token. @throws CERTIFICATE_REFUSED */
  present(): Promise<TlsPair | undefined>;
  /** A request that waits on the disk. @throws NOT_ALLOWED where this device has a token, SIGNER_FAILED */
  request(): Promise<CertificateRequest>;
  /** Checks the server's answer to it; the enrolment has to be written then. @throws ENROLMENT_INVALID */
  accept(value: unknown): Promise<AcceptedAnswer>;
  /** The enrolment is written: nothing waits any more. */
  accepted(): Promise<void>;
}

export interface ProofParts {
  readonly files: Files;
  /** Path of the enrolment file. */
  readonly path: string;
  readonly deviceKey: DeviceKey;
  /** The present one. */
  readonly enrolment: () => Enrolment;
}

export function issuedProof({ files, path, deviceKey, enrolment }: ProofParts): ConnectionProof {
  const file = new WaitingRequestFile(files, path);
  /** A renewal whose key is in the enrolment already has ended. */
  const waiting = async (): ReturnType<WaitingRequestFile["read"]> => {
    const found = await file.read();
    return found?.key === enrolment().identity?.key ? undefined : found;
  };
  const begin = async (): Promise<{ readonly request: string }> => {
    const key = generateConnectionKey();
    const begun = { key, request: await makeRequest(subjectIn(enrolment()), deviceKey, key) };
    await file.write(begun);
    return begun;
  };
  return {
    present: () => Promise.resolve(enrolment().identity),
    request: async () => {
      const { identity } = enrolment();
      if (identity === undefined) throw hasToken();
      const { request } = (await waiting()) ?? (await begin());
      return renewalOf(enrolment(), request, identity);
    },
    accept: async (value) => {
      const begun = await waiting();
      if (begun === undefined) throw noRenewalWaits();
      const answer = parseAnswer(value, enrolment().serverPublicKey, begun.request);
      checkCertificate(answer, begun.key, enrolment());
      const { certificate, issuedAtMs } = answer;
      const end = new X509Certificate(certificate).validTo;
      return {
        answer,
        changes: { identity: { certificate, key: begun.key, issuedAtMs } },
        text: `the certificate was renewed and is valid until ${end}`,
      };
    },
    accepted: () => file.remove(),
  };
}

export function ownedProof(
  { files, path, deviceKey, enrolment }: ProofParts,
  owned: OwnerCertificate,
): ConnectionProof {
  const file = new WaitingRequestFile(files, path);
  return {
    present: () => owned.present(),
    request: async () => {
      const pair = await owned.present();
      const request = await makeRequest(subjectIn(enrolment()), deviceKey, pair.key);
      await file.write({ key: "", request });
      return renewalOf(enrolment(), request, pair);
    },
    accept: async (value) => {
      const begun = await file.read();
      const { ownerCertificate, serverPublicKey } = enrolment();
      if (begun === undefined || ownerCertificate === undefined) throw noRenewalWaits();
      const answer = parseAnswer(value, serverPublicKey, begun.request);
      checkOwned(answer, await owned.present());
      return {
        answer,
        changes: { ownerCertificate: { ...ownerCertificate, issuedAtMs: answer.issuedAtMs } },
        text: `the server's keys were confirmed; the certificate stays, which ${ownerCertificate.authority} renews`,
      };
    },
    accepted: () => file.remove(),
  };
}

function subjectIn({ fleet, device, generation }: Enrolment): DeviceSubject {
  return { fleet, device, generation };
}

function renewalOf(enrolment: Enrolment, request: string, { certificate, key }: TlsPair): CertificateRequest {
  return {
    kind: "stemma-certificate-request",
    format: 1,
    request,
    renewal: { ...subjectIn(enrolment), certificate, signature: renewalSignature(request, key) },
  };
}

const notOurs = (): StemmaError =>
  new StemmaError(
    "ENROLMENT_INVALID",
    "The answer contains a certificate of another device or key. Send the request again.",
  );

/** @throws ENROLMENT_INVALID where the certificate is not of this key and subject */
export function checkCertificate(
  { certificate }: Pick<CertificateAnswer, "certificate">,
  key: string,
  subject: DeviceSubject,
): void {
  const issued = new X509Certificate(certificate);
  const isOurs =
    issued.subject === subjectOf(subject) && issued.publicKey.equals(createPublicKey(createPrivateKey(key)));
  if (!isOurs) throw notOurs();
}

/** @throws ENROLMENT_INVALID where the server took another certificate than the one that was shown */
export function checkOwned(
  { certificate }: Pick<CertificateAnswer, "certificate">,
  shown: Pick<TlsPair, "certificate">,
): void {
  const [taken] = certificatesOfPem(certificate);
  const [own] = certificatesOfPem(shown.certificate);
  if (taken === undefined || own === undefined || Buffer.compare(taken, own) !== 0) throw notOurs();
}
