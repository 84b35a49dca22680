/**
 * The token that authenticates a device's MQTT connection: 256 random bits, of which the server keeps only a
 * hash. A plain SHA-256 is enough, because 256 random bits cannot be guessed.
 */
import { timingSafeEqual } from "node:crypto";
import { sha256 } from "../tensor/hash.js";
import type { Random } from "../ports.js";

/** "stemma_" ‖ 43 characters of base64url: 32 random bytes. */
export function generateToken(random: Random): string {
  return `stemma_${Buffer.from(random.bytes(32)).toString("base64url")}`;
}

/** The hash that the server keeps: H("stemma-token-1\0" ‖ token), lower-case hex. */
export function hashToken(token: string): string {
  return sha256("stemma-token-1\0", token);
}

/** Compares in constant time. */
export function isTokenOf(token: string | Uint8Array, tokenHash: string): boolean {
  const presented = Buffer.from(
    hashToken(typeof token === "string" ? token : Buffer.from(token).toString("utf8")),
    "hex",
  );
  const expected = Buffer.from(tokenHash, "hex");
  return presented.length === expected.length && timingSafeEqual(presented, expected);
}
