/**
 * Finds a modeller's repository: the folder with `.stemma/repository.json`, from the working folder upwards, as git
 * finds its own. `.stemma` is a home that `stemma init` made; `~/.stemma`, the home of a fleet's commands, is none.
 */
import { lstat, readFile, realpath, stat } from "node:fs/promises";
import { dirname, join, relative, sep } from "node:path";
import * as z from "zod";
import { StemmaError } from "../../../shared/errors.js";
import { fileError, systemCode } from "../../../shared/files/file-error.js";
import { requireRegular } from "../../../shared/files/not-regular.js";

export interface Repository {
  /** The working folder that has `.stemma`. */
  readonly root: string;
  /** The real path of `.stemma`, also where that is a link. */
  readonly home: string;
  /** The fleet of its home that has the models. */
  readonly fleet: string;
}

export const repositoryFolder = ".stemma";
export const repositoryFile = "repository.json";
export const defaultFleet = "local";
const kind = "stemma-repository";
const maxFileBytes = 64 * 1024;
/** Deeper working folders are not searched: a link may lead in circles. */
const maxDepth = 256;

const schema = z.object({ kind: z.literal(kind), format: z.number(), fleet: z.string().optional() });

/** The content of a new repository's file. */
export function newRepositoryFile(): Uint8Array {
  return Buffer.from(`${JSON.stringify({ kind, format: 1, fleet: defaultFleet })}\n`);
}

/** @throws HOME_FORMAT_UNKNOWN for one of another release, FILE_NOT_REGULAR, FILE_FAILED */
export async function findRepository(from = process.cwd()): Promise<Repository | undefined> {
  let folder = from;
  for (let depth = 0; depth < maxDepth; depth++) {
    const found = await repositoryIn(folder);
    if (found !== undefined) return found;
    const parent = dirname(folder);
    if (parent === folder) return undefined;
    folder = parent;
  }
  return undefined;
}

/** @throws NOT_FOUND where there is none, as findRepository */
export async function requireRepository(from = process.cwd()): Promise<Repository> {
  const found = await findRepository(from);
  if (found !== undefined) return found;
  throw new StemmaError(
    "NOT_FOUND",
    `${from} is not in a model repository. Make one here with \`stemma init\`, or go to the folder that has one.`,
    { folder: from },
  );
}

/** The repository whose `.stemma` is in this very folder. @throws as findRepository */
export async function repositoryIn(root: string): Promise<Repository | undefined> {
  const path = join(root, repositoryFolder, repositoryFile);
  try {
    const found = await stat(path).catch((error: unknown) => {
      if (["ENOENT", "ENOTDIR", "ELOOP"].includes(systemCode(error) ?? "")) return undefined;
      throw error;
    });
    if (found === undefined) return undefined;
    requireRegular(found, path);
    requireOwn(found.uid, root);
    const text = found.size > maxFileBytes ? "" : await readFile(path, "utf8");
    return { root, home: await realpath(dirname(path)), fleet: fleetIn(text, path) };
  } catch (error) {
    throw fileError(error, "read", path);
  }
}

/**
 * Refuses a repository that another user made, as git does: what is committed there is that user's to read.
 * @throws NOT_ALLOWED
 */
function requireOwn(owner: number, root: string): void {
  const own = [process.getuid?.(), Number(process.env["SUDO_UID"] ?? NaN)];
  if (process.getuid === undefined || own.includes(owner)) return;
  throw new StemmaError(
    "NOT_ALLOWED",
    `The model repository in ${root} belongs to another user (user id ${owner}), so it is not used by itself. Name it ` +
      "with --home if you mean it, or make one of your own with `stemma init`.",
    { path: root },
  );
}

function fleetIn(text: string, path: string): string {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    value = undefined;
  }
  const read = schema.safeParse(value);
  if (read.success && read.data.format === 1) return read.data.fleet ?? defaultFleet;
  throw new StemmaError(
    "HOME_FORMAT_UNKNOWN",
    read.success
      ? `${path} has the format ${read.data.format}, and this release of Stemma knows 1. Use the release that made it.`
      : `${path} is not the file of a model repository. Restore it, or move the folder away and run \`stemma init\`.`,
    { path },
  );
}

/** True if a path, links followed, leads into the repository's home, which has keys. */
export async function isInHome({ home }: Repository, path: string): Promise<boolean> {
  const real = await realpath(path).catch(() => path);
  return real === home || real.startsWith(home + sep);
}

/** The path of a file as the staging list and versions name it: relative to the root where it is below it. */
export function shownPath({ root }: Pick<Repository, "root">, path: string): string {
  const below = relative(root, path);
  return below === "" || below.startsWith(`..${sep}`) || below === ".." ? path : below.split(sep).join("/");
}

/**
 * The path of a file that a version names, below the root; undefined for a path that leads elsewhere or into
 * `.stemma`: a version may come from somebody else.
 */
export function pathBelow(root: string, path: string): string | undefined {
  const parts = path.split("/");
  const isPlain = parts.every((part) => part !== "" && part !== "." && part !== ".." && !/[\\\0]/.test(part));
  return isPlain && parts[0]?.toLowerCase() !== repositoryFolder ? join(root, ...parts) : undefined;
}

/** The kind of what has this name, links not followed; undefined where nothing has. */
export async function entryAt(path: string): Promise<"file" | "folder" | "link" | undefined> {
  const found = await lstat(path).catch((error: unknown) => {
    if (systemCode(error) === "ENOENT") return undefined;
    throw fileError(error, "look at", path);
  });
  if (found === undefined) return undefined;
  return found.isSymbolicLink() ? "link" : found.isDirectory() ? "folder" : "file";
}
