/**
 * Decides which devices may connect: those of this fleet that have their token and a session that no clone
 * has (docs/formats.md, "Session counter"). An accepted session is a fact before the broker answers. Knows no
 * sockets.
 */
import { SerialQueue } from "../../shared/concurrency/serial-queue.js";
import { isStemmaError } from "../../shared/errors.js";
import type { Clock, Log } from "../../shared/ports.js";
import { isSessionSigned, type SessionSubject } from "../../shared/trust/signatures.js";
import type { ChainVerdict } from "../../shared/trust/certificates/verify-chain.js";
import { whyNotCertificate } from "../identity/device-certificate.js";
import { isTokenOf } from "../../shared/trust/token.js";
import { decodeEnvelope } from "../../shared/wire/codec.js";
import { buildTopic, clientIdOf } from "../../shared/wire/topics.js";
import type { ConnectAttempt, DeviceIdentity, Refused } from "../broker/broker-port.js";
import {
  emptySessionHistory,
  judgeSession,
  type SessionClaim,
  type SessionHistory,
} from "./session-judge.js";
import type { SessionReport } from "../broker/external-sessions.js";
import type { DeviceQuota } from "./device-quota.js";
import type { FleetRepository } from "../repository/fleet-repository.js";

export interface AdmissionParts {
  readonly root: string;
  readonly repository: Pick<FleetRepository, "fleet" | "device" | "append">;
  readonly clock: Pick<Clock, "now">;
  readonly log: Log;
  readonly quota: Pick<DeviceQuota, "waitMs" | "charge">;
  /** Judges the certificates of a connection; absent where no device has one. */
  readonly judgeChain?: ((chain: readonly Uint8Array[]) => ChainVerdict) | undefined;
  /** A device begins this session; an earlier session is over. */
  onAdmitted(device: string, session: number): void;
  onQuarantined(device: string, because: string): void;
}

/** What a CONNECT states in its will. */
interface SignedClaim extends SessionClaim {
  readonly generation: number | undefined;
  readonly signature: string | undefined;
}
const unknownDevice: Refused = { refused: "unknown device or wrong token" };
const unsigned: Refused = {
  refused: "the session is not signed with the key of the newest enrolment; use the newest enrolment file",
};
type KnownDevice = NonNullable<ReturnType<FleetRepository["device"]>>;

export class Admission {
  /** When superseded sessions came back. Kept in memory only; the highest counter is in the journal. */
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
      if (known === undefined) return { refused: "unknown device" };
      if (known.state !== "enrolled") return { refused: known.state };
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
    const refused = this.#whyNotItself(known, attempt);
    if (refused !== undefined) return refused;
    if (attempt.clientId !== clientIdOf(fleet, device))
      return { refused: "the client id is not the one of these credentials" };
    if (known.state !== "enrolled") return { refused: known.state };
    const claim = this.#claimOf(device, attempt.will);
    if (claim === undefined) return { refused: "the will names no session" };
    // Refused and not quarantined: an earlier enrolment must not shut out the device that has the present one.
    if (claim.generation !== known.generation) return otherGeneration(known, claim.generation);
    const stated = { session: claim.counter, previousSession: claim.previous ?? 0, online: false };
    if (!this.#isSigned(known, stated, claim.signature)) return unsigned;
    return (await this.#judge(known, claim)) ?? { fleet, device };
  }

  /** By its certificate, where it has one, and otherwise by its token. */
  #whyNotItself(known: KnownDevice, { password, chain = [] }: ConnectAttempt): Refused | undefined {
    if (known.certificates === undefined)
      return isTokenOf(password, known.tokenHash) ? undefined : unknownDevice;
    const { judgeChain, repository } = this.parts;
    const found = judgeChain?.(chain) ?? { verdict: "refused", why: "this server gives no certificates" };
    const why = whyNotCertificate(found, { fleet: repository.fleet, ...known });
    return why === undefined ? undefined : { refused: `its certificate is not accepted: ${why}` };
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
    if (verdict.verdict === "late") return { refused: verdict.because };
    this.#returns.set(device, { generation: known.generation, history: verdict.history });
    if (verdict.verdict === "clone") {
      await repository.append({ type: "quarantined", atMs: clock.now(), device, because: verdict.because });
      this.parts.onQuarantined(device, verdict.because);
      return { refused: `quarantined: ${verdict.because}` };
    }
    const waitMs = this.parts.quota.waitMs(device);
    if (waitMs > 0)
      return { refused: `it connects or reports too often; again in ${Math.ceil(waitMs / 1000)} s` };
    this.parts.quota.charge(device);
    // Durable before the device is answered, so that a clone with this counter is recognised even after a
    // crash.
    await repository.append({ type: "session", atMs: clock.now(), device, session: claim.counter });
    this.parts.onAdmitted(device, claim.counter);
    return undefined;
  }

  #claimOf(device: string, will: ConnectAttempt["will"]): SignedClaim | undefined {
    const { root, repository, log } = this.parts;
    if (
      will === undefined ||
      will.topic !== buildTopic({ root, fleet: repository.fleet, device, kind: "state" })
    )
      return undefined;
    try {
      const { session, body } = decodeEnvelope(will.payload);
      return body.type === "state" && session > 0
        ? {
            counter: session,
            previous: body.previousSession,
            generation: body.generation,
            signature: body.signature,
          }
        : undefined;
    } catch (error) {
      if (!isStemmaError(error)) throw error;
      log.warn("will-unreadable", { device, code: error.code });
      return undefined;
    }
  }
}

function otherGeneration({ device, generation }: KnownDevice, claimed: number | undefined): Refused {
  return {
    refused: `the enrolment is of generation ${claimed ?? "unknown"} of ${device}, which was enrolled again since (generation ${generation}); use the newest enrolment file`,
  };
}

function earlierSession({ device, session }: KnownDevice, stated: number): Refused {
  return {
    refused: `session ${stated} of ${device} is over (the last one is ${session}): its message was sent again, or an older copy of its enrolment is in use. If the device itself is not served, enrol it again`,
  };
}
