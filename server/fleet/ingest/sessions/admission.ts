/**
 * Decides which devices may connect: those of this fleet that have their token and a session that no clone
 * has (docs/formats.md, "Session counter"). An accepted session is a fact before the broker answers. Knows no
 * sockets.
 */
import { SerialQueue } from "../../../../shared/concurrency/serial-queue.js";
import { isStemmaError } from "../../../../shared/errors.js";
import type { DeviceCertificate } from "../../../../shared/journal/facts/device-facts.js";
import type { Clock, Log } from "../../../../shared/ports.js";
import { isSessionSigned, type SessionSubject } from "../../../../shared/trust/signatures.js";
import type { CertificateJudge, JudgedCertificate } from "../../../access/identity/judge-certificate.js";
import { isTokenOf } from "../../../../shared/trust/token.js";
import { decodeEnvelope } from "../../../../shared/wire/codec.js";
import { buildTopic, clientIdOf } from "../../../../shared/wire/topics.js";
import type { ConnectAttempt, DeviceIdentity, Refused } from "../../../access/broker/broker-port.js";
import {
  emptySessionHistory,
  judgeSession,
  type SessionClaim,
  type SessionHistory,
} from "./session-judge.js";
import type { SessionReport } from "../../../access/broker/external-sessions.js";
import type { DeviceQuota } from "./device-quota.js";
import type { FleetRepository } from "../../../storage/repository/fleet-repository.js";

export interface AdmissionParts {
  readonly root: string;
  readonly repository: Pick<
    FleetRepository,
    "fleet" | "device" | "append" | "authority" | "isEndedCertificate"
  >;
  readonly clock: Pick<Clock, "now">;
  readonly log: Log;
  readonly quota: Pick<DeviceQuota, "waitMs" | "charge">;
  /** Judges the certificates of a connection; absent where no device has one. */
  readonly certificates?: CertificateJudge | undefined;
  /** A device begins this session; an earlier session is over. */
  onAdmitted(device: string, session: number): void;
  onQuarantined(device: string, because: string): void;
}

/** The session that a CONNECT claims in its will. */
interface SignedClaim extends SessionClaim {
  readonly generation: number | undefined;
  readonly signature: string | undefined;
}
const unknownDevice: Refused = { refused: "no device of this name is enrolled", code: "DEVICE_UNKNOWN" };
const wrongToken: Refused = {
  refused: "its token is not that of its newest enrolment",
  code: "TOKEN_INVALID",
};
const unsigned: Refused = {
  code: "SIGNATURE_INVALID",
  refused: "the session is not signed with the key of the newest enrolment; use the newest enrolment file",
};
type KnownDevice = NonNullable<ReturnType<FleetRepository["device"]>>;

export class Admission {
  /** The times when superseded sessions came back. Kept in memory only; the highest counter is in the journal. */
  readonly #returns = new Map<string, { readonly generation: number; readonly history: SessionHistory }>();
  /** Decisions that are running or waiting, by device: a device's attempts are judged serially. */
  readonly #decisions = new Map<string, { readonly queue: SerialQueue; pending: number }>();

  constructor(private readonly parts: AdmissionParts) {}

  /** Judges a CONNECT. The CONNECTs of one device are judged serially. */
  authenticate(attempt: ConnectAttempt): Promise<DeviceIdentity | Refused> {
    return this.#serially(attempt.username, () => this.#decide(attempt));
  }

  /**
   * Judges a session that a device reports at an external broker, which has checked its credentials. A report
   * of the session that was accepted last continues it: this server has restarted, or has reconnected to the
   * broker.
   */
  admit({
    identity: { device },
    session,
    previousSession,
    generation,
    signature,
  }: SessionReport): Promise<Refused | undefined> {
    return this.#serially(device, async () => {
      const known = this.parts.repository.device(device);
      if (known === undefined) return unknownDevice;
      if (known.state !== "enrolled") return notServed(known.state);
      if (generation !== known.generation) return otherGeneration(known, generation);
      // Whoever can write to the device's topics at that broker could state any session.
      const claim = { session, previousSession, online: true };
      if (!this.#isSigned(known, claim, signature)) return unsigned;
      // Whoever can write to its topics at that broker can also send what the device sent in an earlier session. A
      // copy of the enrolment looks the same while it is behind; it is judged when it counts on.
      if (session < known.session) return earlierSession(known, session);
      if (session !== known.session)
        return this.#judge(known, { counter: session, previous: previousSession });
      this.parts.onAdmitted(device, session);
      return undefined;
    });
  }

  #serially<T>(device: string, decide: () => Promise<T>): Promise<T> {
    const decisions = this.#decisions.get(device) ?? { queue: new SerialQueue(), pending: 0 };
    this.#decisions.set(device, decisions);
    decisions.pending++;
    return decisions.queue.run(decide).finally(() => {
      if (--decisions.pending === 0) this.#decisions.delete(device);
    });
  }

  async #decide(attempt: ConnectAttempt): Promise<DeviceIdentity | Refused> {
    const { repository } = this.parts;
    const { fleet } = repository;
    const device = attempt.username;
    const known = repository.device(device);
    if (known === undefined) return unknownDevice;
    const judged = this.#judgeItself(known, attempt);
    if ("refused" in judged) return judged;
    if (attempt.clientId !== clientIdOf(fleet, device))
      return { refused: "the client id is not the one of these credentials", code: "IDENTITY_FOREIGN" };
    if (known.state !== "enrolled") return notServed(known.state);
    const claim = this.#claimOf(device, attempt.will);
    if ("refused" in claim) return claim;
    // Refused and not quarantined: an earlier enrolment must not shut out the device that has the present one.
    if (claim.generation !== known.generation) return otherGeneration(known, claim.generation);
    const stated = { session: claim.counter, previousSession: claim.previous ?? 0, online: false };
    if (!this.#isSigned(known, stated, claim.signature)) return unsigned;
    const over = (await this.#judge(known, claim)) ?? (await this.#noteCertificate(known, judged));
    return over ?? this.#whyEndedMeanwhile(known, attempt) ?? { fleet, device };
  }

  /** Judges a device by its certificate, where it has one, and otherwise by its token (null). */
  #judgeItself(
    known: KnownDevice,
    { password, chain = [] }: ConnectAttempt,
  ): Refused | { readonly certificate: DeviceCertificate | null } {
    if (known.certificates === undefined)
      return isTokenOf(password, known.tokenHash) ? { certificate: null } : wrongToken;
    const { certificates, repository } = this.parts;
    const judged: JudgedCertificate = certificates?.ofDevice(
      chain,
      { fleet: repository.fleet, ...known },
      repository,
    ) ?? { why: "this server gives no certificates" };
    if (judged.why !== undefined) return certificateRefused(judged.why, judged.hasEnded);
    return { certificate: judged.isNew ? judged.certificate : null };
  }

  /** The device shows a certificate of its owner's authority that it did not show before. */
  async #noteCertificate(
    { device, generation }: KnownDevice,
    { certificate }: { readonly certificate: DeviceCertificate | null },
  ): Promise<Refused | undefined> {
    if (certificate === null) return undefined;
    const { repository, clock } = this.parts;
    try {
      await repository.append({ type: "certified", atMs: clock.now(), device, generation, certificate });
      return undefined;
    } catch (error) {
      if (!isStemmaError(error, "NOT_FOUND") && !isStemmaError(error, "CERTIFICATE_REFUSED")) throw error;
      return certificateRefused(error.message);
    }
  }

  /**
   * Refuses a certificate that lost its authority, or was taken back, while the journal was written: who
   * ended the connections then did not find this one.
   */
  #whyEndedMeanwhile({ device, certificates }: KnownDevice, attempt: ConnectAttempt): Refused | undefined {
    if (certificates?.at(-1)?.authority === undefined) return undefined;
    const known = this.parts.repository.device(device);
    if (known === undefined) return unknownDevice;
    const judged = this.#judgeItself(known, attempt);
    return "refused" in judged ? judged : undefined;
  }

  #isSigned(
    { device, generation, publicKey }: KnownDevice,
    stated: Pick<SessionSubject, "session" | "previousSession" | "online">,
    signature: string | undefined,
  ): boolean {
    const { fleet } = this.parts.repository;
    return isSessionSigned(publicKey, { fleet, device, generation, ...stated }, signature);
  }

  async #judge(known: KnownDevice, claim: SessionClaim): Promise<Refused | undefined> {
    const { repository, clock } = this.parts;
    const { device } = known;
    const remembered = this.#returns.get(device);
    const history = remembered?.generation === known.generation ? remembered.history : emptySessionHistory;
    const verdict = judgeSession({ ...history, lastSeen: known.session }, claim, clock.now());
    if (verdict.verdict === "late") return { refused: verdict.because, code: "TIMED_OUT" };
    this.#returns.set(device, { generation: known.generation, history: verdict.history });
    if (verdict.verdict === "clone") {
      await repository.append({ type: "quarantined", atMs: clock.now(), device, because: verdict.because });
      this.parts.onQuarantined(device, verdict.because);
      return { refused: `quarantined: ${verdict.because}`, code: "DEVICE_QUARANTINED" };
    }
    const waitMs = this.parts.quota.waitMs(device);
    if (waitMs > 0)
      return {
        code: "QUOTA_EXCEEDED",
        refused: `it connects or reports too often; again in ${Math.ceil(waitMs / 1000)} s`,
        isForNow: true,
      };
    this.parts.quota.charge(device);
    // Durable before the device is answered, so that a clone with this counter is recognised even after a
    // crash.
    await repository.append({ type: "session", atMs: clock.now(), device, session: claim.counter });
    this.parts.onAdmitted(device, claim.counter);
    return undefined;
  }

  #claimOf(device: string, will: ConnectAttempt["will"]): SignedClaim | Refused {
    const { root, repository } = this.parts;
    const noSession = { refused: "the will names no session", code: "ENVELOPE_MALFORMED" } as const;
    if (
      will === undefined ||
      will.topic !== buildTopic({ root, fleet: repository.fleet, device, kind: "state" })
    )
      return noSession;
    try {
      const { session, body } = decodeEnvelope(will.payload);
      return body.type === "state" && session > 0
        ? {
            counter: session,
            previous: body.previousSession,
            generation: body.generation,
            signature: body.signature,
          }
        : noSession;
    } catch (error) {
      if (!isStemmaError(error)) throw error;
      return { refused: `its will cannot be read: ${error.message}`, code: error.code };
    }
  }
}

/** The device is known and was revoked, or is quarantined. */
export function notServed(state: "revoked" | "quarantined"): Refused {
  return state === "revoked"
    ? { refused: "it was revoked", code: "DEVICE_REVOKED" }
    : { refused: "it is quarantined: `stemma device show` says why", code: "DEVICE_QUARANTINED" };
}

function certificateRefused(why: string, hasEnded = false): Refused {
  return hasEnded
    ? { refused: `its certificate has ended: ${why}`, code: "CERTIFICATE_ENDED" }
    : { refused: `its certificate is not accepted: ${why}`, code: "CERTIFICATE_REFUSED" };
}

function otherGeneration({ device, generation }: KnownDevice, claimed: number | undefined): Refused {
  return {
    code: "ENROLMENT_INVALID",
    refused: `the enrolment is of generation ${claimed ?? "unknown"} of ${device}, which was enrolled again since (generation ${generation}); use the newest enrolment file`,
  };
}

function earlierSession({ device, session }: KnownDevice, stated: number): Refused {
  return {
    code: "IDENTITY_FOREIGN",
    refused: `session ${stated} of ${device} is over (the last one is ${session}): its message was sent again, or an older copy of its enrolment is in use. If the device itself is not served, enrol it again`,
  };
}
