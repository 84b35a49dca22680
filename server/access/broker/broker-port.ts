/**
 * The interface through which the server uses any MQTT 3.1.1 broker: messages and blocks in both directions,
 * and which devices are connected. Types only. Implementations: start-broker.ts (aedes, embedded) and
 * external-broker.ts (a client of any other broker). Payloads are bytes; envelopes are not known here.
 */
import type { ErrorCode } from "../../../shared/errors.js";
import type { Topic } from "../../../shared/wire/topics.js";

/** The device that a connection belongs to, by its credentials. */
export interface DeviceIdentity {
  readonly fleet: string;
  readonly device: string;
}

/**
 * A CONNECT as received. The will is the device's retained state, so its envelope contains the session
 * counter.
 */
export interface ConnectAttempt {
  readonly clientId: string;
  readonly username: string;
  readonly password: Uint8Array;
  readonly will?: { readonly topic: string; readonly payload: Uint8Array };
  readonly address: string;
  /** The certificates that it showed over TLS, its own first, DER; not judged yet. */
  readonly chain?: readonly Uint8Array[];
}
/**
 * The client may not connect. `refused` is the reason, for who runs the server: the device just sees CONNACK 5, after
 * which it tries seldom, as a person has to act first.
 */
export interface Refused {
  readonly refused: string;
  readonly code: ErrorCode;
  /** True if nothing is wrong with its credentials: it sees CONNACK 3, and tries again as after a lost connection. */
  readonly isForNow?: boolean;
}
/** The client gets this message and is disconnected. It can neither publish nor subscribe. */
export interface AnswerOnly {
  readonly answer: { readonly topic: string; readonly payload: Uint8Array };
}
export type Authenticate = (attempt: ConnectAttempt) => Promise<DeviceIdentity | AnswerOnly | Refused>;

/** A message on one of a device's own topics. */
export interface DeviceMessage {
  readonly identity: DeviceIdentity;
  /** Parsed; `fleet` and `device` are those of `identity`. */
  readonly topic: Topic;
  readonly payload: Uint8Array;
  readonly qos: 0 | 1 | 2;
}
/**
 * Called with one message at a time for each device, in the order of arrival; devices run concurrently. An
 * error that it throws is only logged.
 */
export type MessageHandler = (message: DeviceMessage) => Promise<void>;

export type BrokerEvent =
  | {
      readonly type: "connected" | "disconnected";
      readonly identity: DeviceIdentity;
      readonly address: string;
    }
  | {
      readonly type: "refused";
      readonly clientId: string;
      readonly address: string;
      readonly reason: string;
      readonly code: ErrorCode;
    }
  /**
   * A frame that is too long, malformed or out of order: the connection was closed before the broker buffered
   * it.
   */
  | {
      readonly type: "frame-refused";
      readonly identity?: DeviceIdentity | undefined;
      readonly address: string;
      readonly reason: string;
      readonly bytes: number;
    }
  /** A publish or subscription outside the device's own topics: accepted, dropped. */
  | {
      readonly type: "topic-refused";
      readonly identity: DeviceIdentity;
      readonly topic: string;
      readonly what: "publish" | "subscribe" | "retain";
    }
  /** A client that does not read. Messages for it are dropped. */
  | { readonly type: "frozen"; readonly identity: DeviceIdentity; readonly bytes: number }
  | {
      readonly type: "connection-refused";
      readonly address: string;
      readonly reason: string;
      readonly code: ErrorCode;
    };
export type EventHandler = (event: BrokerEvent) => void;

export interface PublishOptions {
  readonly qos?: 0 | 1;
  readonly retain?: boolean;
  /** Called when nothing refers to the payload any more, so that its bytes may be overwritten; not by every broker. */
  readonly unused?: () => void;
}
/**
 * `offline`: the device is not connected, or it has not subscribed. `dropped`: its link is full. The protocol
 * tolerates both.
 */
export type Delivery = "sent" | "offline" | "dropped";

export interface BrokerStats {
  readonly connections: number;
  readonly devices: number;
  readonly retainedBytes: number;
  /** Bytes of messages that wait for their handler. */
  readonly queuedBytes: number;
  readonly received: number;
  readonly sent: number;
  readonly dropped: number;
}

export interface BrokerPort {
  /** Sends bytes on a device's topic. Resolves when the link takes the next message. */
  publish(topic: string, payload: Uint8Array, options?: PublishOptions): Promise<Delivery>;
  onMessage(handler: MessageHandler): void;
  onEvent(handler: EventHandler): void;
  /** Ends a device's connection (revoked, quarantined). */
  disconnect(identity: DeviceIdentity): Promise<void>;
  /** Receives the messages of this fleet's devices from now on. The embedded broker always does. */
  serve(fleet: string): Promise<void>;
  stats(): BrokerStats;
  close(): Promise<void>;
}

export interface RunningBroker extends BrokerPort {
  /** URL (mqtt:// or mqtts://) at which this server uses the broker. */
  readonly url: string;
}
