/** `stemma copy`: scaffolds a new model from a version: network, configuration and files, with its weights or not. */
import { mkdir, readFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { formatBytes } from "../../../shared/cli/output.js";
import { StemmaError } from "../../../shared/errors.js";
import { writeDurably } from "../../../shared/files/durable-write.js";
import { fileError } from "../../../shared/files/file-error.js";
import { nodeFiles } from "../../../shared/files/node-files.js";
import { endingOf } from "../../../shared/model/kept-file.js";
import { checkName } from "../../storage/repository/state/naming.js";
import { listed, plain, type Choices, type PlainContext, type Printed } from "../plain-command.js";
import { refuseExisting, writeStreamDurably } from "../stream-file.js";
import { nameOf } from "../version-text.js";
import { withEntries } from "./add.js";
import { trackedFiles, type Described } from "./current-version.js";
import { entryAt, pathBelow, requireRepository, shownPath, type Repository } from "./find-repository.js";
import { carriedKinds, type StagedKind } from "./sniff-kind.js";
import {
  emptyList,
  seeFile,
  withStaging,
  writeStaging,
  type StagedEntry,
  type StagingList,
} from "./staging-list.js";
import { verb } from "./verb.js";

const options = {
  weights: { text: "without the weights: they are to be trained from scratch", flags: "--no-weights" },
  force: "overwrite files that are there and differ",
} as const;

export const define = verb(
  plain(null, {
    name: "copy",
    takes: { model: "<version> name:version, name:tag or id", name: "<name> name of the new model" },
    options,
    help: `
Writes NAME.safetensors, the network and the files of the version into the working folder
(files go where they were), and stages them. The next commit makes NAME:1, which came from
the version. Change what you like before, and add it again.

  stemma copy curve:2 wide
  stemma copy curve:2 fresh --no-weights
`,
    run: async ({ model, name, ...choices }, context) => {
      const repository = await requireRepository();
      checkName("model", name);
      const { options: given, signal } = context;
      return await withStaging(repository, { waitSeconds: given.waitSeconds, signal }, (list) =>
        copy(repository, list, { model, name, ...choices }, context),
      );
    },
  }),
);

type CopyChoices = Choices<unknown, unknown, typeof options> & {
  readonly model: string;
  readonly name: string;
};

async function copy(
  repository: Repository,
  list: StagingList,
  { model, name, weights, force }: CopyChoices,
  context: PlainContext,
): Promise<Printed> {
  if (list.entries.length > 0)
    throw new StemmaError(
      "USAGE",
      "Files are staged already. Commit them, or take them back with `stemma add --unstage`, and copy then.",
    );
  const described = await context.call("model", { model });
  const files = await filesOf(repository, { described, name, context });
  const ending = described.file === undefined ? ".safetensors" : endingOf(described.file.name);
  const target = { path: join(repository.root, `${fileNameOf(name)}${ending}`), force };
  const modelKind: StagedKind = described.file === undefined ? "model" : "file";
  for (const file of files) await refuseOther(file, force);
  if (weights) await refuseExisting(target.path, force);
  for (const file of files) await writeFileOf(repository, file);
  if (weights) await writeWeights(described, target, context);
  const entries = await Promise.all(
    [...files, ...(weights ? [{ ...target, kind: modelKind }] : [])].map(async ({ path, kind }) => ({
      ...(await seeFile(path)),
      kind,
      path: shownPath(repository, path),
    })),
  );
  await writeStaging(
    repository,
    withEntries(
      { ...emptyList, name, base: described.versionId, ...(weights ? {} : { needsModel: true }) },
      entries,
    ),
  );
  return answer(described, name, entries);
}

interface WeightsTarget {
  readonly path: string;
  readonly force: boolean;
}

/** @throws MODEL_RETIRED, FILE_EXISTS */
async function writeWeights(
  { versionId, file }: Described,
  { path, force }: WeightsTarget,
  { operations, fleet, output, signal }: PlainContext,
): Promise<void> {
  const stream = await (
    await operations()
  ).recover(
    { fleet, model: versionId, story: "omit", ...(file === undefined ? {} : { form: "original" }) },
    { signal },
  );
  await writeStreamDurably(stream, path, { overwrite: force }, (bytes) => {
    output.progress(`recovering: ${formatBytes(bytes)} of ${formatBytes(stream.byteLength)}`);
  });
  output.endProgress();
}

function answer(described: Described, name: string, entries: readonly StagedEntry[]): Printed {
  return {
    ...listed(entries, {
      nameOf: ({ path }) => path,
      columns: [
        { title: "STAGED AS", value: ({ kind }) => kind },
        { title: "FILE", value: ({ path }) => path },
        { title: "SIZE", value: ({ byteLength }) => formatBytes(byteLength), align: "right" },
      ],
      empty: "no files",
    }),
    data: { from: described.versionId, name, files: entries },
    text: `${name} begins from ${nameOf(described)}; the next commit makes a version of it`,
  };
}

interface CopiedFile {
  readonly path: string;
  readonly kind: StagedKind;
  readonly bytes: Uint8Array;
}

/** The name of a model as that of a file. */
function fileNameOf(name: string): string {
  return name.replace(/[^\p{L}\p{N}._-]/gu, "_").replace(/^\./, "_");
}

interface FilesQuestion {
  readonly described: Described;
  readonly name: string;
  readonly context: PlainContext;
}

/** The network and the files of a version; where none describes the network, the model.json of its architecture. */
async function filesOf(
  { root }: Repository,
  { described, name, context: { call } }: FilesQuestion,
): Promise<readonly CopiedFile[]> {
  const { versionId: model, record } = described;
  const files: CopiedFile[] = [];
  for (const { name: file, kind, path } of trackedFiles(described)) {
    if (!carriedKinds.has(kind)) continue;
    const { base64 } = await call("attachment", { model, file });
    files.push({
      kind,
      path: pathBelow(root, path) ?? pathOfName(root, file),
      bytes: Buffer.from(base64, "base64"),
    });
  }
  if (record.kind !== "architecture" || files.some(({ kind }) => kind === "network")) return files;
  const json = await call("modelJson", { model });
  return [
    ...files,
    {
      kind: "network",
      path: join(root, `${fileNameOf(name)}.model.json`),
      bytes: Buffer.from(JSON.stringify(json)),
    },
  ];
}

/** A file that was outside of the repository where it was committed comes into the root. @throws NOT_ALLOWED */
function pathOfName(root: string, file: string): string {
  const path = pathBelow(root, file);
  if (path !== undefined) return path;
  throw new StemmaError(
    "NOT_ALLOWED",
    `The version's file ${JSON.stringify(file)} has a name that is not written.`,
  );
}

/** @throws FILE_EXISTS, unless what is there is the same, as after a copy that was cut short */
async function refuseOther({ path, bytes }: CopiedFile, force: boolean): Promise<void> {
  if (force || (await entryAt(path)) === undefined) return;
  const there = await readFile(path).catch(() => undefined);
  if (there !== undefined && Buffer.from(there).equals(bytes)) return;
  throw new StemmaError(
    "FILE_EXISTS",
    `${path} is not that of the version, and was left as it is. Commit it or move it away; --force overwrites it.`,
    { path },
  );
}

/** Refuses folders that are links: a version of somebody else may have been made for one. @throws NOT_ALLOWED */
async function writeFileOf({ root }: Repository, { path, bytes }: CopiedFile): Promise<void> {
  const folder = dirname(path);
  for (let above = folder; above !== root; above = dirname(above))
    if ((await entryAt(above)) === "link")
      throw new StemmaError(
        "NOT_ALLOWED",
        `${above} is a link, and files of versions are not written through one.`,
      );
  try {
    await mkdir(folder, { recursive: true });
  } catch (error) {
    throw fileError(error, "make the folder", folder);
  }
  await writeDurably(nodeFiles(), path, bytes);
}
