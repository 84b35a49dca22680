/** The journal of a trial in the agent's home: what it is, what the software told, how long it ran. */
import { dirname, join } from "node:path";
import { openJournal } from "../../shared/journal/open-journal.js";
import type { Clock, Files } from "../../shared/ports.js";
import type { TrialRequest } from "../../shared/wire/live-trial.js";
import { TrialFold, type TrialFact } from "./trial-fold.js";

export interface OpenTrial {
  readonly fold: TrialFold;
  /** The time until when its time is counted, and when that was last written down, by the monotonic clock. */
  countedAtMs: number;
  notedAtMs: number;
  /** The time that was last written down. */
  notedMs: number;
  /** Resolves once the fact is durable. */
  write(fact: TrialFact): Promise<void>;
  close(): Promise<void>;
}

type Ports = { readonly files: Files; readonly clock: Pick<Clock, "monotonic"> };

export function trialFolder(home: string, line: string): string {
  return join(home, "trials", line);
}

/** Bytes of the files of all trials in the agent's home, also of those that are not open. */
export async function trialBytes(
  files: Pick<Files, "list" | "stat">,
  home: string,
  lines: readonly string[],
): Promise<number> {
  let bytes = 0;
  for (const line of lines) {
    const folder = trialFolder(home, line);
    for (const name of await files.list(folder)) bytes += (await files.stat(join(folder, name)))?.size ?? 0;
  }
  return bytes;
}

/**
 * Begins a trial in a folder that is not there, or without a request reads the one that is.
 * @returns undefined where there is none
 * @throws JOURNAL_CORRUPT, FILE_FAILED, DISK_FULL
 */
export async function openTrial(ports: Ports, folder: string, request: TrialRequest): Promise<OpenTrial>;
export async function openTrial(
  ports: Ports,
  folder: string,
  request: undefined,
): Promise<OpenTrial | undefined>;
export async function openTrial(
  { files, clock }: Ports,
  folder: string,
  request: TrialRequest | undefined,
): Promise<OpenTrial | undefined> {
  if (request === undefined && (await files.stat(folder)) === undefined) return undefined;
  const journal = await openJournal<TrialFact>(files, folder);
  try {
    let fold: TrialFold | undefined;
    for await (const { fact } of journal.entries()) {
      if (fact.type !== "begun") fold?.apply(fact);
      else {
        const { type: _, ...begun } = fact;
        fold ??= new TrialFold(begun);
      }
    }
    if (fold === undefined && request !== undefined) {
      await journal.append([{ type: "begun", ...request }]);
      fold = new TrialFold(request);
    }
    if (fold === undefined) {
      // Ended before its first fact was written.
      await journal.close();
      await removeTrial(files, folder);
      return undefined;
    }
    const nowMs = clock.monotonic();
    return {
      fold,
      countedAtMs: nowMs,
      notedAtMs: nowMs,
      notedMs: fold.ranMs,
      write: async (fact) => {
        await journal.append([fact]);
      },
      close: () => journal.close(),
    };
  } catch (error) {
    await journal.close().catch(() => undefined);
    throw error;
  }
}

export async function removeTrial(files: Files, folder: string): Promise<void> {
  if ((await files.stat(folder)) === undefined) return;
  await files.remove(folder);
  await files.syncFolder(dirname(folder));
}
