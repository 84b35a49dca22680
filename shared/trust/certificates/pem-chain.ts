/** Certificates in PEM (RFC 7468): a file may have several, and text between them. Pure. */
import { X509Certificate } from "node:crypto";
import { StemmaError } from "../../errors.js";

const block = /-----BEGIN ([A-Z0-9 ]+)-----[^-]*-----END \1-----/g;

export interface PemBlock {
  /** The label, such as "CERTIFICATE". */
  readonly label: string;
  readonly text: string;
}

export function pemBlocks(text: string): readonly PemBlock[] {
  return [...text.matchAll(block)].map(([whole, label = ""]) => ({ label, text: whole }));
}

/** The bytes of a block. */
export function bytesOfPem({ text }: PemBlock): Buffer {
  return Buffer.from(text.replace(/-----[^-]+-----/g, ""), "base64");
}

/** The certificates of a text in their order, DER. @throws CERTIFICATE_REFUSED where one cannot be read */
export function certificatesOfPem(text: string): readonly Uint8Array[] {
  try {
    return pemBlocks(text)
      .filter(({ label }) => label === "CERTIFICATE")
      .map((each) => new X509Certificate(each.text).raw);
  } catch (cause) {
    throw new StemmaError(
      "CERTIFICATE_REFUSED",
      "The text contains a certificate that cannot be read. Export it again, in PEM.",
      { cause },
    );
  }
}
