/** Text with one JSON value per line; a byte order mark at the start and blank lines are skipped. */
import { messageOf } from "../../error-text.js";
import { StemmaError } from "../../errors.js";

/**
 * @param source where the text comes from, for the message: a file's name or "standard input"
 * @throws SAMPLE_INVALID naming the line as an editor counts it
 */
export function parseJsonLines(text: string, source: string): unknown[] {
  return text
    .replace(/^\ufeff/, "")
    .split("\n")
    .flatMap((line, index) => {
      if (line.trim() === "") return [];
      try {
        return [JSON.parse(line) as unknown];
      } catch (cause) {
        throw new StemmaError(
          "SAMPLE_INVALID",
          `Line ${index + 1} of ${source} is not JSON: ${messageOf(cause)}. No sample of it was stored; correct the line and submit everything again.`,
          { source, line: index + 1, cause },
        );
      }
    });
}
