/** `stemma status`: the model that is worked on, what is staged, and what changed since. */
import { formatBytes } from "../../../shared/cli/output.js";
import { listed, plain, type Printed } from "../plain-command.js";
import { nameOf, savedOf, stateOf } from "../version-text.js";
import { textOfKind } from "./add.js";
import { changedFiles } from "./changed-files.js";
import { currentVersion, type Current } from "./current-version.js";
import { requireRepository, type Repository } from "./find-repository.js";
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
      const changed = await changedFiles(repository, { list, current, call });
      const rows = [
        ...(await stagedRows(repository, list)),
        ...changed.map(({ path: file, ...each }) => ({ ...each, file, state: states.unstaged })),
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
        `saved ${savedOf(version)}`;
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
