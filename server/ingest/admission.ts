/**
 * Who may connect: a device of this fleet with its token, in a session that no clone has (FORMATS,
 * "Session counter"). What is accepted is a fact before the broker answers. Knows no sockets.
 */
import { isStemmaError } from "../../shared/errors.js";
import type { Clock, Log } from "../../shared/ports.js";
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
import type { FleetRepository } from "../repository/fleet-repository.js";

export interface AdmissionParts {
  readonly root: string;
  readonly repository: Pick<FleetRepository, "fleet" | "device" | "append">;
  readonly clock: Pick<Clock, "now">;
  readonly log: Log;
  /** A device begins this session; what was before is over. */
  admitted(device: string, session: number): void;
  quarantined(device: string, because: string): void;
}

export class Admission {
  /** Returns of superseded sessions are remembered by this process; the highest counter by the journal. */
  readonly #returns = new Map<string, { readonly enrolledAtMs: number; readonly history: SessionHistory }>();
  readonly #deciding = new Map<string, Promise<unknown>>();
  constructor(private readonly parts: AdmissionParts) {}

  /** Judges a CONNECT; two of one device one after the other. */
  authenticate(attempt: ConnectAttempt): Promise<DeviceIdentity | Refused> {
    const before = this.#deciding.get(attempt.username) ?? Promise.resolve();
    const decided = before.then(
      () => this.#decide(attempt),
      () => this.#decide(attempt),
    );
    const settled = decided
      .catch(() => undefined)
      .finally(() => {
        if (this.#deciding.get(attempt.username) === settled) this.#deciding.delete(attempt.username);
      });
    this.#deciding.set(attempt.username, settled);
    return decided;
  }

  async #decide(attempt: ConnectAttempt): Promise<DeviceIdentity | Refused> {
    const { repository, clock } = this.parts;
    const { fleet } = repository;
    const device = attempt.username;
    const known = repository.device(device);
    if (known === undefined || !isTokenOf(attempt.password, known.tokenHash))
      return { refused: "unknown device or wrong token" };
    if (attempt.clientId !== clientIdOf(fleet, device))
      return { refused: "the client id is not the one of these credentials" };
    if (known.state !== "enrolled") return { refused: known.state };
    const claim = this.#claimOf(device, attempt.will);
    if (claim === undefined) return { refused: "the will names no session" };
    const remembered = this.#returns.get(device);
    const returnsAtMs =
      remembered?.enrolledAtMs === known.enrolledAtMs
        ? remembered.history.returnsAtMs
        : emptySessionHistory.returnsAtMs;
    const verdict = judgeSession({ lastSeen: known.session, returnsAtMs }, claim, clock.now());
    this.#returns.set(device, { enrolledAtMs: known.enrolledAtMs, history: verdict.history });
    if (verdict.verdict === "clone") {
      await repository.append({ type: "quarantined", atMs: clock.now(), device, because: verdict.because });
      this.parts.quarantined(device, verdict.because);
      return { refused: `quarantined: ${verdict.because}` };
    }
    // Durable before CONNACK: after a crash of the server, a clone with this counter is still recognised.
    await repository.append({ type: "session", atMs: clock.now(), device, session: claim.counter });
    this.parts.admitted(device, claim.counter);
    return { fleet, device };
  }

  #claimOf(device: string, will: ConnectAttempt["will"]): SessionClaim | undefined {
    const { root, repository, log } = this.parts;
    if (
      will === undefined ||
      will.topic !== buildTopic({ root, fleet: repository.fleet, device, kind: "state" })
    )
      return undefined;
    try {
      const { session, body } = decodeEnvelope(will.payload);
      return body.type === "state" && session > 0
        ? { counter: session, previous: body.previousSession }
        : undefined;
    } catch (error) {
      if (!isStemmaError(error)) throw error;
      log.warn("will-unreadable", { device, code: error.code });
      return undefined;
    }
  }
}
