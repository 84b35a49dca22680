/**
 * Sends messages to devices: envelopes on a device's down topics, numbered within its session and signed for it.
 * Blocks are not signed: the signed manifest names their hashes. Knows only the interface of the broker.
 */
import { defined } from "../../../../shared/defined.js";
import type { Clock, Log } from "../../../../shared/ports.js";
import { encodeEnvelope } from "../../../../shared/wire/codec.js";
import { maxMessageBytes, protocolVersion } from "../../../../shared/wire/limits.js";
import type { Signer } from "../../../../shared/trust/keys.js";
import { signServerMessage } from "../../../../shared/trust/server-message.js";
import type { Block, Body, Envelope, Refusal } from "../../../../shared/wire/messages.js";
import { buildTopic } from "../../../../shared/wire/topics.js";
import type { BrokerPort } from "../../../access/broker/broker-port.js";
import { messageOf } from "../../../../shared/error-text.js";
import { type ErrorCode, isStemmaError } from "../../../../shared/errors.js";
import type { Hash } from "../../../../shared/tensor/tensor.js";

/** A session of a device, and the number of messages sent to it in this session. */
export interface DeviceSession {
  readonly session: number;
  sequence: number;
  /** Correlation of the birth that was answered last; messages are signed for it. Undefined before its welcome. */
  challenge?: string | undefined;
  /**
   * Length of the newest journal head that was sent to it in this session, which the next one is proven to
   * continue; undefined before its welcome.
   */
  provenLength?: number | undefined;
}

export interface DeviceSender {
  /**
   * Sends a message. A device that is offline misses it, and asks again when it is back; so does one whose session was
   * not welcomed yet, which would not believe it.
   * @returns whether the broker took it
   */
  send(
    device: string,
    body: Exclude<Body, Block>,
    correlation?: string,
    /** The milliseconds after which the device does not act on an order any more; default: an hour. */
    expiresMs?: number,
  ): Promise<boolean>;
  /** @param unused see PublishOptions */
  sendBlock(device: string, transfer: string, body: Block, unused: () => void): Promise<void>;
  refuse(device: string, refusal: RefusalDetails, correlation?: string): Promise<void>;
}

export interface RefusalDetails {
  readonly code: ErrorCode;
  readonly message: string;
  readonly versionId?: Hash;
  readonly transfer?: string;
  /** Milliseconds after which the device may try the same again; undefined: never. */
  readonly retryAfterMs?: number | undefined;
}

/** An order that a slow link or a full queue holds back for longer is sent again with the device's next birth. */
const defaultExpiryMs = 3_600_000;

interface PublishTarget {
  readonly topic: string;
  readonly qos: 0 | 1;
  readonly correlation?: string;
  readonly expiresMs?: number;
  readonly unused?: () => void;
}

export interface DeviceSenderParts {
  readonly root: string;
  readonly fleet: string;
  readonly broker: Pick<BrokerPort, "publish">;
  readonly signer: Signer;
  readonly clock: Pick<Clock, "now">;
  readonly log: Log;
  readonly sessionOf: (device: string) => DeviceSession | undefined;
  /** Generation of the device's newest enrolment. */
  readonly generationOf: (device: string) => number | undefined;
}

export function deviceSender(parts: DeviceSenderParts): DeviceSender {
  const { root, fleet, broker, signer, clock, log, sessionOf, generationOf } = parts;
  const names = { root, fleet };
  const signed = (device: string, envelope: Envelope, challenge = ""): Uint8Array =>
    signServerMessage(
      signer,
      { fleet, device, generation: generationOf(device) ?? 0, challenge },
      encodeEnvelope(envelope),
    );
  const publish = async (
    device: string,
    body: Body,
    { topic, qos, correlation = "", expiresMs = defaultExpiryMs, unused }: PublishTarget,
  ): Promise<boolean> => {
    const session = sessionOf(device);
    if (session === undefined) return false;
    if (session.challenge === undefined && body.type !== "refusal") return false;
    const numbered = {
      protocol: protocolVersion,
      session: session.session,
      sequence: ++session.sequence,
      correlation,
      body,
    };
    try {
      const payload =
        body.type === "block"
          ? encodeEnvelope({ ...numbered, expiresMs: 0 })
          : signed(
              device,
              { ...numbered, expiresMs, issuedMs: Math.max(0, Math.round(clock.now())) },
              session.challenge,
            );
      await broker.publish(topic, payload, { qos, ...defined({ unused }) });
      return true;
    } catch (error) {
      log.warn("word-not-sent", {
        device,
        type: body.type,
        message: messageOf(error),
        code: isStemmaError(error) ? error.code : undefined,
      });
      return false;
    }
  };
  const down = (device: string): string => buildTopic({ ...names, device, kind: "down" });
  return {
    send: (device, body, correlation = "", expiresMs = defaultExpiryMs) =>
      publish(device, body, { topic: down(device), qos: 1, correlation, expiresMs }),
    sendBlock: async (device, transfer, body, unused) => {
      await publish(device, body, {
        topic: buildTopic({ ...names, device, kind: "block-down", transfer }),
        qos: 0,
        unused,
      });
    },
    refuse: async (device, { code, message, versionId, transfer, retryAfterMs }, correlation = "") => {
      const body: Refusal = {
        type: "refusal",
        code,
        message: message.slice(0, 2000),
        versionId,
        transfer: transfer ?? "",
        retry: retryAfterMs !== undefined,
        retryAfterMs: retryAfterMs ?? 0,
      };
      await publish(device, body, { topic: down(device), qos: 1, correlation });
    },
  };
}

/**
 * The small objects, in their order, that fit into one message together with `fixedBytes`. The device fetches
 * the others.
 */
export function fittingInline<T extends { readonly data: Uint8Array }>(
  objects: readonly T[],
  fixedBytes: number,
): readonly T[] {
  const overheadBytes = 64;
  let left = maxMessageBytes - fixedBytes - 2048;
  return objects.filter(({ data }) => {
    if (data.length + overheadBytes > left) return false;
    left -= data.length + overheadBytes;
    return true;
  });
}
