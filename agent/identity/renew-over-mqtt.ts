/**
 * Renews a certificate over MQTT without a session. It is for a device whose certificate has expired, so that it gets
 * no session, and that does not reach its server over HTTPS. The CONNECT carries the request as its password; the
 * server answers with one message and ends the connection (docs/protocol.md, "Renewal without a session").
 */
import type { Duplex } from "node:stream";
import { messageOf } from "../../shared/error-text.js";
import { isStemmaError, StemmaError } from "../../shared/errors.js";
import type { CertificateRequest } from "../../shared/trust/certificates/certificate-exchange.js";
import { parseJson } from "../../shared/trust/keys.js";
import { decodeEnvelope } from "../../shared/wire/codec.js";
import { renewalClientIdOf } from "../../shared/wire/topics.js";
import { askOverMqtt } from "./ask-over-mqtt.js";
import { noCertificateFrom, refusedOverMqtt } from "./identity-errors.js";

/**
 * @param socket a connection to the server whose certificate was judged
 * @returns the answer, which is not checked yet
 * @throws CERTIFICATE_REFUSED, SERVER_UNREACHABLE
 */
export async function renewOverMqtt(
  { fleet, device }: { readonly fleet: string; readonly device: string },
  socket: Duplex,
  request: CertificateRequest,
): Promise<unknown> {
  const password = Buffer.from(JSON.stringify(request));
  const clientId = renewalClientIdOf(fleet, device);
  const { payload, error } = await askOverMqtt(socket, { clientId, username: device, password });
  if (payload === undefined) throw noAnswer(device, error);
  return answerIn(payload);
}

/** @throws what decodeEnvelope throws; CERTIFICATE_REFUSED where it is something else */
function answerIn(payload: Uint8Array): unknown {
  const { body } = decodeEnvelope(payload);
  if (body.type !== "command" || body.name !== "certificate")
    throw new StemmaError(
      "CERTIFICATE_REFUSED",
      "The server answered with something else than a certificate.",
    );
  const value = parseJson(Buffer.from(body.json));
  return (value as { readonly answer?: unknown } | undefined)?.answer;
}

function noAnswer(device: string, error: Error | undefined): StemmaError {
  if (isStemmaError(error)) return error;
  // CONNACK 5: the broker gives no reason.
  if ((error as { readonly code?: unknown } | undefined)?.code === 5) return refusedOverMqtt(device, error);
  const why = error === undefined ? "the connection was closed" : messageOf(error);
  return noCertificateFrom("The server, asked over MQTT,", why, error);
}
