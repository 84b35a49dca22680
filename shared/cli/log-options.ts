/** The command line's choices of log form and level, the same for server and agent. */
import { logForms, logLevels, type LogForm, type LogLevel } from "../adapters/log-forms.js";
import { StemmaError } from "../errors.js";

/** @throws USAGE when the text is not a log form */
export function parseLogForm(text: string): LogForm {
  const form = logForms.find((known) => known === text);
  if (form === undefined)
    throw new StemmaError("USAGE", `--log ${text} is not a log form. Use one of ${logForms.join(", ")}.`);
  return form;
}

/**
 * The level that the command line asks for: `--log-level`, else `debug` for `--verbose`, else undefined (the
 * settings decide).
 * @throws USAGE when the text is not a log level
 */
export function requestedLogLevel(options: {
  readonly logLevel?: string | undefined;
  readonly verbose?: boolean | undefined;
}): LogLevel | undefined {
  const { logLevel, verbose = false } = options;
  if (logLevel === undefined) return verbose ? "debug" : undefined;
  const level = logLevels.find((known) => known === logLevel);
  if (level === undefined)
    throw new StemmaError(
      "USAGE",
      `--log-level ${logLevel} is not a log level. Use one of ${logLevels.join(", ")}.`,
    );
  return level;
}
