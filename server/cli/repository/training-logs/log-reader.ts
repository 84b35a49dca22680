/** A reader of training logs: it yields what a training measured, row by row, in the order of its file. Types only. */

/** The figures of one row by their names in the log; null: not finite. */
export type LogRow = ReadonlyMap<string, number | null>;

export interface LogReader {
  readonly name: string;
  readonly matches: (fileName: string, first: Buffer) => boolean;
  /** @throws TRAINER_OUTPUT_INVALID naming the line or the byte; a last row that is not complete is left out */
  readonly read: (path: string) => AsyncIterable<LogRow>;
}
