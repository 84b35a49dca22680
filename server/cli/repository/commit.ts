/** `stemma commit`: makes a version of what is staged, by one import, so that nothing of it is ever half there. */
import { currentUser } from "../../../shared/adapters/current-user.js";
import { parseAssignments } from "../../../shared/cli/command-line.js";
import { StemmaError } from "../../../shared/errors.js";
import type { ImportReport } from "../../interface/api/models/import-schemas.js";
import type { VersionSummary } from "../../storage/repository/answers/version-answers.js";
import { checkName, checkTag } from "../../storage/repository/state/naming.js";
import { forceText } from "../force-option.js";
import { plain, repeated, type Choices, type PlainContext, type Printed } from "../plain-command.js";
import { describeImport } from "../import-text.js";
import { nameOf } from "../version-text.js";
import { withEntries } from "./add.js";
import { changedFiles } from "./changed-files.js";
import { commitMembers, currentVersion, newestVersion, type Described } from "./current-version.js";
import { filesOfCommit } from "./files-of-commit.js";
import { requireRepository, type Repository } from "./find-repository.js";
import { wrongName } from "./hyper-parameters.js";
import { idOfCommit, importOfCommit, type CommitToImport } from "./import-commit.js";
import { lookAtFile } from "./look-at-file.js";
import { modelKinds } from "./sniff-kind.js";
import { pathOfEntry, stateOfEntry, withStaging, writeStaging, type StagingList } from "./staging-list.js";
import { verb } from "./verb.js";

const options = {
  message: { text: "<text> what this version is", flags: "-m, --message <text>", required: true },
  name: "<name> name of the model; needed for the first version",
  author: "<text> who made it (default: this user and machine)",
  parent: repeated(
    "<model> what it was made from, instead of the current version (repeatable: the first is compared with)",
  ),
  orphan: "it was made from nothing, and has no parent",
  tag: repeated("<tag> let this tag point to the new version (repeatable)"),
  set: repeated("<key=value> a hyper-parameter, besides those in configurations (repeatable)"),
  all: {
    text: "first add again what changed: staged files, and files of the current version",
    flags: "-a, --all",
  },
  force: forceText,
  dryRun: "report what would be stored, store nothing",
} as const;
type CommitChoices = Choices<unknown, unknown, typeof options>;

export const define = verb(
  plain(null, {
    name: "commit",
    options,
    help: `
The version has the staged model (or, where none is staged, the tensors of the current
version), its checkpoints, the files, and what was measured by the staged logs. Scalars in
configurations (JSON, YAML) and --set are hyper-parameters: stemma list --where lr=0.1.

  stemma commit -m "larger batches" --tag best --set lr=0.1
  stemma model recover curve:2 --checkpoint 200 --file c.safetensors --home .stemma
`,
    run: async (choices, context) => {
      const repository = await requireRepository();
      const { options: given, signal } = context;
      return await withStaging(repository, { waitSeconds: given.waitSeconds, signal }, (list) =>
        commit(repository, list, choices, context),
      );
    },
  }),
);

async function commit(
  repository: Repository,
  staged: StagingList,
  choices: CommitChoices,
  context: PlainContext,
): Promise<Printed> {
  const { call } = context;
  choices.tag.forEach(checkTag);
  if (choices.message.trim() === "")
    throw new StemmaError("USAGE", "The message is empty. Say with -m what this version is.");
  const named = choices.name === undefined ? staged : { ...staged, name: choices.name };
  const current = await currentVersion(call, named);
  const list = await requireAsStaged(
    repository,
    choices.all ? await withChanges(repository, { list: staged, current, call }) : staged,
    choices.all,
  );
  refuseNothing(list, choices);
  if (list.needsModel === true && !list.entries.some(({ kind }) => modelKinds.has(kind)))
    throw new StemmaError(
      "USAGE",
      "The copy was made without weights. Add the trained model, and commit then.",
    );
  const name = nameOfCommit(choices.name ?? list.name ?? current.name);
  const parents = await parentsOf(call, choices, current.version);
  const parameters = parseAssignments(choices.set);
  const wrong = wrongName(Object.keys(parameters));
  if (wrong !== undefined)
    throw new StemmaError("USAGE", `--set is not valid: ${wrong}. Choose another name.`);
  const files = await filesOfCommit(repository, { list, base: parents[0], parameters, call });
  const prepared: CommitToImport = {
    ...files,
    id: idOfCommit(files.content, choices.parent.length > 0 ? parents : []),
    name,
    parents,
    message: choices.message,
    author: choices.author ?? currentUser(),
    force: choices.force,
    dryRun: choices.dryRun,
  };
  const same = await sameCommit(call, prepared);
  const report = same === undefined ? await importOfCommit(repository, prepared, context) : undefined;
  const version = same ?? report?.summary;
  if (choices.dryRun || version === undefined) return dryAnswer(report, same);
  for (const tag of choices.tag) await call("tag", { model: version.versionId, tag });
  await writeStaging(repository, { format: 1, name, entries: [], data: [], forgotten: [] });
  return answer(version, report, prepared);
}

/** The list with files of the current version that changed: `git commit --all` takes these too. */
async function withChanges(
  repository: Repository,
  question: Parameters<typeof changedFiles>[1],
): Promise<StagingList> {
  let { list } = question;
  for (const { path, kind } of await changedFiles(repository, question)) {
    const look = await lookAtFile(repository, pathOfEntry(repository, { path }), {
      kind,
      iteration: undefined,
    });
    list = withEntries(list, [look.entry]);
  }
  // A commit that is cut short finds the same when it is run again.
  if (list !== question.list) await writeStaging(repository, list);
  return list;
}

/** @throws USAGE */
function refuseNothing({ entries, data, forgotten, base }: StagingList, { set }: CommitChoices): void {
  if (entries.length + data.length + forgotten.length + set.length > 0 || base !== undefined) return;
  throw new StemmaError("USAGE", "Nothing is staged. Add files with `stemma add FILE…`, and commit then.");
}

/** @throws USAGE where nobody named the model */
function nameOfCommit(name: string | undefined): string {
  if (name !== undefined) return checkName("model", name);
  throw new StemmaError("USAGE", "The first version needs a name for its model. Add --name NAME.");
}

/** The list with files that are as they were staged. @throws FILE_CHANGED, FILE_MISSING */
async function requireAsStaged(
  repository: Repository,
  list: StagingList,
  addsAgain: boolean,
): Promise<StagingList> {
  let current = list;
  for (const entry of list.entries) {
    const state = await stateOfEntry(repository, entry);
    if (state === "staged") continue;
    if (state === "missing")
      throw new StemmaError(
        "FILE_MISSING",
        `${entry.path} is staged and is not there any more. Nothing was committed. Bring it back, or take it back with ` +
          "`stemma add --unstage`.",
        { path: entry.path },
      );
    if (!addsAgain)
      throw new StemmaError(
        "FILE_CHANGED",
        `${entry.path} changed since it was staged. Nothing was committed. Add it again, or commit with --all.`,
        { path: entry.path },
      );
    const { kind, iteration } = entry;
    const look = await lookAtFile(repository, pathOfEntry(repository, entry), { kind, iteration });
    current = withEntries(current, [look.entry]);
  }
  if (current !== list) await writeStaging(repository, current);
  return current;
}

/** @throws MODEL_NOT_FOUND, USAGE */
async function parentsOf(
  call: PlainContext["call"],
  { parent, orphan }: CommitChoices,
  current: VersionSummary | undefined,
): Promise<readonly Described[]> {
  if (orphan && parent.length > 0)
    throw new StemmaError("USAGE", "--orphan and --parent exclude each other. Leave one of them out.");
  if (orphan) return [];
  const named = parent.length > 0 ? parent : current === undefined ? [] : [current.versionId];
  return await Promise.all(named.map((model) => call("model", { model })));
}

/** The newest version of the name, where it was made of the very same: a commit that was cut short after its import. */
async function sameCommit(
  call: PlainContext["call"],
  { name, id }: Pick<CommitToImport, "name" | "id">,
): Promise<VersionSummary | undefined> {
  const newest = await newestVersion(call, name);
  if (newest === undefined || newest.state === "retired") return undefined;
  const { metadata } = await call("model", { model: newest.versionId });
  return metadata?.[commitMembers.id] === id ? newest : undefined;
}

function dryAnswer(report: ImportReport | undefined, same: VersionSummary | undefined): Printed {
  return {
    data: report ?? { same: same?.versionId },
    names: [],
    text:
      report === undefined
        ? `nothing would be saved: ${same === undefined ? "" : nameOf(same)} is this commit already`
        : `would be saved as ${describeImport(report)}`,
  };
}

function answer(version: VersionSummary, report: ImportReport | undefined, made: CommitToImport): Printed {
  const { course, attachments } = made;
  const id = version.versionId.slice(0, 12);
  const kept = course.measurements.length;
  return {
    data: {
      versionId: version.versionId,
      name: version.name,
      version: version.version,
      isNew: report !== undefined,
    },
    names: [nameOf(version)],
    text:
      report === undefined
        ? `${nameOf(version)} (${id}) is this commit already: nothing more was saved`
        : [
            `committed ${nameOf(version)} (${id}), ${describeImport(report)}`,
            ...(attachments.length === 0
              ? []
              : [`files: ${attachments.map((file) => file.name).join(", ")}`]),
            ...(kept === 0
              ? []
              : [
                  `measured: ${kept}${kept < course.iterations ? ` of ${course.iterations}` : ""} iterations`,
                ]),
          ].join("\n"),
  };
}
