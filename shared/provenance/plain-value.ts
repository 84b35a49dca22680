/** Values of records as JSON has them. Pure. */
import type { CanonicalValue } from "../model/canonical-json.js";

/** Turns 64-bit integers into texts, since JSON numbers are exact only up to 2^53. */
export function plainOf(value: CanonicalValue | undefined): unknown {
  if (typeof value === "bigint") return String(value);
  if (Array.isArray(value)) return value.map(plainOf);
  if (typeof value === "object" && value !== null)
    return Object.fromEntries(
      Object.entries(value).map(([key, member]) => [key, plainOf(member as CanonicalValue)]),
    );
  return value;
}
