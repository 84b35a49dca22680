/** Imports what a commit is made of. */
import { createHash } from "node:crypto";
import { defined } from "../../../shared/defined.js";
import { isStemmaError, StemmaError } from "../../../shared/errors.js";
import type { ImportReport } from "../../interface/api/models/import-schemas.js";
import type { ImportStream } from "../../interface/api/server-operations.js";
import { withImport, type NamedPart, type OpenedImport } from "../import-files.js";
import type { PlainContext } from "../plain-command.js";
import { commitMembers, type Described } from "./current-version.js";
import type { FilesOfCommit } from "./files-of-commit.js";
import type { Repository } from "./find-repository.js";
import { modelKinds } from "./sniff-kind.js";
import { pathOfEntry } from "./staging-list.js";

export interface CommitToImport extends FilesOfCommit {
  readonly id: string;
  readonly name: string;
  /** The first is compared with; none: it was made from nothing. */
  readonly parents: readonly Described[];
  readonly message: string;
  readonly author: string;
  readonly force: boolean;
  readonly dryRun: boolean;
}

/** The identity of a commit: what is in it, and the parents that were named. */
export function idOfCommit(content: string, parents: readonly Described[]): string {
  const parts = [content, ...parents.map(({ versionId }) => versionId)];
  return createHash("sha256").update(parts.join("\n")).digest("hex");
}

/** @throws USAGE without any tensors; also what an import throws */
export async function importOfCommit(
  repository: Repository,
  commit: CommitToImport,
  context: PlainContext,
): Promise<ImportReport> {
  const model = modelOf(commit);
  const parts = partsOf(repository, commit);
  if (model !== undefined)
    return await withImport(
      { file: pathOfEntry(repository, model), parts, isKept: model.kind === "file" },
      (opened) => send(opened, commit, context),
    );
  const stream = await tensorsBefore(commit, parts, context);
  return await send({ stream, parts: [], architecture: undefined, rest: [] }, commit, context);
}

async function send(
  { stream, parts, architecture, rest }: Pick<OpenedImport, "stream" | "parts" | "architecture" | "rest">,
  commit: CommitToImport,
  context: PlainContext,
): Promise<ImportReport> {
  const { operations, fleet, signal } = context;
  const [base, ...further] = commit.parents;
  signal.throwIfAborted();
  return await (
    await operations()
  )
    .import(stream, {
      fleet,
      name: commit.name,
      architecture: commit.network ?? architecture ?? (await networkBefore(base, context)),
      metadata: {
        ...commit.metadata,
        [commitMembers.message]: commit.message,
        [commitMembers.author]: commit.author,
        [commitMembers.id]: commit.id,
      },
      attachments: [...commit.attachments, ...rest],
      measurements: [...commit.course.measurements],
      force: commit.force,
      dryRun: commit.dryRun,
      ...defined({
        base: base?.versionId,
        fileName: modelOf(commit)?.path,
        furtherBases: further.length === 0 ? undefined : further.map(({ versionId }) => versionId),
        parts: parts.length === 0 ? undefined : parts.map((part) => ({ ...part })),
      }),
    })
    .catch((error: unknown) => {
      throw explained(error, commit);
    });
}

function modelOf({ entries }: FilesOfCommit): FilesOfCommit["entries"][number] | undefined {
  return entries.find(({ kind }) => modelKinds.has(kind));
}

/** Checkpoints in their order, then the optimizer's state. */
function partsOf(repository: Repository, { entries }: FilesOfCommit): readonly NamedPart[] {
  return entries
    .filter(({ kind }) => kind === "checkpoint" || kind === "optimizer")
    .sort((one, other) => (one.iteration ?? Infinity) - (other.iteration ?? Infinity))
    .map((entry) => ({
      ...defined({ iteration: entry.iteration }),
      fileName: pathOfEntry(repository, entry),
    }));
}

/** The tensors of the version before it, where no model is staged. */
async function tensorsBefore(
  { parents: [base] }: CommitToImport,
  parts: readonly NamedPart[],
  { operations, fleet, signal }: PlainContext,
): Promise<ImportStream> {
  if (parts.length > 0 || base === undefined)
    throw new StemmaError(
      "USAGE",
      parts.length > 0
        ? "Checkpoints or an optimizer's state are staged without their model. Add the model's file too."
        : "No model is staged, and no earlier version has tensors to take. Add a .safetensors file.",
    );
  return await (await operations()).recover({ fleet, model: base.versionId, story: "omit" }, { signal });
}

/** The model.json of the architecture of the version before it. */
async function networkBefore(
  base: Described | undefined,
  { call }: PlainContext,
): Promise<string | undefined> {
  if (base?.record.kind !== "architecture") return undefined;
  return JSON.stringify(await call("modelJson", { model: base.versionId }));
}

/** Errors that follow from what a commit takes over from the version before it, with the way out. */
function explained(error: unknown, { network }: CommitToImport): unknown {
  if (isStemmaError(error, "STORY_MISMATCH"))
    return new StemmaError(
      "STORY_MISMATCH",
      `${error.message} The version before it was named as base: commit with --orphan, or name another --parent.`,
      { cause: error },
    );
  if (!isStemmaError(error, "ARCHITECTURE_MISMATCH")) return error;
  const which = network === undefined ? "the version before it has" : "is staged or was committed before";
  return new StemmaError(
    "ARCHITECTURE_MISMATCH",
    `${error.message} The network that ${which} was taken. Stage the network of this model, or leave the old one ` +
      "out: stemma add --forget, or commit with --orphan.",
    { cause: error },
  );
}
