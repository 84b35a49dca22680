/**
 * Stores a search's request and events in a folder of its own: `search.json` and `log.jsonl`.
 */
import { dirname, join } from "node:path";
import * as z from "zod";
import { isStemmaError } from "../../../shared/errors.js";
import { writeDurably } from "../../../shared/files/durable-write.js";
import { leaveLock, lockHome } from "../../../shared/files/home-lock.js";
import type { Files } from "../../../shared/ports.js";
import { isHash } from "../../../shared/tensor/hash.js";
import type { Hash } from "../../../shared/tensor/tensor.js";
import { EventLog } from "./event-log.js";
import { noSearchIn, otherSearch, searchDamaged, searchRuns } from "./search-errors.js";

const hash = z.custom<Hash>(isHash, "not a hash");
const count = z.number().int().nonnegative();

/**
 * The event of a candidate's end: how it was made and with what result, with everything that is needed to
 * make it again.
 */
const doneEvent = z.strictObject({
  event: z.literal("done"),
  candidate: count,
  versionId: hash,
  root: hash,
  quality: z.number(),
  /** The model whose first layers it took over. */
  ancestor: z.strictObject({ versionId: hash, layers: count }).nullable(),
  /** Layers that were not trained. */
  frozen: count,
  layers: count,
  /** Milliseconds by the clock: of the training alone, and of all. */
  trainMs: z.number(),
  totalMs: z.number(),
  endedAtMs: z.number(),
  /** Bytes of tensors in the model, and of those that were new. */
  bytes: count,
  newBytes: count,
  /** The device that trained it; absent: this machine. */
  device: z.string().optional(),
});
const event = z.discriminatedUnion("event", [
  z.strictObject({
    event: z.literal("proposed"),
    candidate: count,
    choices: z.array(count),
    parent: count.optional(),
  }),
  doneEvent,
  /** The mean loss of a candidate's first steps, and whether its training was ended because of it. */
  z.strictObject({
    event: z.literal("judged"),
    candidate: count,
    step: count,
    loss: z.number(),
    isEnded: z.boolean(),
  }),
  z.strictObject({ event: z.literal("failed"), candidate: count, code: z.string(), message: z.string() }),
  z.strictObject({ event: z.literal("retired"), candidate: count }),
]);
export type SearchEvent = z.infer<typeof event>;
export type DoneEvent = z.infer<typeof doneEvent>;

const logName = "log.jsonl";
const settingsName = "search.json";
const leaseName = "lease";
export type SearchLog = EventLog<SearchEvent>;
export const SearchLog = {
  /** @throws SEARCH_DAMAGED where a line before the last one is not what was written */
  open: (files: Files, folder: string): Promise<SearchLog> =>
    EventLog.open(files, join(folder, logName), { schema: event, damaged: searchDamaged }),
};

export function settingsPath(folder: string): string {
  return join(folder, settingsName);
}

/** The file that keeps the key of the lease of the line of a search whose candidates devices train. */
export function leasePath(folder: string): string {
  return join(folder, leaseName);
}

/**
 * Keeps what a search was asked to do. A later call with other settings is refused, but for the number of candidates.
 * @throws SEARCH_OTHER
 */
export async function keepSettings(
  files: Files,
  folder: string,
  settings: { readonly candidates: number },
): Promise<void> {
  const path = settingsPath(folder);
  const textOf = (value: object): string => `${JSON.stringify(value, null, 2)}\n`;
  if ((await files.stat(path)) !== undefined) {
    const kept = (await readSettings(files, folder)) as object;
    if (textOf({ ...kept, candidates: 0 }) !== textOf({ ...settings, candidates: 0 }))
      throw otherSearch(folder, settingsName);
  }
  await files.makeFolder(folder);
  await writeDurably(files, path, Buffer.from(textOf(settings)));
}

/**
 * Takes the folder of a search for this process alone: two that write its log would each cut off what the other wrote.
 * @returns gives it back
 * @throws SEARCH_RUNS, FILE_FAILED
 */
export async function holdSearch(folder: string): Promise<() => Promise<void>> {
  const lock = await lockHome(folder).catch((error: unknown) => {
    throw isStemmaError(error, "HOME_LOCKED") ? searchRuns(folder, error) : error;
  });
  return async () => {
    await lock.release();
    await leaveLock(folder);
  };
}

/** Removes a search that made nothing. */
export async function forgetSearch(files: Files, folder: string): Promise<void> {
  for (const name of [logName, settingsName, leaseName]) await files.remove(join(folder, name));
}

/** Removes the folders that were made for a search that is forgotten; other files in them stay. */
export async function removeMade(files: Files, made: readonly string[]): Promise<void> {
  for (const each of made) if ((await files.list(each)).length === 0) await files.remove(each);
}

/** Removes what searches left that ended without a word: engines of workers. Only while the folder is held. */
export async function removeWorkers(files: Files, folder: string): Promise<void> {
  for (const name of await files.list(folder))
    if (/^worker-\d+$/u.test(name)) await files.remove(join(folder, name));
}

/** The folders that have to be made so that this one is there, the deepest first. */
export async function missingFolders(files: Files, folder: string): Promise<readonly string[]> {
  if ((await files.stat(folder)) !== undefined) return [];
  return [folder, ...(await missingFolders(files, dirname(folder)))];
}

/** Reads the request of the search in this folder. @throws FILE_MISSING, SEARCH_DAMAGED */
export async function readSettings(files: Files, folder: string): Promise<unknown> {
  const path = settingsPath(folder);
  if ((await files.stat(path)) === undefined) throw noSearchIn(folder);
  try {
    return JSON.parse(Buffer.from(await files.read(path)).toString("utf8"));
  } catch {
    throw searchDamaged(path, "it is not JSON");
  }
}
