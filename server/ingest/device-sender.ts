/**
 * How ingest speaks to a device: envelopes on its down topics, numbered in its session. Knows the broker only
 * as a port.
 */
import type { Log } from "../../shared/ports.js";
import { encodeEnvelope } from "../../shared/wire/codec.js";
import { maxMessageBytes, protocolVersion } from "../../shared/wire/limits.js";
import type { Block, Body, Refusal } from "../../shared/wire/messages.js";
import { buildTopic } from "../../shared/wire/topics.js";
import type { BrokerPort } from "../broker/broker-port.js";
import { type ErrorCode, isStemmaError } from "../../shared/errors.js";
import type { Hash } from "../../shared/tensor/tensor.js";

/** A device's place in its session: who is answered, and how many words it was told. */
export interface SessionPlace {
  readonly session: number;
  sequence: number;
}

export interface DeviceSender {
  /** Says a word; who is offline misses it, and asks again when it is back. */
  say(device: string, body: Exclude<Body, Block>, correlation?: string): Promise<void>;
  block(device: string, transfer: string, body: Block): Promise<void>;
  refuse(device: string, refusal: RefusalDetails, correlation?: string): Promise<void>;
}

export interface RefusalDetails {
  readonly code: ErrorCode;
  readonly message: string;
  readonly versionId?: Hash;
  readonly transfer?: string;
  /** The device may try the same again, after this long. */ readonly retryAfterMs?: number;
}

export function deviceSender(
  names: { readonly root: string; readonly fleet: string },
  broker: Pick<BrokerPort, "publish">,
  placeOf: (device: string) => SessionPlace | undefined,
  log: Log,
): DeviceSender {
  const send = async (
    device: string,
    body: Body,
    correlation: string,
    topic: string,
    qos: 0 | 1,
  ): Promise<void> => {
    const place = placeOf(device);
    if (place === undefined) return;
    const envelope = {
      protocol: protocolVersion,
      session: place.session,
      sequence: ++place.sequence,
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
        message: error instanceof Error ? error.message : String(error),
        code: isStemmaError(error) ? error.code : undefined,
      });
    }
  };
  const down = (device: string): string => buildTopic({ ...names, device, kind: "down" });
  return {
    say: (device, body, correlation = "") => send(device, body, correlation, down(device), 1),
    block: (device, transfer, body) =>
      send(device, body, "", buildTopic({ ...names, device, kind: "block-down", transfer }), 0),
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
      return send(device, body, correlation, down(device), 1);
    },
  };
}

/** Small objects that fit beside `fixedBytes` into one word, in their order; the rest is fetched. */
export function fittingInline<T extends { readonly data: Uint8Array }>(
  objects: readonly T[],
  fixedBytes: number,
): readonly T[] {
  const overhead = 64;
  let left = maxMessageBytes - fixedBytes - 2048;
  return objects.filter(({ data }) => {
    if (data.length + overhead > left) return false;
    left -= data.length + overhead;
    return true;
  });
}
