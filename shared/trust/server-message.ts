/**
 * Signed messages of a server: an envelope's bytes, and after them the server's signature over these bytes and over
 * whom they are for. A reader verifies before it decodes, so nothing depends on how an envelope is written again.
 * Pure: callers pass the keys. (docs/protocol.md, "Signed messages")
 */
import { isSignatureValid, type Signer } from "./keys.js";

/** The recipient of a message. */
export interface MessageRecipient {
  readonly fleet: string;
  readonly device: string;
  /** The generation of the device's enrolment; 0: unknown. */
  readonly generation: number;
  /** The correlation of the birth that the server answered last; "" before it has answered one. */
  readonly challenge: string;
}

const domain = Buffer.from("stemma-server-message-1\0");
/** Tag (field 6, length-delimited) and length of the envelope's last field, `signature`. */
const trailerHead = Buffer.of((6 << 3) | 2, 64);
/** Bytes that the signature adds to an envelope. */
export const messageSignatureBytes = trailerHead.length + 64;

/**
 * "stemma-server-message-1\0" ‖ fleet ‖ device ‖ generation u32 ‖ challenge ‖ envelope; texts as length u32 ‖ UTF-8,
 * integers little-endian. The session is in the envelope.
 */
function signedBytes(
  { fleet, device, generation, challenge }: MessageRecipient,
  envelope: Uint8Array,
): Buffer {
  const number = Buffer.alloc(4);
  number.writeUInt32LE(generation);
  return Buffer.concat([domain, text(fleet), text(device), number, text(challenge), envelope]);
}

function text(value: string): Buffer {
  const bytes = Buffer.from(value, "utf8");
  const length = Buffer.alloc(4);
  length.writeUInt32LE(bytes.length);
  return Buffer.concat([length, bytes]);
}

/** Returns the published bytes: the envelope's with their signature. */
export function signServerMessage(
  server: Signer,
  recipient: MessageRecipient,
  envelope: Uint8Array,
): Uint8Array {
  return Buffer.concat([envelope, trailerHead, server.sign(signedBytes(recipient, envelope))]);
}

/** The envelope's bytes; undefined: the server with this key did not sign them for this recipient. */
export function openServerMessage(
  serverPublicKey: string,
  recipient: MessageRecipient,
  payload: Uint8Array,
): Uint8Array | undefined {
  const end = payload.length - messageSignatureBytes;
  if (end < 0 || !trailerHead.equals(payload.subarray(end, end + trailerHead.length))) return undefined;
  const envelope = payload.subarray(0, end);
  const signature = payload.subarray(end + trailerHead.length);
  return isSignatureValid(serverPublicKey, signedBytes(recipient, envelope), signature)
    ? envelope
    : undefined;
}
