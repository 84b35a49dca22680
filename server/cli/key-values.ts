/** KEY=VALUE and KEY-, by which commands change labels and settings of one device or of many. Pure. */
import { StemmaError } from "../../shared/errors.js";

/** Parses the words of a command: the device that the first one names, unless a selection means several. */
export function changedDevices(
  words: readonly string[],
  select: string | undefined,
): {
  readonly target: { readonly device: string } | { readonly select: string };
  readonly changes: readonly string[];
} {
  if (select !== undefined) return { target: { select }, changes: words };
  const [device = "", ...changes] = words;
  return { target: { device }, changes };
}

/**
 * KEY=VALUE gives a key a value, KEY- takes it away (null).
 * @param advice what to write instead of a word that is neither
 * @throws USAGE
 */
export function parseKeyValues(words: readonly string[], advice: string): Record<string, string | null> {
  return Object.fromEntries(
    words.map((word) => {
      const at = word.indexOf("=");
      if (at > 0) return [word.slice(0, at), word.slice(at + 1)];
      if (at < 0 && word.endsWith("-")) return [word.slice(0, -1), null];
      throw new StemmaError("USAGE", `${JSON.stringify(word)} is not KEY=VALUE or KEY-. ${advice}`);
    }),
  );
}

/** Describes values as "region=eu, depot=lyon". */
export function describeKeyValues(values: Readonly<Record<string, string | number>>, none: string): string {
  const texts = Object.entries(values).map(([key, value]) => `${key}=${value}`);
  return texts.length === 0 ? none : texts.join(", ");
}
