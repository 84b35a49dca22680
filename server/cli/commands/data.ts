/** `stemma data add|list|check|show|push|fetch|rm`: named data that recipes train on. */
import { resolve } from "node:path";
import type { Command } from "commander";
import { exitStatus, StemmaError } from "../../../shared/errors.js";
import { isUrl } from "../../../shared/data/data-url.js";
import { addStoredDataCommands } from "./data-stored.js";
import { withContext, type CommandContext } from "../context.js";
import { appendValue, parseAssignments } from "../../../shared/cli/command-line.js";

interface AddRequest {
  readonly name: string;
  readonly location: string;
  /** The reader. */
  readonly kind: string;
  readonly set: readonly string[];
  readonly query?: string;
  readonly dryRun: boolean;
}

export function addDataCommands(data: Command): void {
  data
    .command("add")
    .argument("<name>")
    .argument("<location>", "folder, file, or URL of a file; - for a reader that generates its samples")
    .requiredOption(
      "--kind <reader>",
      "how it is read: nasa-battery, mnist, battery-simulated, images-generated, csv, libsvm, idx, image-folder, text-folder, samples, sql",
    )
    .option("--query <sql>", "kind sql: the SELECT whose rows become a table, read as by csv")
    .option(
      "--set <key=value>",
      "a parameter of the reader, such as cells=B0005,B0006 (repeatable)",
      appendValue,
      [],
    )
    .option("--dry-run", "read it, register nothing", false)
    .description("register data: it is read once, and its hash is kept")
    .action(
      async (
        name: string,
        location: string,
        choices: Pick<AddRequest, "kind" | "set" | "query" | "dryRun">,
        command: Command,
      ) => withContext(command, (context) => addCommand({ name, location, ...choices }, context)),
    );

  data
    .command("list")
    .description("registered data")
    .action(async (_: unknown, command: Command) =>
      withContext(command, async ({ output, operations, options }) => {
        const rows = await (await operations()).datasets({ fleet: options.fleet });
        output.printRows(rows, {
          nameOf: (row) => row.name,
          columns: [
            { title: "NAME", value: (row) => row.name },
            { title: "KIND", value: (row) => row.kind },
            { title: "LOCATION", value: (row) => row.location },
            { title: "HASH", value: (row) => row.hash?.slice(0, 16) },
          ],
          empty: "no data is registered; add some with: stemma data add NAME FOLDER --kind nasa-battery",
        });
      }),
    );

  data
    .command("check")
    .argument("<name>")
    .description("read registered data again and compare its hash")
    .action(async (name: string, _: unknown, command: Command) =>
      withContext(command, async ({ output, operations, options }) => {
        const report = await (await operations()).checkDataset({ fleet: options.fleet, name });
        if (!report.ok) process.exitCode = exitStatus.verification;
        output.print({
          data: report,
          names: [name],
          text: `${report.ok ? "unchanged" : "CHANGED"}: ${report.message}`,
        });
      }),
    );
  addStoredDataCommands(data);
}

async function addCommand(
  { name, location, kind, set, query, dryRun }: AddRequest,
  { output, operations, options }: CommandContext,
): Promise<void> {
  const path = location === "-" ? "" : isUrl(location) ? location : resolve(location);
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
  if (dryRun) {
    const { previewData } = await import("../../services/data/preview-data.js");
    const report = await previewData({ kind, location: path, parameters });
    output.print({
      data: report,
      names: [name],
      text: `would register ${name}: ${report.samples} samples, hash ${report.hash.slice(0, 16)}`,
    });
    return;
  }
  const summary = await (
    await operations()
  ).addDataset({ fleet: options.fleet, name, kind, location: path, parameters });
  output.print({
    data: summary,
    names: [name],
    text: `registered ${name}: ${summary.kind} at ${summary.location || "(made by the reader)"}, hash ${summary.hash?.slice(0, 16) ?? "-"}`,
  });
}
