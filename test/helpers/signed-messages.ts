/** What a server sends to a device, signed: for the device's newest birth, or for any other recipient. */
import { signServerMessage, type MessageRecipient } from "../../shared/trust/server-message.js";
import type { Signer } from "../../shared/trust/keys.js";
import { encodeEnvelope } from "../../shared/wire/codec.js";
import type { Body, Envelope } from "../../shared/wire/messages.js";

/** An envelope as servers number and time them. */
export function orderEnvelope(
  body: Body,
  about: Pick<Envelope, "session" | "sequence"> & Partial<Envelope>,
): Envelope {
  return { protocol: 1, correlation: "", expiresMs: 3_600_000, issuedMs: 1, ...about, body };
}

export function signedEnvelope(server: Signer, recipient: MessageRecipient, envelope: Envelope): Uint8Array {
  return signServerMessage(server, recipient, encodeEnvelope(envelope));
}
