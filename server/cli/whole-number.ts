/** Reads an option of a command that is a whole number. */
import { StemmaError } from "../../shared/errors.js";

/** @throws USAGE */
export function wholeNumber(option: string, text: string): number {
  if (!/^\d{1,15}$/.test(text))
    throw new StemmaError(
      "USAGE",
      `${option} ${text} is not a whole number. Give one, such as ${option} 100.`,
    );
  return Number(text);
}
