/** Runs one ingest per fleet, started when the fleet is first used; routes the broker's messages and events. */
import { join } from "node:path";
import { messageOf } from "../shared/error-text.js";
import { StemmaError, type ErrorCode } from "../shared/errors.js";
import type { Log } from "../shared/ports.js";
import { programVersion } from "../shared/adapters/program-version.js";
import { WindowBudget } from "../shared/wire/transfer/window-budget.js";
import { isRenewalClientId, isTimeClientId } from "../shared/wire/topics.js";
import type {
  AnswerOnly,
  BrokerEvent,
  BrokerPort,
  ConnectAttempt,
  DeviceIdentity,
  Refused,
} from "./access/broker/broker-port.js";
import type { SessionReport } from "./access/broker/external-sessions.js";
import type { ServerConfig } from "./operations/configuration/config.js";
import { sharedRoomCheck } from "./services/context/room-for-models.js";
import type { OpenFleets } from "./services/context/open-fleets.js";
import type { EventHub } from "./interface/events/event-hub.js";
import type { CertificateJudge } from "./access/identity/judge-certificate.js";
import type { ClaimReplays } from "./fleet/ingest/uploads/claims.js";
import { ConnectionRefusals, type ConnectionRefusal } from "./fleet/ingest/sessions/connection-refusals.js";
import { FleetIngest } from "./fleet/ingest/fleet-ingest.js";
import { refusedText } from "./interface/events/log-events.js";
import type { MeasuredFleet } from "./metrics.js";
import { answerTime } from "./fleet/ingest/sessions/time-connection.js";
import { answerRenewal, type RenewalParts } from "./fleet/ingest/sessions/renewal-connection.js";
import type { Home } from "./storage/repository/home.js";

export interface FleetIngestsParts {
  readonly config: ServerConfig;
  readonly home: Home;
  readonly fleets: OpenFleets;
  readonly events: EventHub;
  readonly log: Log;
  readonly claimReplays?: ClaimReplays | undefined;
  /** Judges devices' certificates; undefined: no device has one. */
  readonly certificates?: CertificateJudge | undefined;
}

const unknownFleet: Refused = { refused: "this server has no such fleet", code: "NOT_FOUND" };

export class FleetIngests {
  readonly #parts: FleetIngestsParts;
  /** Ingests that are starting or have started: concurrent callers share one start. */
  readonly #ingests = new Map<string, Promise<FleetIngest>>();
  readonly #started = new Map<string, FleetIngest>();
  /** Connections that named no fleet of this server, or nothing. */
  readonly #strangers = new ConnectionRefusals();
  readonly #budget: WindowBudget;
  #broker: BrokerPort | undefined;
  #certify: RenewalParts["certify"] | undefined;
  /** Resolves when the ingests that `start` begins with have started: devices are judged from then on. */
  readonly #ready: Promise<void>;
  #setReady: () => void = () => undefined;

  constructor(parts: FleetIngestsParts) {
    this.#parts = parts;
    this.#budget = new WindowBudget(parts.config.limits.windowBytes);
    this.#ready = new Promise((resolve) => {
      this.#setReady = resolve;
    });
  }

  /** Attaches the broker and starts the ingests of these fleets. */
  async start(broker: BrokerPort, fleets: readonly string[]): Promise<void> {
    this.#broker = broker;
    broker.onMessage(async (message) => {
      await this.#started.get(message.identity.fleet)?.handle(message);
    });
    broker.onEvent((event) => {
      this.#handleEvent(event);
    });
    for (const fleet of fleets) await this.get(fleet);
    this.#setReady();
  }

  /** @throws NOT_FOUND */
  get(fleet: string): Promise<FleetIngest> {
    const present = this.#ingests.get(fleet);
    if (present !== undefined) return present;
    const starting = this.#startIngest(fleet);
    this.#ingests.set(fleet, starting);
    starting.catch(() => this.#ingests.delete(fleet));
    return starting;
  }

  all(): readonly MeasuredFleet[] {
    return [...this.#started].map(([fleet, { onlineCount, figures }]) => ({ fleet, onlineCount, figures }));
  }

  /** Refused connections by fleet ("": none of this server) and reason. */
  refusedConnections(): readonly {
    readonly fleet: string;
    readonly code: ErrorCode;
    readonly count: number;
  }[] {
    const all = [
      ["", this.#strangers.counts] as const,
      ...[...this.#started].map(([fleet, ingest]) => [fleet, ingest.refusedConnections] as const),
    ];
    return all.flatMap(([fleet, counts]) => [...counts].map(([code, count]) => ({ fleet, code, count })));
  }

  /**
   * Judges a CONNECT at the embedded broker: the client id names the fleet, the credentials decide. The broker listens
   * before the fleets are open, and every device of a server that restarts tries at once: they wait, as a refusal would
   * keep them away for a minute.
   */
  async authenticate(attempt: ConnectAttempt): Promise<DeviceIdentity | AnswerOnly | Refused> {
    await this.#ready;
    const fleet = attempt.clientId.split(":")[0] ?? "";
    const ingest = this.#started.get(fleet);
    if (ingest === undefined) return unknownFleet;
    const { config, fleets, certificates } = this.#parts;
    if (isTimeClientId(attempt.clientId))
      return answerTime(attempt, { root: config.rootTopic, repository: await fleets.get(fleet) });
    const held = this.#whyHeld();
    if (held !== undefined) return held;
    if (!isRenewalClientId(attempt.clientId)) return ingest.admission.authenticate(attempt);
    const certify = this.#certify;
    if (certify === undefined)
      return { refused: "the server is starting", code: "SERVER_UNREACHABLE", isForNow: true };
    const repository = await fleets.get(fleet);
    return answerRenewal(attempt, { root: config.rootTopic, repository, certificates, certify });
  }

  /** Renewals at the broker are answered from now on. */
  renewWith(certify: RenewalParts["certify"]): void {
    this.#certify = certify;
  }

  /** Judges a session that a device reports at an external broker. */
  async admit(report: SessionReport): Promise<Refused | undefined> {
    const ingest = this.#started.get(report.identity.fleet);
    return this.#whyHeld() ?? (ingest === undefined ? unknownFleet : ingest.admission.admit(report));
  }

  /** The refusal of every device while the server signs nothing. */
  #whyHeld(): Refused | undefined {
    const why = this.#parts.home.signer.whyHeld;
    return why && { refused: why.message, code: why.code, isForNow: true };
  }

  /** Ends the sessions of all devices; they come again. Never rejects. */
  async endSessions(): Promise<void> {
    for (const [fleet, ingest] of this.#started)
      for (const device of ingest.online)
        await this.#broker?.disconnect({ fleet, device }).catch((error: unknown) => {
          this.#parts.log.warn("session-not-ended", { fleet, device, text: messageOf(error) });
        });
  }

  async close(): Promise<void> {
    for (const ingest of this.#started.values()) await ingest.close();
  }

  async #startIngest(fleet: string): Promise<FleetIngest> {
    const broker = this.#broker;
    if (broker === undefined) throw new StemmaError("INTERNAL", "The broker has not started yet.");
    const { config, home, fleets, events, log } = this.#parts;
    const { clock, random, files } = home.ports;
    const repository = await fleets.get(fleet);
    const ingest = await FleetIngest.start({
      root: config.rootTopic,
      repository,
      signer: home.signer,
      broker,
      clock,
      random,
      files,
      log: log.child({ part: "ingest", fleet }),
      events,
      limits: config.limits,
      budget: this.#budget,
      spoolFolder: join(home.fleetFolder(fleet), "spool"),
      releasePolicy: config.releaseAfter,
      serverVersion: programVersion(),
      claimReplays: this.#parts.claimReplays,
      certificates: this.#parts.certificates,
      whatIsFull: sharedRoomCheck(home),
    });
    this.#started.set(fleet, ingest);
    await broker.serve(fleet);
    return ingest;
  }

  #handleEvent(event: BrokerEvent): void {
    switch (event.type) {
      case "connected":
        this.#started.get(event.identity.fleet)?.connected(event.identity.device);
        return;
      case "disconnected":
        this.#started.get(event.identity.fleet)?.disconnected(event.identity.device);
        return;
      case "refused":
        this.#refused(event);
        return;
      case "connection-refused":
        this.#refuseStranger(event.address, { ...event, message: event.reason });
        return;
      case "frame-refused":
        if (event.identity !== undefined) break;
        this.#refuseStranger(event.address, { ...event, code: "ENVELOPE_MALFORMED", message: event.reason });
        return;
      default:
    }
    this.#reportGuard(event);
  }

  /** A connection was refused whose client id names a device, rightly or not. */
  #refused({ clientId, address, reason: message, code }: Extract<BrokerEvent, { type: "refused" }>): void {
    const [fleet = "", device = ""] = clientId.split(":");
    const refusal = { code, message, address };
    const ingest = this.#started.get(fleet);
    if (ingest === undefined) this.#refuseStranger(clientId, refusal);
    else ingest.refused(device, refusal);
  }

  #refuseStranger(name: string, { code, message, address }: ConnectionRefusal): void {
    const { home, log } = this.#parts;
    const nowMs = home.ports.clock.now();
    const count = this.#strangers.add(name, { code, message, address }, { isDevice: false, nowMs });
    if (count !== undefined)
      log.warn("connection-refused", { code, name, address, count, text: refusedText(name, message, count) });
  }

  /** Reports what the broker's guards did to a device that is authenticated. */
  #reportGuard(event: BrokerEvent): void {
    const identity = "identity" in event ? event.identity : undefined;
    if (identity === undefined) return;
    this.#parts.events.emit({ event: "guard", ...identity, message: `${event.type}: ${guardText(event)}` });
  }
}

function guardText(event: BrokerEvent): string {
  switch (event.type) {
    case "frame-refused":
      return event.reason;
    case "topic-refused":
      return `${event.what} on ${event.topic}`;
    case "frozen":
      return `${event.bytes} bytes wait`;
    default:
      return "";
  }
}
