/** The version that a repository's next commit begins from, and the files that it keeps. */
import { isStemmaError, StemmaError } from "../../../shared/errors.js";
import type { VersionSummary } from "../../storage/repository/answers/version-answers.js";
import type { CallOutput } from "../../interface/api/server-operations.js";
import { keptStoryName } from "../../services/data/kept-story.js";
import type { PlainContext } from "../plain-command.js";
import { stagedKinds, type StagedKind } from "./sniff-kind.js";
import { emptyList, readStaging, type StagingList } from "./staging-list.js";
import { findRepository } from "./find-repository.js";

export type Described = CallOutput<"model">;

/** Beginnings of metadata that commits write themselves. */
export const commitMembers = {
  message: "commit.message",
  author: "commit.author",
  /** Says what was staged, so that the same commit twice is found. */
  id: "commit.id",
} as const;
const fileMember = "file.";
export const dataMember = "data.";
const reserved = /^(commit|file|data|metric|training|trainer|story)\./;

export function isReservedName(name: string): boolean {
  return reserved.test(name);
}

/** A file that is kept with a version. */
export interface TrackedFile {
  readonly name: string;
  readonly kind: StagedKind;
  /** Relative to the root of the repository, or absolute: where it was when it was committed. */
  readonly path: string;
  /** Object id. */
  readonly hash: string;
}

export function memberOfFile(
  name: string,
  { kind, path }: Pick<TrackedFile, "kind" | "path">,
): [string, string] {
  return [`${fileMember}${name}`, `${kind} ${path}`];
}

/** Files of a version but for a story, which is of it alone; those that another command attached are notes. */
export function trackedFiles({ record, metadata = {} }: Described): readonly TrackedFile[] {
  const files = (record.objects.attachments ?? []).filter(({ name }) => name !== keptStoryName);
  return files.map(({ name, hash }) => {
    const [, kind, path] = /^(\S+) ([^]+)$/.exec(String(metadata[`${fileMember}${name}`] ?? "")) ?? [];
    const known = stagedKinds.find((each) => each === kind);
    return { name, hash, kind: known ?? "note", path: known === undefined ? name : (path ?? name) };
  });
}

/** The newest version of a name, or of all; undefined where the fleet has none. */
export async function newestVersion(
  call: PlainContext["call"],
  name: string | undefined,
): Promise<VersionSummary | undefined> {
  try {
    const { versions } = await call("listModels", {
      ...(name === undefined ? {} : { name }),
      order: "newest",
      limit: 1,
    });
    return versions[0];
  } catch (error) {
    // Nothing was committed yet: the home has no such fleet, or is not begun.
    if (isStemmaError(error, "NOT_FOUND")) return undefined;
    throw error;
  }
}

/** The model that is worked on, and the version that the next one begins from. */
export interface Current {
  readonly name: string | undefined;
  readonly version: VersionSummary | undefined;
}

export async function currentVersion(call: PlainContext["call"], list: StagingList): Promise<Current> {
  const newest = await newestVersion(call, list.name);
  const name = list.name ?? newest?.name;
  if (list.base === undefined) return { name, version: newest };
  return { name, version: await call("model", { model: list.base }) };
}

/**
 * The version that a verb means where it names none: the current one of the working folder's repository; on a fleet
 * without such a folder, the newest.
 * @throws NOT_FOUND where nothing was committed
 */
export async function currentOfFolder(call: PlainContext["call"]): Promise<string> {
  const repository = await findRepository();
  const list = repository === undefined ? emptyList : await readStaging(repository);
  const { version } = await currentVersion(call, list);
  if (version !== undefined) return version.versionId;
  throw new StemmaError(
    "NOT_FOUND",
    "Nothing was committed yet. Commit a model first: stemma add, stemma commit.",
  );
}

/** The statements of a commit in a version's metadata; all that are not Stemma's own are hyper-parameters. */
export function detailsOf(metadata: NonNullable<Described["metadata"]>): {
  readonly message: string | undefined;
  readonly author: string | undefined;
  readonly parameters: NonNullable<Described["metadata"]>;
} {
  const textOf = (name: string): string | undefined =>
    metadata[name] === undefined ? undefined : String(metadata[name]);
  return {
    message: textOf(commitMembers.message),
    author: textOf(commitMembers.author),
    parameters: Object.fromEntries(Object.entries(metadata).filter(([name]) => !isReservedName(name))),
  };
}
