/** Shared parts of all command lines of Stemma: assignments as arguments, errors as text and exit status. */
import { inspect } from "node:util";
import { messageOf } from "../error-text.js";
import { exitStatus, isStemmaError, StemmaError } from "../errors.js";
import { printable } from "../printable.js";
import { fitted } from "./text-width.js";
import { nameMissingDescriptors } from "../connection-error.js";

/**
 * Prints an error for a person (or as JSON for `-o json`) and returns the exit status. With `verbose`, and
 * for errors without a code, its stack and those of its causes follow.
 */
export function reportError(thrown: unknown, form: string | undefined, verbose: boolean): number {
  const error = nameMissingDescriptors(thrown);
  const known = isStemmaError(error);
  const code = known ? error.code : "INTERNAL";
  const message = messageOf(error);
  if (form === "json")
    process.stderr.write(
      `${JSON.stringify({ error: { code, message, details: known ? error.details : {} } })}\n`,
    );
  else process.stderr.write(`${fitted(printable(`stemma: ${message} [${code}]`), process.stderr)}\n`);
  if (verbose || !known) process.stderr.write(printable(describeCauses(error)));
  return known ? error.exitStatus : exitStatus.failed;
}

/** Maximum number of causes that are shown, because an error could be its own cause. */
const maxCauses = 10;

/** The error's stack, and those of its causes. */
function describeCauses(error: unknown): string {
  const lines: string[] = [];
  let next = error;
  for (let depth = 0; depth <= maxCauses && next !== undefined; depth++) {
    const text = next instanceof Error ? (next.stack ?? next.message) : inspect(next);
    lines.push(depth === 0 ? text : `caused by ${text}`);
    next = next instanceof Error ? next.cause : undefined;
  }
  return `${lines.join("\n")}\n`;
}

/**
 * Parses repeated `key=value`. What was typed is kept: a value is a number, true or false only where these are written
 * as JavaScript writes them (7, 0.5, -3), so that 007, 1.0, 1e5 and 12345678901234567890 stay texts. In double quotes
 * it is text: '"7"'. Receivers that want a number read those of other forms from the text (declared-parameters.ts).
 * @param numbers "any": figures, of which each is a number that can be read as one
 * @throws USAGE
 */
export function parseAssignments(
  pairs: readonly string[],
  numbers: "as written" | "any" = "as written",
): Record<string, string | number | boolean> {
  return Object.fromEntries(
    pairs.map((pair): [string, string | number | boolean] => {
      const at = pair.indexOf("=");
      if (at < 1) throw new StemmaError("USAGE", `"${pair}" is not an assignment. Write it as key=value.`);
      const text = pair.slice(at + 1);
      if (text === "true" || text === "false") return [pair.slice(0, at), text === "true"];
      if (text.length > 1 && text.startsWith('"') && text.endsWith('"'))
        return [pair.slice(0, at), quotedText(text, pair)];
      const number = numberOfText(text);
      const isNumber = number !== undefined && (numbers === "any" || String(number) === text);
      return [pair.slice(0, at), isNumber ? number : text];
    }),
  );
}

/** @throws USAGE */
function quotedText(text: string, pair: string): string {
  try {
    return JSON.parse(text) as string;
  } catch (cause) {
    throw new StemmaError("USAGE", `${pair} has a text in quotes that is not one. Write it as in JSON.`, {
      cause,
    });
  }
}

/** A number in any form that JavaScript reads (1e-4, .5, +3, 0x10); undefined: it is none. */
export function numberOfText(text: string): number | undefined {
  const value = Number(text);
  return text.trim() === "" || !Number.isFinite(value) ? undefined : value;
}
/** Adds one more value, for repeatable options. */
export function appendValue(value: string, all: readonly string[] = []): string[] {
  return [...all, value];
}
