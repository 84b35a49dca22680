/** `stemma status`: the model that is worked on, what is staged, and what changed since. */
import { readFile, stat } from "node:fs/promises";
import { objectId } from "../../../shared/tensor/hash.js";
import { formatBytes, formatTime } from "../../../shared/cli/output.js";
import { listed, plain, type PlainContext, type Printed } from "../plain-command.js";
import { nameOf, stateOf } from "../version-text.js";
import { textOfKind } from "./add.js";
import { currentVersion, trackedFiles, type Current } from "./current-version.js";
import { pathBelow, requireRepository, type Repository } from "./find-repository.js";
import { maxAttachedBytes } from "./look-at-file.js";
import { readStaging, stateOfEntry, type StagingList } from "./staging-list.js";
import { verb } from "./verb.js";

interface StatusRow {
  readonly state: string;
  readonly kind: string;
  readonly file: string;
  readonly byteLength?: number;
}

const states = {
  staged: "staged",
  changed: "changed since staged",
  missing: "missing",
  forgotten: "forgotten",
  unstaged: "changed, not staged",
} as const;

export const define = verb(
  plain(null, {
    name: "status",
    help: `
"changed since staged" and "missing" keep a commit from being made: add the file again,
or take it back (stemma add --unstage). "changed, not staged": the file differs from what
the current version has, and the next one takes over that.
`,
    run: async (_, { call }) => {
      const repository = await requireRepository();
      const list = await readStaging(repository);
      const current = await currentVersion(call, list);
      const rows = [
        ...(await stagedRows(repository, list)),
        ...(await trackedRows(repository, { list, current, call })),
      ];
      return statusText(repository, current, rows);
    },
  }),
);

function statusText(repository: Repository, { name, version }: Current, rows: readonly StatusRow[]): Printed {
  const at =
    version === undefined
      ? "nothing committed yet"
      : `at ${nameOf(version)} (${version.versionId.slice(0, 12)}, ${stateOf(version)}), ` +
        `saved ${formatTime(version.record.savedAtMs)}`;
  return {
    ...listed(rows, {
      nameOf: ({ file }) => file,
      columns: [
        { title: "STATE", value: (row) => row.state },
        { title: "KIND", value: (row) => row.kind },
        { title: "FILE", value: (row) => row.file },
        {
          title: "SIZE",
          value: (row) => (row.byteLength === undefined ? "-" : formatBytes(row.byteLength)),
          align: "right",
        },
      ],
      empty: "nothing staged; add files with: stemma add FILE…",
    }),
    data: { root: repository.root, name: name ?? null, version: version?.versionId ?? null, files: rows },
    text: `model ${name ?? "not named yet"}, ${at}`,
  };
}

async function stagedRows(repository: Repository, list: StagingList): Promise<readonly StatusRow[]> {
  const rows: StatusRow[] = [];
  for (const entry of list.entries)
    rows.push({
      state: states[await stateOfEntry(repository, entry)],
      kind: textOfKind(entry),
      file: entry.path,
      byteLength: entry.byteLength,
    });
  return [
    ...rows,
    ...list.data.map((file) => ({ state: states.staged, kind: "data", file })),
    ...list.forgotten.map((file) => ({ state: states.forgotten, kind: "file", file })),
  ];
}

interface TrackedQuestion {
  readonly list: StagingList;
  readonly current: Current;
  readonly call: PlainContext["call"];
}

/** Files of the current version that are not staged, and are other than it has them. One that is not there is none. */
async function trackedRows(
  { root }: Repository,
  { list, current: { version }, call }: TrackedQuestion,
): Promise<readonly StatusRow[]> {
  if (version === undefined || version.state === "retired") return [];
  const rows: StatusRow[] = [];
  for (const { kind, path, hash, name } of trackedFiles(await call("model", { model: version.versionId }))) {
    if (list.entries.some((entry) => entry.path === path) || list.forgotten.includes(name)) continue;
    const file = pathBelow(root, path);
    const found = file === undefined ? undefined : await stat(file).catch(() => undefined);
    if (file === undefined || found?.isFile() !== true || found.size > maxAttachedBytes) continue;
    const bytes = await readFile(file).catch(() => undefined);
    if (bytes !== undefined && objectId("attachment", bytes) !== hash)
      rows.push({ state: states.unstaged, kind, file: path, byteLength: bytes.length });
  }
  return rows;
}
