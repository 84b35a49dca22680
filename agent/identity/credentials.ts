/**
 * Keeps what this device proves itself with and judges its server by. Those are the certificates of its
 * enrolment, and the time that it believes (device-time.ts). The clock of the device is not asked.
 * Renews the certificate in time, where the server issued it.
 *
 * A renewal is durable in three steps: the new key, the answer (in the enrolment file), the removal of the new key from
 * where it waited. A kill between them repeats the request with the same key, which gets the same certificate.
 */
import { proxyOf } from "../../shared/adapters/proxy.js";
import { X509Certificate } from "node:crypto";
import type { TLSSocket } from "node:tls";
import { defined } from "../../shared/defined.js";
import { messageOf } from "../../shared/error-text.js";
import { isStemmaError, StemmaError } from "../../shared/errors.js";
import { writeDurably } from "../../shared/files/durable-write.js";
import type { Clock, Files, Log } from "../../shared/ports.js";
import type { CertificateRequest } from "../../shared/trust/certificates/certificate-exchange.js";
import {
  isServerAuthority,
  verifyChain,
  type ChainVerdict,
} from "../../shared/trust/certificates/verify-chain.js";
import { pinnedKeys, sealEnrolment, type Enrolment } from "../../shared/trust/enrolment.js";
import type { DeviceKey } from "../../shared/trust/keys.js";
import { issuedProof, ownedProof, type ConnectionProof, type TlsPair } from "./connection-proof.js";
import {
  issuedEnded,
  keyChangedUnfollowed,
  keyChangedWithToken,
  noHttpsAddress,
  ownedEnded,
} from "./identity-errors.js";
import type { OwnerCertificate } from "./owner-certificate.js";
import { postRequest } from "./post-request.js";
import { renewOverMqtt } from "./renew-over-mqtt.js";
import { askOwnerTime } from "./ask-owner-time.js";
import { DeviceTime } from "./device-time.js";
import { openVerifiedSocket } from "./verified-socket.js";

export interface CredentialsParts {
  readonly files: Files;
  /** Path of the enrolment file, which renewals write. */
  readonly path: string;
  readonly enrolment: Enrolment;
  readonly deviceKey: DeviceKey;
  /** The certificate of the owner's authority, where agent.json names one. */
  readonly ownerCertificate?: OwnerCertificate | undefined;
  readonly clock: Pick<Clock, "monotonic">;
  readonly log: Log;
  /** The time that this device believes; absent: that of its enrolment, counted on. */
  readonly time?: DeviceTime | undefined;
  /** Takes what the fleet's owner states about the time; true: it is new here. @throws RELEASE_METADATA_INVALID */
  takeOwnerTime?(statement: string): Promise<boolean>;
  /** A renewal is due that HTTPS did not give: asks the server for it over the present connection; false: none. */
  askOverMqtt?(why: string): boolean;
}

const connectMs = 30_000;
/** Codes of a server that was not reached. */
const unreached: ReadonlySet<string> = new Set(["NOT_ALLOWED", "SERVER_UNREACHABLE", "TIMED_OUT"]);
/** Pause between two renewals that failed. */
const retryMs = 600_000;
const defaultPorts: Readonly<Record<string, number>> = { "mqtts:": 8883, "https:": 443 };

interface OpenConnection {
  readonly socket: TLSSocket;
  /** The authority that this device trusts has certified another server's authority: the one that followed it. */
  readonly hasNewAuthority: boolean;
}

export class Credentials {
  readonly #parts: CredentialsParts;
  readonly #proof: ConnectionProof;
  #enrolment: Enrolment;
  readonly #time: DeviceTime;
  #renewing: Promise<Enrolment> | undefined;
  #failedAtMs: number | undefined;
  #askedAtMs: number | undefined;
  /** End of the certificate that was logged last as ended. */
  #loggedEndMs: number | undefined;
  #ended: StemmaError | undefined;
  /** The reason why the last renewal failed; empty: it did not. */
  #whyNotRenewed = "";

  constructor(parts: CredentialsParts) {
    this.#parts = parts;
    this.#enrolment = parts.enrolment;
    const proofParts = { ...parts, enrolment: () => this.#enrolment };
    const { ownerCertificate: owned } = parts;
    this.#proof = owned === undefined ? issuedProof(proofParts) : ownedProof(proofParts, owned);
    this.#time = parts.time ?? DeviceTime.ofEnrolment(parts);
  }

  /** True if the server's certificate is judged here, and not by TLS, as that of an external broker is. */
  judges(url: string): boolean {
    const { authorities, ca } = this.#enrolment;
    return authorities !== undefined && ca === undefined && url.startsWith("mqtts:");
  }

  /** See ConnectionProof. @throws CERTIFICATE_REFUSED */
  present(): Promise<TlsPair | undefined> {
    return this.#proof.present();
  }

  /** The end of the certificate that the server issued; undefined: this device has none. */
  get notAfterMs(): number | undefined {
    return certificateEnd(this.#enrolment);
  }

  /**
   * CERTIFICATE_ENDED where this device knew, before its last attempt to connect, that its certificate had ended: the
   * server refuses it then, and says nothing.
   */
  get ended(): StemmaError | undefined {
    return this.#ended;
  }

  /** The server has signed that it is this time there. */
  stated(serverMs: number): void {
    this.#time.serverStated(serverMs);
  }

  /** The session ended, or another is about to begin. */
  disconnected(): void {
    this.#time.serverLeft();
  }

  /** See CredentialsParts; false where this device has nobody to ask. */
  async takeOwnerTime(statement: string): Promise<boolean> {
    return (await this.#parts.takeOwnerTime?.(statement)) ?? false;
  }

  judgeServer(chain: readonly Uint8Array[]): ChainVerdict {
    const authorities = (this.#enrolment.authorities ?? []).map((pem) => new X509Certificate(pem));
    return verifyChain(chain, { authorities, atMs: this.#time.connectionMs, purpose: "server" });
  }

  /** The server's key, and those that it had before: renewals follow its changes. */
  get serverKeys(): Pick<Enrolment, "serverPublicKey" | "formerServerKeys"> {
    const { serverPublicKey, formerServerKeys } = this.#enrolment;
    return { serverPublicKey, ...defined({ formerServerKeys }) };
  }

  /**
   * A connection to an address of the server. Where the server's authority has changed, which its certificate shows,
   * the change is followed first: what the server signs now would not be believed.
   * @throws CERTIFICATE_REFUSED
   */
  async dial(address: string): Promise<TLSSocket> {
    this.disconnected();
    const first = await this.#openInTime(address);
    if (!first.hasNewAuthority) return first.socket;
    first.socket.destroy();
    const { log } = this.#parts;
    const { token, device } = this.#enrolment;
    if (token !== undefined) throw keyChangedWithToken(device);
    log.info("server-key-changed", {
      text: "the server's key has changed; the new one is asked for",
    });
    try {
      await this.renew();
    } catch (cause) {
      throw keyChangedUnfollowed(cause);
    }
    return (await this.#open(address)).socket;
  }

  /** Opens a connection; where the certificate is refused for its validity alone, the owner's time decides. */
  async #openInTime(address: string): Promise<OpenConnection> {
    try {
      return await this.#open(address);
    } catch (error) {
      const isUntimely = isStemmaError(error) && error.details["isUntimely"] === true;
      if (!isUntimely || !(await this.#askOwnerTime(address))) throw error;
      return await this.#open(address);
    }
  }

  /** Returns whether the server brought a statement of the owner that is new here. */
  async #askOwnerTime(address: string): Promise<boolean> {
    const { log } = this.#parts;
    try {
      const { socket } = await this.#open(address, { isForTime: true });
      const statement = await askOwnerTime(this.#enrolment, socket);
      return statement !== undefined && (await this.takeOwnerTime(statement));
    } catch (error) {
      log.warn("time-refused", { text: messageOf(error) });
      return false;
    }
  }

  /** @param isForTime the connection serves the question for the owner's time alone, whatever the validity */
  async #open(address: string, { isForTime = false } = {}): Promise<OpenConnection> {
    let found: ChainVerdict | undefined;
    // URL does not normalise other schemes than http.
    const { hostname, port } = new URL(address.replace(/^mqtts:/, "https:"));
    const scheme = address.slice(0, address.indexOf(":") + 1);
    const socket = await openVerifiedSocket({
      host: hostname.replace(/^\[(.*)\]$/, "$1"),
      port: port === "" ? (defaultPorts[scheme] ?? 443) : Number(port),
      proxy: scheme === "https:" ? proxyOf(new URL(address)) : undefined,
      identity: await this.#proof.present(),
      judge: (chain) => (found = this.judgeServer(chain)),
      takesUntimely: isForTime,
      timeoutMs: connectMs,
    });
    const hasNewAuthority =
      found?.verdict === "trusted" &&
      found.certificate.path.length > 1 &&
      isServerAuthority(found.certificate.issuerSubject);
    return { socket, hasNewAuthority };
  }

  /**
   * Renews the certificate where a third of its time or less is left, or where the server has refused the device,
   * which an expired one may be the reason for: over HTTPS, or else over MQTT, by asking the server in the present
   * session or, where the certificate opens none, by a connection for that alone. Never throws: without a renewal the
   * present one is tried.
   * @returns whether there is another certificate now
   */
  async renewIfDue(wasRefused = false): Promise<boolean> {
    const isRenewed = await this.#renewIfDue(wasRefused);
    const { ownerCertificate: owned, log } = this.#parts;
    this.#ended = owned === undefined ? this.#issuedEnded() : await this.#ownedEnded(owned);
    const endMs = this.#ended?.details["notAfterMs"] as number | undefined;
    if (this.#ended !== undefined && endMs !== this.#loggedEndMs)
      log.warn("certificate-ended", { code: this.#ended.code, text: this.#ended.message });
    this.#loggedEndMs = endMs;
    return isRenewed;
  }

  async #renewIfDue(wasRefused: boolean): Promise<boolean> {
    const { identity, http } = this.#enrolment;
    const { clock, log } = this.#parts;
    const notAfterMs = this.notAfterMs;
    if (identity === undefined || notAfterMs === undefined) return false;
    const isDue = notAfterMs - this.#time.presentMs < (notAfterMs - identity.issuedAtMs) / 3;
    const nowMs = clock.monotonic();
    if (!(isDue || wasRefused)) return false;
    const opensNone = wasRefused || this.#time.presentMs >= notAfterMs;
    const isHttps = http?.startsWith("https:") === true;
    if ((isHttps || opensNone) && nowMs - (this.#failedAtMs ?? -Infinity) >= retryMs)
      try {
        await (opensNone ? this.renew() : this.#renewBy((request) => this.#sendOverHttps(request)));
        return true;
      } catch (error) {
        // A server that was not reached has refused nothing: it is asked again before the next connection.
        if (!opensNone || !isStemmaError(error) || !unreached.has(error.code)) this.#failedAtMs = nowMs;
        this.#whyNotRenewed = messageOf(error);
        log.warn("certificate-not-renewed", { text: messageOf(error) });
      }
    if (!isDue || nowMs - (this.#askedAtMs ?? -Infinity) < retryMs) return false;
    const why = `the certificate of this device is valid until ${new Date(notAfterMs).toISOString()} and was not renewed over HTTPS: the server is asked to renew it over MQTT`;
    if (this.#parts.askOverMqtt?.(why) === true) this.#askedAtMs = nowMs;
    return false;
  }

  /** Gets a new certificate for a new key. @throws NOT_ALLOWED, CERTIFICATE_REFUSED, SERVER_UNREACHABLE */
  renew(): Promise<Enrolment> {
    return this.#renewBy((request) => this.send(request));
  }

  #renewBy(send: (request: CertificateRequest) => Promise<unknown>): Promise<Enrolment> {
    const renew = async (): Promise<Enrolment> => this.take(await send(await this.request()));
    this.#renewing ??= renew().finally(() => (this.#renewing = undefined));
    return this.#renewing;
  }

  /**
   * Sends a request over HTTPS, or where the server is not reached by that, over MQTT; resolves with the answer.
   * @throws NOT_ALLOWED, what postRequest and renewOverMqtt throw
   */
  async send(request: CertificateRequest): Promise<unknown> {
    let overHttps: unknown;
    try {
      return await this.#sendOverHttps(request);
    } catch (error) {
      // What the server itself refuses, it refuses over MQTT, too.
      if (isStemmaError(error) && !unreached.has(error.code)) throw error;
      overHttps = error;
    }
    const address = this.#enrolment.mqtt.find((each) => this.judges(each));
    if (address === undefined) throw overHttps;
    try {
      const { socket } = await this.#open(address);
      return await renewOverMqtt(this.#enrolment, socket, request);
    } catch (cause) {
      throw new StemmaError(
        isStemmaError(cause) ? cause.code : "SERVER_UNREACHABLE",
        `${messageOf(overHttps)} Over MQTT: ${messageOf(cause)}`,
        { cause },
      );
    }
  }

  /** @throws NOT_ALLOWED, what postRequest throws */
  async #sendOverHttps(request: CertificateRequest): Promise<unknown> {
    const { http } = this.#enrolment;
    if (http?.startsWith("https:") !== true) throw noHttpsAddress("This device", "Renew");
    return postRequest(new URL(http), (await this.#open(http)).socket, request);
  }

  /**
   * A request that waits on the disk: for a renewal, or to go on with a certificate of the owner's authority.
   * @throws NOT_ALLOWED where this device has a token, SIGNER_FAILED, CERTIFICATE_REFUSED
   */
  request(): Promise<CertificateRequest> {
    return this.#proof.request();
  }

  /** Takes the server's answer to a request. @throws ENROLMENT_INVALID */
  async take(value: unknown): Promise<Enrolment> {
    const { files, path, log } = this.#parts;
    const { answer, changes, text } = await this.#proof.accept(value);
    const renewed = sealEnrolment({
      ...this.#enrolment,
      ...changes,
      ...pinnedKeys(answer.serverKey, this.#enrolment.formerServerKeys),
      authorities: answer.authorities,
    });
    await writeDurably(files, path, new TextEncoder().encode(`${JSON.stringify(renewed, null, 2)}\n`));
    await this.#proof.accepted();
    this.#enrolment = renewed;
    this.stated(answer.issuedAtMs);
    log.info("certificate-renewed", { text });
    return renewed;
  }

  #issuedEnded(): StemmaError | undefined {
    const { notAfterMs } = this;
    if (notAfterMs === undefined || notAfterMs > this.#time.presentMs) return undefined;
    return issuedEnded(notAfterMs, this.#whyNotRenewed);
  }

  async #ownedEnded(owned: OwnerCertificate): Promise<StemmaError | undefined> {
    // A certificate that cannot be used is reported by the connection that follows.
    const pair = await owned.present().catch(() => undefined);
    if (pair === undefined || pair.notAfterMs > this.#time.presentMs) return undefined;
    return ownedEnded(pair.notAfterMs, owned.file);
  }
}

/** The enrolment whose members of the server's key are those of now: a renewal follows a change of that key. */
export function withPresentKeys(enrolment: Enrolment, credentials: Credentials): Enrolment {
  return {
    ...enrolment,
    get serverPublicKey() {
      return credentials.serverKeys.serverPublicKey;
    },
    get formerServerKeys() {
      return credentials.serverKeys.formerServerKeys;
    },
  };
}

export function certificateEnd({ identity }: Pick<Enrolment, "identity">): number | undefined {
  return identity && Date.parse(new X509Certificate(identity.certificate).validTo);
}
