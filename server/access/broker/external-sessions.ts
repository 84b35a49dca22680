/**
 * Sessions of devices behind an external broker. Their CONNECTs never reach this server, so a session
 * begins when the device's state message reports it online, and ends with the one that reports it
 * offline (also sent by the broker as the device's will). Knows state messages and no connections.
 */
import { isStemmaError } from "../../../shared/errors.js";
import { decodeEnvelope } from "../../../shared/wire/codec.js";
import type { BrokerEvent, DeviceIdentity, Refused } from "./broker-port.js";
import type { PeerLog } from "./peer-log.js";

/**
 * A session that a device reports: its counter, and the counter of the last session that the device knows was
 * accepted.
 */
export interface SessionReport {
  readonly identity: DeviceIdentity;
  readonly session: number;
  /** The number of the session before; 0: unknown. */
  readonly previousSession: number;
  /** Generation of the enrolment that the device uses; undefined: it names none. */
  readonly generation: number | undefined;
  /** The device's signature that it is online in this session; undefined if it sent none. */
  readonly signature: string | undefined;
}
/** A session of one enrolment. */
export type OpenSession = Pick<SessionReport, "session" | "generation">;
/** Decides whether a reported session is served; undefined accepts it. */
export type AdmitSession = (report: SessionReport) => Promise<Refused | undefined>;

export interface ExternalSessionsOptions {
  /** URL of the broker, the only address that events can name. */
  readonly address: string;
  readonly admit: AdmitSession;
  readonly emit: (event: BrokerEvent) => void;
  /** Asks the device to leave: nothing else can end its connection. */
  readonly askToLeave: (identity: DeviceIdentity, session: OpenSession) => Promise<void>;
  readonly log: PeerLog;
}

export class ExternalSessions {
  readonly #open = new Map<string, OpenSession & { readonly identity: DeviceIdentity }>();
  constructor(private readonly options: ExternalSessionsOptions) {}

  get count(): number {
    return this.#open.size;
  }
  isOpen(identity: DeviceIdentity): boolean {
    return this.#open.has(keyOf(identity));
  }

  /** Handles a state message. The caller passes the messages of one device serially. */
  async handleState(identity: DeviceIdentity, payload: Uint8Array): Promise<void> {
    const report = this.#decode(identity, payload);
    if (report === undefined) return;
    const current = this.#open.get(keyOf(identity));
    if (report.online) {
      if (report.session !== current?.session) await this.#begin({ identity, ...report }, current);
      // A late will of an earlier session has no meaning for the current one.
    } else if (report.session === current?.session) this.#end(identity);
  }

  /** Ends the session of a device that is no longer served. */
  async expel(identity: DeviceIdentity): Promise<void> {
    const session = this.#open.get(keyOf(identity));
    if (session === undefined) return;
    this.#end(identity);
    await this.options.askToLeave(identity, session);
  }

  /** Ends all sessions: the broker is out of reach. Retained states begin them again when it is back. */
  endAll(): void {
    for (const { identity } of [...this.#open.values()]) this.#end(identity);
  }

  async #begin(report: SessionReport, superseded: OpenSession | undefined): Promise<void> {
    const { identity, session, generation } = report;
    const { admit, emit, askToLeave, address } = this.options;
    const refused = await admit(report);
    if (refused !== undefined) {
      emit({
        type: "refused",
        clientId: keyOf(identity),
        address,
        reason: refused.refused,
        code: refused.code,
      });
      if (refused.isForNow !== true) await askToLeave(identity, { session, generation });
      return;
    }
    this.#open.set(keyOf(identity), { identity, session, generation });
    emit({ type: "connected", identity, address });
    if (superseded !== undefined) emit({ type: "disconnected", identity, address });
  }

  #end(identity: DeviceIdentity): void {
    this.#open.delete(keyOf(identity));
    this.options.emit({ type: "disconnected", identity, address: this.options.address });
  }

  #decode(
    identity: DeviceIdentity,
    payload: Uint8Array,
  ): (Omit<SessionReport, "identity"> & { readonly online: boolean }) | undefined {
    // An empty retained message clears the topic.
    if (payload.length === 0) return undefined;
    try {
      const { session, body } = decodeEnvelope(payload);
      if (body.type !== "state" || session <= 0) return undefined;
      const { online, previousSession, generation, signature } = body;
      return { session, online, previousSession, generation, signature };
    } catch (error) {
      if (!isStemmaError(error)) throw error;
      this.options.log.warn(keyOf(identity), "state-unreadable", { ...identity, code: error.code });
      return undefined;
    }
  }
}

function keyOf({ fleet, device }: DeviceIdentity): string {
  return `${fleet}:${device}`;
}
