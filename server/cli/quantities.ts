/** Ratios, sizes and durations as texts of the command line. Pure. */
import ms from "ms";
import { StemmaError } from "../../shared/errors.js";

/** Parses "1.6x" or "2"; null for "none". Its bounds are those of the operation. @throws USAGE */
export function parseRatio(text: string): number | "auto" | null {
  if (text === "none") return null;
  if (text === "auto") return "auto";
  const digits = /^(\d+(?:\.\d+)?)x?$/.exec(text)?.[1];
  if (digits === undefined)
    throw new StemmaError("USAGE", `"${text}" is not a ratio. Write it as 1.6x (1 or more), auto or none.`);
  return Number(digits);
}

/** Sizes are decimal (kB, MB); binary units have names of their own (KiB, MiB). In any case: nobody means bits. */
const byteUnits: Readonly<Record<string, number>> = {
  "": 1,
  b: 1,
  kb: 1e3,
  mb: 1e6,
  gb: 1e9,
  tb: 1e12,
  kib: 2 ** 10,
  mib: 2 ** 20,
  gib: 2 ** 30,
  tib: 2 ** 40,
};

/** Parses "2GiB" or "500MB" to bytes. @throws USAGE */
export function parseBytes(text: string): number {
  const [, number, unit] = /^(\d+(?:\.\d+)?)\s*([A-Za-z]*)$/.exec(text) ?? [];
  const bytes = Math.round(Number(number) * (byteUnits[unit?.toLowerCase() ?? "?"] ?? Number.NaN));
  if (!(bytes >= 1) || !Number.isSafeInteger(bytes))
    throw new StemmaError("USAGE", `"${text}" is not a size. Write it as 200kB, 500MB or 2GiB.`);
  return bytes;
}

/** A number with a unit of at most hours: a number alone or "1d" is likely a mistake here. */
const durationPattern = /^\d+(?:\.\d+)?\s*(?:ms|s|m|min|h)$/;

/** Parses "10m" or "30s" to milliseconds. @throws USAGE */
export function parseDuration(text: string): number {
  const durationMs = durationPattern.test(text)
    ? Math.round(ms(text.replace(/\s+/, "") as ms.StringValue))
    : 0;
  if (!(durationMs >= 1) || !Number.isSafeInteger(durationMs))
    throw new StemmaError("USAGE", `"${text}" is not a duration. Write it as 30s, 10m or 2h.`);
  return durationMs;
}

/** Parses the time for which something is valid, "12h" or "30d", to milliseconds. @throws USAGE */
export function parseValid(text: string): number {
  const [, count, unit] = /^(\d{1,5})([hd])$/.exec(text) ?? [];
  if (count === undefined)
    throw new StemmaError("USAGE", `--valid ${text} is not a time. Write hours or days: 12h, 7d.`);
  return Number(count) * (unit === "h" ? 3_600_000 : 86_400_000);
}
