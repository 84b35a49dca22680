/**
 * The forms and levels of a log. Apart from the log itself, so that a command line that only names them loads
 * no library.
 */

/** The levels from the least to the most important. */
export const logLevels = ["debug", "info", "warn", "error"] as const;
export type LogLevel = (typeof logLevels)[number];
export const logForms = ["plain", "json"] as const;
export type LogForm = (typeof logForms)[number];
