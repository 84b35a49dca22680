/**
 * The signature of a webhook's request, in the form of the Standard Webhooks specification with an Ed25519 key
 * (`v1a`): of `<id>.<timestamp>.<body>`. The id begins with a prefix of its own, so that such a signature is never
 * valid as another one of the server's key. Pure.
 */
import type { Signer } from "../../../shared/trust/keys.js";

const idPrefix = "stemma-webhook-1:";

/** The id of the facts of a fleet from a position on: the same facts sent again have the same id. */
export function messageId(fleet: string, from: number, next: number): string {
  return `${idPrefix}${fleet}:${from}-${next}`;
}

function signedBytes(id: string, timestamp: string, body: string): Uint8Array {
  return Buffer.from(`${id}.${timestamp}.${body}`, "utf8");
}

/** The headers of a request. @param atMs the server's clock */
export function webhookHeaders(
  signer: Signer,
  { id, body, atMs }: { readonly id: string; readonly body: string; readonly atMs: number },
): Readonly<Record<string, string>> {
  const timestamp = String(Math.floor(atMs / 1000));
  const signature = Buffer.from(signer.sign(signedBytes(id, timestamp, body))).toString("base64");
  return {
    "content-type": "application/json",
    "webhook-id": id,
    "webhook-timestamp": timestamp,
    "webhook-signature": `v1a,${signature}`,
  };
}
