/** The end of an agent that a command asks for: what was asked, and what the end still waits for. */

/** The longest that a training may go on after an end was asked for. */
export const maxStopMs = 24 * 3600_000;

export interface StopAsked {
  /** True if the program is about to be replaced: work ends at a safe point, and no service starts it again. */
  readonly isForUpdate: boolean;
}

export interface StopAnswer {
  /** The work that has to end first, for people; null: only what is being written. */
  readonly waitsFor: string | null;
}

interface RunningTraining {
  readonly line: string;
  readonly invocation: number;
}

/** Describes the training that an end for an update waits for; null where none runs. */
export function describeWait(running: RunningTraining | undefined): string | null {
  if (running === undefined) return null;
  return `the training ${running.invocation} of ${running.line}: its end, or its next saved state`;
}
