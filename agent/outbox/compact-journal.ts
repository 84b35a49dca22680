/**
 * Replaces the outbox's journal by a shorter one that gives the same state. Safe against a crash at any moment: the
 * new journal is complete and durable under another name before the old one is renamed away.
 */
import { dirname } from "node:path";
import { openJournal } from "../../shared/journal/open-journal.js";
import type { Files } from "../../shared/ports.js";
import type { AgentFact } from "./agent-fact.js";

const nextOf = (folder: string): string => `${folder}-next`;
const oldOf = (folder: string): string => `${folder}-old`;

/** Finishes or undoes what a crash interrupted; called before the journal is opened. */
export async function settleCompaction(files: Files, folder: string): Promise<void> {
  const hasJournal = (await files.stat(folder)) !== undefined;
  if (!hasJournal) {
    // The old journal is renamed only when the next one is complete.
    const hasNext = (await files.stat(nextOf(folder))) !== undefined;
    const hasOld = (await files.stat(oldOf(folder))) !== undefined;
    if (hasOld) await files.rename(hasNext ? nextOf(folder) : oldOf(folder), folder);
    if (hasOld) await files.syncFolder(dirname(folder));
  }
  await files.remove(nextOf(folder));
  await files.remove(oldOf(folder));
}

/** Writes a journal of `facts` and puts it into the place of the closed one in `folder`. */
export async function replaceJournal(
  files: Files,
  folder: string,
  facts: readonly AgentFact[],
): Promise<void> {
  await files.remove(nextOf(folder));
  const next = await openJournal<AgentFact>(files, nextOf(folder), {});
  await next.append(facts);
  await next.close();
  await files.syncFolder(nextOf(folder));
  await files.syncFolder(dirname(folder));
  await files.rename(folder, oldOf(folder));
  await files.syncFolder(dirname(folder));
  await files.rename(nextOf(folder), folder);
  await files.syncFolder(dirname(folder));
  await files.remove(oldOf(folder));
}
