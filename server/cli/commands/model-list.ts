/** `stemma model list`: a fleet's models, all of them or a page. */
import type { Command } from "commander";
import { appendValue } from "../../../shared/cli/command-line.js";
import { modelOperations } from "../../interface/api/models/model-definitions.js";
import type { OperationInput, ServerOperations } from "../../interface/api/server-operations.js";
import type { VersionSummary } from "../../storage/repository/answers/version-answers.js";
import { withContext } from "../context.js";
import { inputOption } from "../input-option.js";
import { nameOf, versionColumns } from "../version-text.js";

interface ListChoices {
  readonly name?: string;
  readonly device?: string;
  readonly line?: string;
  readonly all: boolean;
  readonly where: readonly string[];
  readonly limit?: number;
  readonly offset?: number;
}

const help = `
Without --limit every model is listed. With it only the newest are listed, and
--offset skips that many of the newest.

  stemma model list --where accuracy>=0.9 --where note=winter
  stemma model list --limit 20 --offset 20      the 20 before the newest 20
`;

/** Models per request when all are listed. */
const pageSize = 1000;

export function addModelListCommand(model: Command): void {
  const { shape } = modelOperations.listModels.query;
  model
    .command("list")
    .description("list models, newest versions last")
    .addOption(inputOption("--name <name>", shape.name))
    .addOption(inputOption("--device <device>", shape.device))
    .addOption(inputOption("--line <line>", shape.line))
    .option("--all", "also list retired ones", false)
    .option(
      "--where <condition>",
      "only those whose metadata matches: key=value, or <, <=, >, >= (repeatable)",
      appendValue,
      [],
    )
    .addOption(inputOption("--limit <n>", shape.limit, "only the newest n"))
    .addOption(inputOption("--offset <n>", shape.offset, "skip the newest n"))
    .addHelpText("after", help)
    .action(async (choices: ListChoices, command: Command) =>
      withContext(command, async ({ output, operations, options }) => {
        const { name, device, line, all, where, limit, offset = 0 } = choices;
        const filter = { fleet: options.fleet, name, device, line, all, where };
        const { versions, total } = await newestModels(await operations(), { ...filter, offset, limit });
        output.printRows(versions, {
          nameOf,
          columns: versionColumns,
          empty:
            total > 0
              ? `none of the ${total} models is left after --offset ${offset}`
              : `no models in the fleet ${options.fleet} match; import one with: ` +
                "stemma model import FILE.safetensors --name NAME",
        });
        const next = offset + versions.length;
        if (next < total && versions.length > 0)
          output.info(
            `stemma: note: ${versions.length} of ${total} models are shown; older ones follow with --offset ${next}`,
          );
      }),
    );
}

/** The newest models in ascending order: `limit` of them, or all. */
async function newestModels(
  operations: ServerOperations,
  { limit, offset = 0, ...filter }: OperationInput<"listModels">,
): Promise<{ readonly versions: readonly VersionSummary[]; readonly total: number }> {
  const versions: VersionSummary[] = [];
  for (;;) {
    const page = await operations.listModels({
      ...filter,
      order: "newest",
      offset: offset + versions.length,
      limit: limit ?? pageSize,
    });
    versions.push(...page.versions);
    const isLast = page.versions.length === 0 || offset + versions.length >= page.total;
    if (isLast || limit !== undefined) return { versions: versions.reverse(), total: page.total };
  }
}
