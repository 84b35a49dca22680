/** `stemma data add|list|check|show|push|fetch|rm`: named data that recipes train on. */
import { exitStatus, StemmaError } from "../../../../shared/errors.js";
import { parseAssignments } from "../../../../shared/cli/command-line.js";
import type { CallOutput } from "../../../interface/api/server-operations.js";
import { locationOf } from "../../data-location.js";
import { readReplayFile } from "../../replay-file.js";
import { commands as storedCommands } from "./data-stored.js";
import { listed, plain, repeated } from "../../plain-command.js";
import { counted } from "../../../../shared/printable.js";

const add = plain("addDataset", {
  name: "add",
  about: "register data: it is read once, and its hash is kept",
  takes: {
    name: "",
    location: "folder, file, or URL of a file; - for a reader that generates its samples",
  },
  options: {
    kind: "<reader> how it is read; else as --like says, or seen by looking: nasa-battery, mnist, battery-simulated, images-generated, csv, libsvm, idx, image-folder, text-folder, samples, sql",
    like: {
      text: "<model> read it as the record of a model says, or of an exported file: reader, parameters, split; --set replaces single ones",
      read: String,
    },
    query: "<sql> kind sql: the SELECT whose rows become a table, read as by csv",
    set: repeated("<key=value> a parameter of the reader, such as cells=B0005,B0006 (repeatable)"),
    dryRun: "read it, register nothing",
  },
  run: async ({ name, kind, like: likeWhat, set, query, dryRun, ...given }, { call }) => {
    const location = given.location === "-" ? "" : locationOf(given.location);
    if ((kind === "sql") !== (query !== undefined))
      throw new StemmaError("USAGE", "--kind sql needs --query, and no other kind has one.");
    const parameters = {
      ...Object.fromEntries(
        Object.entries(parseAssignments(set)).map(([key, value]) => [
          key,
          typeof value === "string" && value.includes(",") ? value.split(",") : value,
        ]),
      ),
      ...(query === undefined ? {} : { query: [query] }),
    };
    const file = likeWhat === undefined ? undefined : await readReplayFile(likeWhat);
    const like =
      file !== undefined ? { story: file.story } : likeWhat !== undefined ? { model: likeWhat } : undefined;
    if (dryRun && like === undefined) {
      const { previewData } = await import("../../../services/data/preview-data.js");
      const report = await previewData({ kind, location, parameters });
      return {
        data: report,
        text: [
          `would register ${name}: ${report.kind}, ${counted(report.samples, "sample")}, hash ${report.hash.slice(0, 16)}`,
          ...report.notRead.map((each) => `  ${each}`),
        ].join("\n"),
      };
    }
    const summary = await call("addDataset", { name, kind, location, parameters, like, dryRun });
    const text =
      `${dryRun ? "would register" : "registered"} ${name}: ${summary.kind} at ` +
      `${summary.location || "(made by the reader)"}, hash ${summary.hash?.slice(0, 16) ?? "-"}`;
    const notRead = (summary.notRead ?? []).map((each) => `  ${each}`);
    return { data: summary, text: [text, ...notRead, ...likeLines(summary.like)].join("\n") };
  },
  print: (added, { name }) => ({ ...added, names: [name] }),
});

function likeLines(like: CallOutput<"addDataset">["like"]): readonly string[] {
  if (like === undefined) return [];
  const { of, isSame, differences } = like;
  if (isSame) return [`  the samples that ${of} was trained with`];
  return [
    `  other samples than those that ${of} was trained with:`,
    ...(differences.length === 0
      ? ["  all settings, columns and counts are as recorded, so values in the files differ"]
      : differences.map(({ setting, found, recorded }) => `  ${setting}: ${found} (recorded: ${recorded})`)),
  ];
}

const list = plain("datasets", {
  name: "list",
  about: "registered data",
  print: (rows) =>
    listed(rows, {
      nameOf: (row) => row.name,
      columns: [
        { title: "NAME", value: (row) => row.name },
        { title: "KIND", value: (row) => row.kind },
        { title: "LOCATION", value: (row) => row.location },
        { title: "HASH", value: (row) => row.hash?.slice(0, 16) },
      ],
      empty: "no data is registered; add some with: stemma data add NAME FOLDER --kind nasa-battery",
    }),
});

const check = plain("checkDataset", {
  name: "check",
  about: "read registered data again and compare its hash",
  takes: { name: "<name>" },
  print: ({ ok, message }, { name }) => ({
    names: [name],
    text: `${ok ? "unchanged" : "CHANGED"}: ${message}`,
    ...(ok ? {} : { status: exitStatus.verification }),
  }),
});

export const commands = [add, list, check, ...storedCommands];
