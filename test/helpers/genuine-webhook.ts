/** What a receiver of webhooks checks, as docs/webhooks.md describes it. */
import { isSignatureValid } from "../../shared/trust/keys.js";

/** What a receiver allows between its clock and the request's, seconds. */
export const toleranceSeconds = 5 * 60;

/**
 * Whether the server with this public key (64 hex digits) sent this body, within the tolerance.
 * @param headers with lower-case names
 */
export function isWebhookGenuine(
  publicKey: string,
  headers: Readonly<Record<string, string | undefined>>,
  body: string,
  nowMs: number,
): boolean {
  const id = headers["webhook-id"] ?? "";
  const timestamp = headers["webhook-timestamp"] ?? "";
  if (!id.startsWith("stemma-webhook-1:") || !/^\d{1,12}$/.test(timestamp)) return false;
  if (Math.abs(nowMs / 1000 - Number(timestamp)) > toleranceSeconds) return false;
  return (headers["webhook-signature"] ?? "").split(" ").some((each) => {
    const [version, text = ""] = each.split(",");
    return (
      version === "v1a" &&
      isSignatureValid(publicKey, Buffer.from(`${id}.${timestamp}.${body}`), Buffer.from(text, "base64"))
    );
  });
}
