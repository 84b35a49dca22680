/** `stemma add`: stages files for the next commit, and takes them back. */
import { basename, resolve } from "node:path";
import { StemmaError } from "../../../shared/errors.js";
import { formatBytes } from "../../../shared/cli/output.js";
import { listed, plain, repeated, type PlainContext, type Printed } from "../plain-command.js";
import { wholeNumber } from "../whole-number.js";
import { currentVersion, trackedFiles } from "./current-version.js";
import { registeredData } from "./files-of-commit.js";
import { requireRepository, shownPath, type Repository } from "./find-repository.js";
import { lookAtFile, type Look, type LookOptions } from "./look-at-file.js";
import { attachedKinds, modelKinds, stagedKinds, type StagedKind } from "./sniff-kind.js";
import { withStaging, writeStaging, type StagedEntry, type StagingList } from "./staging-list.js";
import { verb } from "./verb.js";

const options = {
  as: {
    text: "<kind> what the files are, where name and content do not say it: " + stagedKinds.join(", "),
    choices: stagedKinds,
  },
  iteration: {
    text: "<n> of a checkpoint: the training steps before it, where its name does not say it",
    read: (text: string): number => wholeNumber("--iteration", text),
  },
  data: repeated("<name> registered data that the training used (stemma data list; repeatable)"),
  unstage: "take the files back from the next commit; without files, everything",
  forget: "the next version does not take these files over from the current one",
} as const;

export const define = verb(
  plain(null, {
    name: "add",
    takes: { files: "[files...]" },
    options,
    help: `
A commit takes one model (.safetensors, .pt), checkpoints (checkpoint-200.safetensors),
the optimizer's state, the network (tfjs model.json), scripts, configurations, notes,
training logs (JSON lines, CSV, TensorBoard), and data by their hash.
Network, scripts, configurations and notes stay in later versions until they are
added again or forgotten. Bytes are read by the commit: until then keep them as they are.

  stemma add model.safetensors train.py config.json train.csv
  stemma add --data mnist
  stemma add --as note results.txt
  stemma add --unstage train.py
`,
    run: async ({ files, ...choices }, context) => {
      const repository = await requireRepository();
      const { waitSeconds } = context.options;
      const { as: kind, iteration, data } = choices;
      const paths = (files ?? []).map((file) => resolve(file));
      return await withStaging(repository, { waitSeconds, signal: context.signal }, async (list) => {
        if (choices.unstage) return await unstage(repository, list, { paths, data });
        if (choices.forget) return await forget(repository, list, paths, context);
        return await stage(repository, list, { paths, data, kind, iteration }, context);
      });
    },
  }),
);

interface Staged {
  readonly paths: readonly string[];
  readonly data: readonly string[];
}

async function stage(
  repository: Repository,
  list: StagingList,
  { paths, data, kind, iteration }: Staged & Partial<LookOptions>,
  { call }: PlainContext,
): Promise<Printed> {
  if (paths.length === 0 && data.length === 0)
    throw new StemmaError("USAGE", "Name the files to add, or data with --data NAME.");
  const looks: Look[] = [];
  for (const path of paths) looks.push(await lookAtFile(repository, path, { kind, iteration }));
  // Names that the fleet does not know are refused now, and not by the commit.
  await registeredData(call, data);
  const next = withEntries(
    list,
    looks.map(({ entry }) => entry),
  );
  await writeStaging(repository, { ...next, data: [...new Set([...list.data, ...data])] });
  const rows = [
    ...looks.map(({ entry, about }) => ({
      kind: textOfKind(entry),
      file: entry.path,
      bytes: entry.byteLength,
      about,
    })),
    ...data.map((name) => ({ kind: "data", file: name, bytes: undefined, about: "registered" })),
  ];
  return listed(rows, {
    nameOf: ({ file }) => file,
    columns: [
      { title: "STAGED AS", value: (row) => row.kind },
      { title: "FILE", value: (row) => row.file },
      {
        title: "SIZE",
        value: (row) => (row.bytes === undefined ? "-" : formatBytes(row.bytes)),
        align: "right",
      },
      { title: "IN IT", value: (row) => row.about || "-" },
    ],
  });
}

/** "checkpoint after 200 steps" for a checkpoint. */
export function textOfKind({ kind, iteration }: Pick<StagedEntry, "kind" | "iteration">): string {
  return iteration === undefined ? kind : `${kind} ${iteration}`;
}

/** A file that is staged again replaces what was staged of it; there is one model and one optimizer's state. */
export function withEntries(list: StagingList, added: readonly StagedEntry[]): StagingList {
  const single: readonly StagedKind[] = ["optimizer", "network"];
  let entries: readonly StagedEntry[] = list.entries;
  for (const entry of added) {
    const replaces = (other: StagedEntry): boolean =>
      other.path === entry.path ||
      (single.includes(entry.kind) && other.kind === entry.kind) ||
      (modelKinds.has(entry.kind) && modelKinds.has(other.kind)) ||
      (entry.kind === "checkpoint" && other.kind === "checkpoint" && other.iteration === entry.iteration);
    entries = [...entries.filter((other) => !replaces(other)), entry];
  }
  refuseSameNames(entries);
  const names = added.map(({ path }) => basename(path));
  return {
    ...list,
    entries: [...entries],
    forgotten: list.forgotten.filter((name) => !names.includes(name)),
  };
}

/** A version names its files without their folders. @throws USAGE */
function refuseSameNames(entries: readonly StagedEntry[]): void {
  const seen = new Map<string, string>();
  for (const { kind, path } of entries) {
    if (!attachedKinds.has(kind) && kind !== "data") continue;
    const name = basename(path);
    if (!/^[^\p{Cc}\p{Cs}/\\]{1,200}$/u.test(name))
      throw new StemmaError(
        "USAGE",
        `${JSON.stringify(name)} is not a name that a version can keep: it has control characters, a backslash, or ` +
          "more than 200 characters. Rename the file.",
      );
    const other = seen.get(name);
    if (other !== undefined)
      throw new StemmaError(
        "USAGE",
        `${other} and ${path} have the same name, and a version has one file of a name. Rename one of them.`,
      );
    seen.set(name, path);
  }
}

async function unstage(repository: Repository, list: StagingList, { paths, data }: Staged): Promise<Printed> {
  const isAll = paths.length === 0 && data.length === 0;
  const names = paths.map((path) => shownPath(repository, path));
  const taken = list.entries.filter(({ path }) => isAll || names.includes(path));
  const absent = names.find((name) => !list.entries.some(({ path }) => path === name));
  if (absent !== undefined) throw notStaged(absent);
  // Without a copy's files, nothing is left of the copy either.
  const { base: _, needsModel: __, name: ___, ...rest } = list;
  await writeStaging(repository, {
    ...(isAll && list.base !== undefined ? rest : list),
    entries: list.entries.filter((entry) => !taken.includes(entry)),
    data: list.data.filter((name) => !isAll && !data.includes(name)),
    forgotten: isAll ? [] : list.forgotten,
  });
  const shown = [...taken.map(({ path }) => path), ...(isAll ? list.data : data)];
  return {
    data: { unstaged: shown },
    names: shown,
    text: shown.length === 0 ? "nothing was staged" : `no longer staged: ${shown.join(", ")}`,
  };
}

function notStaged(name: string): StemmaError {
  return new StemmaError("NOT_FOUND", `${name} is not staged. \`stemma status\` shows what is.`);
}

async function forget(
  repository: Repository,
  list: StagingList,
  paths: readonly string[],
  { call }: PlainContext,
): Promise<Printed> {
  const { version } = await currentVersion(call, list);
  const kept = version === undefined ? [] : trackedFiles(await call("model", { model: version.versionId }));
  const names = paths.map((path) => {
    const shown = shownPath(repository, path);
    const found =
      kept.find((each) => each.path === shown) ?? kept.find(({ name }) => name === basename(path));
    if (found === undefined)
      throw new StemmaError("NOT_FOUND", `The current version has no file ${shown}. See \`stemma status\`.`);
    return found.name;
  });
  if (names.length === 0) throw new StemmaError("USAGE", "Name the files to forget.");
  await writeStaging(repository, { ...list, forgotten: [...new Set([...list.forgotten, ...names])] });
  return {
    data: { forgotten: names },
    names,
    text: `the next version does not have: ${names.join(", ")}; files on the disk and earlier versions stay`,
  };
}
