/**
 * The staging list of a model repository: what the next commit takes, as `stemma add` saw it. It is the only file that
 * a repository has besides its home, and may be deleted: nothing else depends on it.
 */
import { createHash } from "node:crypto";
import { createReadStream, type Stats } from "node:fs";
import { stat } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import { setTimeout } from "node:timers/promises";
import * as z from "zod";
import { isStemmaError, StemmaError } from "../../../shared/errors.js";
import { writeDurably } from "../../../shared/files/durable-write.js";
import { fileError, systemCode } from "../../../shared/files/file-error.js";
import { lockHome } from "../../../shared/files/home-lock.js";
import { makeFolderDurably } from "../../../shared/files/make-folder.js";
import { nodeFiles } from "../../../shared/files/node-files.js";
import { requireRegular } from "../../../shared/files/not-regular.js";
import { regularFiles } from "../../../shared/files/regular-files.js";
import type { Repository } from "./find-repository.js";
import { stagedKinds } from "./sniff-kind.js";

/** The most files of one commit; a version has at most 256 attached files and 256 checkpoints. */
const maxEntries = 1000;
const maxListBytes = 4 * 1024 * 1024;

const seenFile = z.object({
  byteLength: z.number().int().nonnegative(),
  sha256: z.string().regex(/^[0-9a-f]{64}$/),
  /** The times by which a file is taken for unchanged without reading it, as git does. */
  modifiedMs: z.number(),
  changedMs: z.number(),
});
export type SeenFile = z.infer<typeof seenFile>;

const stagedEntry = seenFile.extend({
  kind: z.enum(stagedKinds),
  /** Relative to the root where it is below it, else absolute. */
  path: z.string().min(1).max(4096),
  /** The training steps before a checkpoint. */
  iteration: z.number().int().nonnegative().optional(),
  /** Files of the same folder that it consists of too; length, hash and times are those of all. */
  beside: z.array(z.string().min(1).max(1024)).max(2000).optional(),
});
export type StagedEntry = z.infer<typeof stagedEntry>;

const stagingList = z.object({
  format: z.literal(1),
  /** The model that is worked on; absent: the newest version's. */
  name: z.string().optional(),
  /** Version id of what the next commit begins from, after a copy; absent: the newest version of the name. */
  base: z.string().optional(),
  /** True after a copy without weights: those of the base are not to be committed again. */
  needsModel: z.boolean().optional(),
  entries: z.array(stagedEntry).max(maxEntries),
  /** Names of registered data that the training used. */
  data: z.array(z.string()).max(maxEntries),
  /** Names of files of the current version that the next one does not take over. */
  forgotten: z.array(z.string()).max(maxEntries),
});
export type StagingList = z.infer<typeof stagingList>;

export const emptyList: StagingList = { format: 1, entries: [], data: [], forgotten: [] };

function folderOf({ home }: Repository): string {
  return join(home, "staging");
}

function listPath(repository: Repository): string {
  return join(folderOf(repository), "list.json");
}

/** @throws CONFIG_INVALID, FILE_NOT_REGULAR */
export async function readStaging(repository: Repository): Promise<StagingList> {
  const path = listPath(repository);
  const found = await nodeFiles().stat(path);
  if (found === undefined) return emptyList;
  let value: unknown;
  if (found.size <= maxListBytes)
    try {
      value = JSON.parse(Buffer.from(await regularFiles().read(path)).toString("utf8"));
    } catch (error) {
      if (isStemmaError(error)) throw error;
    }
  const read = stagingList.safeParse(value);
  if (read.success) return read.data;
  throw new StemmaError(
    "CONFIG_INVALID",
    `The staging list ${path} cannot be read. Remove it, and add the files again: nothing else depends on it.`,
    { path },
  );
}

export async function writeStaging(repository: Repository, list: StagingList): Promise<void> {
  const checked = stagingList.safeParse(list);
  if (!checked.success)
    throw new StemmaError(
      "SIZE_OVER_LIMIT",
      `One commit has at most ${maxEntries} files. Commit some of them first.`,
    );
  await makeFolderDurably(nodeFiles(), folderOf(repository));
  await writeDurably(nodeFiles(), listPath(repository), Buffer.from(`${JSON.stringify(list, null, 1)}\n`));
}

const pauseMs = 100;

/** Runs what changes the list while no other process changes it. @throws HOME_LOCKED after the wait */
export async function withStaging<Result>(
  repository: Repository,
  { waitSeconds, signal }: { readonly waitSeconds: number; readonly signal: AbortSignal },
  work: (list: StagingList) => Promise<Result>,
): Promise<Result> {
  const untilMs = performance.now() + waitSeconds * 1000;
  for (;;) {
    let lock;
    try {
      lock = await lockHome(folderOf(repository));
    } catch (error) {
      if (!isStemmaError(error, "HOME_LOCKED") || performance.now() >= untilMs) throw error;
      await setTimeout(pauseMs, undefined, { signal }).catch(() => undefined);
      signal.throwIfAborted();
      continue;
    }
    try {
      return await work(await readStaging(repository));
    } finally {
      await lock.release();
    }
  }
}

export function pathOfEntry({ root }: Repository, { path }: Pick<StagedEntry, "path">): string {
  return resolve(root, path);
}

/** Reads a file once, to know it again. @throws FILE_MISSING, FILE_NOT_REGULAR, FILE_CHANGED, FILE_FAILED */
export async function seeFile(path: string): Promise<SeenFile> {
  const before = await statOf(path);
  if (before === undefined)
    throw new StemmaError("FILE_MISSING", `${path} does not exist. Check the path.`, { path });
  requireRegular(before, path);
  const hash = createHash("sha256");
  let bytes = 0;
  try {
    for await (const chunk of createReadStream(path)) {
      hash.update(chunk as Uint8Array);
      bytes += (chunk as Uint8Array).length;
    }
  } catch (error) {
    throw fileError(error, "read", path);
  }
  const after = await statOf(path);
  if (after?.mtimeMs !== before.mtimeMs || after.size !== bytes)
    throw new StemmaError("FILE_CHANGED", `${path} changed while it was read. Add it when it is complete.`, {
      path,
    });
  const { mtimeMs: modifiedMs, ctimeMs: changedMs } = after;
  return { byteLength: bytes, sha256: hash.digest("hex"), modifiedMs, changedMs };
}

/** Reads the files of a model, as seeFile one: the hash is that of their hashes. */
export async function seeFiles(paths: readonly string[]): Promise<SeenFile> {
  const seen: SeenFile[] = [];
  for (const path of paths) seen.push(await seeFile(path));
  const [only, ...others] = seen;
  if (only !== undefined && others.length === 0) return only;
  return {
    ...together(seen.map(({ byteLength, modifiedMs, changedMs }) => [byteLength, modifiedMs, changedMs])),
    sha256: createHash("sha256")
      .update(seen.map(({ sha256 }) => sha256).join("\n"))
      .digest("hex"),
  };
}

/** The bytes of all, and the newest times. */
function together(
  files: readonly (readonly [byteLength: number, modifiedMs: number, changedMs: number])[],
): Omit<SeenFile, "sha256"> {
  return {
    byteLength: files.reduce((sum, [byteLength]) => sum + byteLength, 0),
    modifiedMs: Math.max(...files.map(([, modifiedMs]) => modifiedMs)),
    changedMs: Math.max(...files.map(([, , changedMs]) => changedMs)),
  };
}

/** The status of a file; undefined where nothing has this name. */
async function statOf(path: string): Promise<Stats | undefined> {
  return await stat(path).catch((error: unknown) => {
    if (["ENOENT", "ENOTDIR"].includes(systemCode(error) ?? "")) return undefined;
    throw fileError(error, "get the status of", path);
  });
}

export type EntryState = "staged" | "changed" | "missing";

/** Compares a staged file with what it is now; its bytes are read only where its times differ. */
export async function stateOfEntry(repository: Repository, entry: StagedEntry): Promise<EntryState> {
  const path = pathOfEntry(repository, entry);
  const paths = [path, ...(entry.beside ?? []).map((name) => join(dirname(path), name))];
  const found = (await Promise.all(paths.map(statOf))).filter(
    (each): each is Stats => each?.isFile() === true,
  );
  if (found.length < paths.length) return "missing";
  const now = together(found.map(({ size, mtimeMs, ctimeMs }) => [size, mtimeMs, ctimeMs]));
  if (now.byteLength !== entry.byteLength) return "changed";
  if (now.modifiedMs === entry.modifiedMs && now.changedMs === entry.changedMs) return "staged";
  return (await seeFiles(paths)).sha256 === entry.sha256 ? "staged" : "changed";
}
