/**
 * A certificate that an authority of the device's owner issued, with its key, in files that the owner replaces. They
 * are read before each connection: a new pair is taken without a restart, and while the two files do not fit together,
 * since one was replaced and the other not yet, the pair before is used.
 */
import { createPrivateKey, X509Certificate } from "node:crypto";
import { messageOf } from "../../shared/error-text.js";
import { StemmaError } from "../../shared/errors.js";
import type { Files, Log } from "../../shared/ports.js";
import { connectionKeyHash, publicKeyInfo } from "../../shared/trust/certificates/connection-key.js";
import { certificatesOfPem } from "../../shared/trust/certificates/pem-chain.js";
import { maxChainLength } from "../../shared/trust/certificates/verify-chain.js";
import type { Enrolment } from "../../shared/trust/enrolment.js";
import type { OwnerCertificateSettings } from "../settings/owner-certificate.js";
import { certificateNotAsAgreed, ownedUnusable } from "./identity-errors.js";

export interface OwnedPair {
  /** PEM: the device's own first. */
  readonly certificate: string;
  /** PEM. */
  readonly key: string;
  readonly keyHash: string;
  /** The end of the device's own certificate. */
  readonly notAfterMs: number;
}

const maxFileBytes = 64 * 1024;

export interface OwnerCertificateParts {
  readonly files: Pick<Files, "read" | "stat">;
  readonly settings: OwnerCertificateSettings;
  readonly log: Log;
}

export class OwnerCertificate {
  readonly #parts: OwnerCertificateParts;
  #last: OwnedPair | undefined;
  #warned = "";

  constructor(parts: OwnerCertificateParts) {
    this.#parts = parts;
  }

  /** The path of the certificate, for messages. */
  get file(): string {
    return this.#parts.settings.file;
  }

  /** The pair to use now. @throws CERTIFICATE_REFUSED where there is none that can be used */
  async present(): Promise<OwnedPair> {
    const { log } = this.#parts;
    try {
      const read = await this.#read();
      if (this.#last !== undefined && this.#last.certificate !== read.certificate)
        log.info("certificate-taken", {
          text: `a new certificate is in ${this.file}, valid until ${new Date(read.notAfterMs).toISOString()}`,
        });
      this.#last = read;
      this.#warned = "";
      return read;
    } catch (error) {
      if (this.#last === undefined) throw error;
      const text = messageOf(error);
      if (text !== this.#warned)
        log.warn("certificate-not-taken", { text: `${text} The certificate before is used.` });
      this.#warned = text;
      return this.#last;
    }
  }

  async #read(): Promise<OwnedPair> {
    const { file, key: keyFile } = this.#parts.settings;
    const unusable = (why: string, cause?: unknown): StemmaError => ownedUnusable(file, keyFile, why, cause);
    const text = await this.#text(file);
    const key = await this.#text(keyFile);
    const chain = certificatesOfPem(text).map((der) => new X509Certificate(der));
    const [own] = chain;
    if (own === undefined) throw unusable("there is no certificate in it");
    if (chain.length > maxChainLength)
      throw unusable(`it has ${chain.length} certificates, and at most ${maxChainLength} are taken`);
    let isOfKey: boolean;
    try {
      isOfKey = own.checkPrivateKey(createPrivateKey(key));
    } catch (cause) {
      throw unusable(`its key cannot be read (${messageOf(cause)}); it must not be encrypted`, cause);
    }
    if (!isOfKey) throw unusable("its key is another one");
    return {
      certificate: chain.map(String).join(""),
      key,
      keyHash: connectionKeyHash(publicKeyInfo(key)),
      notAfterMs: Date.parse(own.validTo),
    };
  }

  async #text(path: string): Promise<string> {
    const { files } = this.#parts;
    const size = (await files.stat(path))?.size ?? 0;
    if (size > maxFileBytes)
      throw new StemmaError(
        "SIZE_OVER_LIMIT",
        `${path} has ${size} bytes, and at most ${maxFileBytes} are read.`,
      );
    return Buffer.from(await files.read(path)).toString("latin1");
  }
}

/**
 * Requires that the settings fit how the device was enrolled.
 * @throws CONFIG_INVALID
 */
export function checkOwnerCertificate(
  { device, ownerCertificate }: Pick<Enrolment, "device" | "ownerCertificate">,
  isNamed: boolean,
): void {
  if ((ownerCertificate !== undefined) === isNamed) return;
  throw certificateNotAsAgreed("enrolment", device, ownerCertificate?.authority);
}
