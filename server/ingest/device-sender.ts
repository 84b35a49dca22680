/**
 * Sends messages to devices: envelopes on a device's down topics, numbered within its session. Knows only the
 * interface of the broker.
 */
import type { Log } from "../../shared/ports.js";
import { encodeEnvelope } from "../../shared/wire/codec.js";
import { maxMessageBytes, protocolVersion } from "../../shared/wire/limits.js";
import type { Block, Body, Refusal } from "../../shared/wire/messages.js";
import { buildTopic } from "../../shared/wire/topics.js";
import type { BrokerPort } from "../broker/broker-port.js";
import { messageOf } from "../../shared/error-text.js";
import { type ErrorCode, isStemmaError } from "../../shared/errors.js";
import type { Hash } from "../../shared/tensor/tensor.js";

/** A session of a device, and the number of messages sent to it in this session. */
export interface DeviceSession {
  readonly session: number;
  sequence: number;
  /**
   * Length of the newest journal head that was sent to it in this session, which the next one is proven to
   * continue; undefined before its welcome.
   */
  provenLength?: number | undefined;
}

export interface DeviceSender {
  /** Sends a message. A device that is offline misses it, and asks again when it is back. */
  send(device: string, body: Exclude<Body, Block>, correlation?: string): Promise<void>;
  sendBlock(device: string, transfer: string, body: Block): Promise<void>;
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

interface PublishTarget {
  readonly topic: string;
  readonly qos: 0 | 1;
  readonly correlation?: string;
}

export function deviceSender(
  names: { readonly root: string; readonly fleet: string },
  broker: Pick<BrokerPort, "publish">,
  sessionOf: (device: string) => DeviceSession | undefined,
  log: Log,
): DeviceSender {
  const publish = async (
    device: string,
    body: Body,
    { topic, qos, correlation = "" }: PublishTarget,
  ): Promise<void> => {
    const session = sessionOf(device);
    if (session === undefined) return;
    const envelope = {
      protocol: protocolVersion,
      session: session.session,
      sequence: ++session.sequence,
      correlation,
      expiresMs: 0,
      body,
    };
    try {
      await broker.publish(topic, encodeEnvelope(envelope), { qos });
    } catch (error) {
      log.warn("word-not-sent", {
        device,
        type: body.type,
        message: messageOf(error),
        code: isStemmaError(error) ? error.code : undefined,
      });
    }
  };
  const down = (device: string): string => buildTopic({ ...names, device, kind: "down" });
  return {
    send: (device, body, correlation = "") =>
      publish(device, body, { topic: down(device), qos: 1, correlation }),
    sendBlock: (device, transfer, body) =>
      publish(device, body, {
        topic: buildTopic({ ...names, device, kind: "block-down", transfer }),
        qos: 0,
      }),
    refuse: (device, { code, message, versionId, transfer, retryAfterMs }, correlation = "") => {
      const body: Refusal = {
        type: "refusal",
        code,
        message: message.slice(0, 2000),
        versionId,
        transfer: transfer ?? "",
        retry: retryAfterMs !== undefined,
        retryAfterMs: retryAfterMs ?? 0,
      };
      return publish(device, body, { topic: down(device), qos: 1, correlation });
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
