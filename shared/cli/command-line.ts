/** Shared parts of all command lines of Stemma: assignments as arguments, errors as text and exit status. */
import { inspect } from "node:util";
import { messageOf } from "../error-text.js";
import { exitStatus, isStemmaError, StemmaError } from "../errors.js";

/**
 * Prints an error for a person (or as JSON for `-o json`) and returns the exit status. With `verbose`, and
 * for errors without a code, its stack and those of its causes follow.
 */
export function reportError(error: unknown, form: string | undefined, verbose: boolean): number {
  const known = isStemmaError(error);
  const code = known ? error.code : "INTERNAL";
  const message = messageOf(error);
  if (form === "json")
    process.stderr.write(
      `${JSON.stringify({ error: { code, message, details: known ? error.details : {} } })}\n`,
    );
  else process.stderr.write(`stemma: ${message} [${code}]\n`);
  if (verbose || !known) process.stderr.write(describeCauses(error));
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

/** Parses repeated `--set key=value`. Numbers and true/false become values of their types. @throws USAGE */
export function parseAssignments(pairs: readonly string[]): Record<string, string | number | boolean> {
  return Object.fromEntries(
    pairs.map((pair) => {
      const at = pair.indexOf("=");
      if (at < 1) throw new StemmaError("USAGE", `"${pair}" is not an assignment. Write it as key=value.`);
      return [pair.slice(0, at), typedValue(pair.slice(at + 1))];
    }),
  );
}

function typedValue(text: string): string | number | boolean {
  if (text === "true" || text === "false") return text === "true";
  return text.trim() !== "" && Number.isFinite(Number(text)) ? Number(text) : text;
}
/** Adds one more value, for repeatable options. */
export function appendValue(value: string, all: readonly string[] = []): string[] {
  return [...all, value];
}
