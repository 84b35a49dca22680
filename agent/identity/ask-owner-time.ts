/**
 * Asks a server whose certificate is refused for its validity alone what the fleet's owner says of the time. Nothing
 * else is asked or believed over this connection: the statement has the owner's signature (docs/protocol.md, "Time
 * without a session").
 */
import type { Duplex } from "node:stream";
import { isStemmaError } from "../../shared/errors.js";
import { decodeEnvelope } from "../../shared/wire/codec.js";
import { timeClientIdOf } from "../../shared/wire/topics.js";
import { askOverMqtt } from "./ask-over-mqtt.js";

/** @returns the statement, which is not checked yet; undefined where the server has none */
export async function askOwnerTime(
  { fleet, device }: { readonly fleet: string; readonly device: string },
  socket: Duplex,
): Promise<string | undefined> {
  const { payload } = await askOverMqtt(socket, {
    clientId: timeClientIdOf(fleet, device),
    username: device,
  });
  if (payload === undefined) return undefined;
  try {
    const { body } = decodeEnvelope(payload);
    return body.type === "ownerTime" ? body.statement : undefined;
  } catch (error) {
    if (isStemmaError(error)) return undefined;
    throw error;
  }
}
