/** `stemma model log`: what a model was trained from, as a table or as a drawing. */
import type { Command } from "commander";
import { StemmaError } from "../../../shared/errors.js";
import { lineageOperations } from "../../interface/api/models/lineage-definitions.js";
import { withContext, type CommandContext } from "../context.js";
import { inputOption } from "../input-option.js";
import { nameOf, versionColumns } from "../version-text.js";

interface LogChoices {
  readonly graph: boolean;
  readonly dot: boolean;
  readonly svg: boolean;
  readonly descendants: boolean;
  readonly limit?: number;
  readonly offset?: number;
}

const help = `
  stemma model log soh --graph --descendants      draw the whole family in the terminal
  stemma model log soh --svg > family.svg
  stemma model log soh --dot | dot -Tpdf -o family.pdf

In drawings lines lead from a model to what it was trained from; dashed ones (--svg,
--dot) and "after" (--graph) are declared with stemma model successor set.
`;

export function addModelLogCommand(model: Command): void {
  const { shape } = lineageOperations.lineage.query;
  model
    .command("log")
    .argument("<model>")
    .description("the models this one was trained from, newest first")
    .option("--graph", "draw them in the terminal, as git log --graph does", false)
    .option("--dot", "print the drawing for Graphviz", false)
    .option("--svg", "print the drawing as a picture in SVG", false)
    .option("--descendants", "in a drawing: also the models that were trained from it", false)
    .addOption(inputOption("--limit <n>", shape.limit, "only the newest n (in a drawing: 100)"))
    .addOption(inputOption("--offset <n>", shape.offset, "skip the newest n"))
    .addHelpText("after", help)
    .action(async (reference: string, choices: LogChoices, command: Command) =>
      withContext(command, (context) =>
        choices.graph || choices.dot || choices.svg
          ? drawCommand(reference, choices, context)
          : tableCommand(reference, choices, context),
      ),
    );
}

async function tableCommand(
  reference: string,
  { descendants, limit, offset }: LogChoices,
  { output, operations, options }: CommandContext,
): Promise<void> {
  if (descendants)
    throw new StemmaError(
      "USAGE",
      "--descendants belongs to --graph, --dot or --svg. `stemma model descendants` lists descendants page by page.",
    );
  const rows = await (await operations()).log({ fleet: options.fleet, model: reference, offset, limit });
  output.print({
    data: rows,
    names: rows.map(nameOf),
    table: { rows, columns: [...versionColumns, { title: "BY", value: (row) => row.by ?? "-" }] },
  });
}

async function drawCommand(
  reference: string,
  { graph, dot, svg, ...page }: LogChoices,
  { output, operations, options }: CommandContext,
): Promise<void> {
  if (Number(graph) + Number(dot) + Number(svg) > 1)
    throw new StemmaError("USAGE", "Choose one of --graph, --dot and --svg.");
  const answer = await (await operations()).lineage({ fleet: options.fleet, model: reference, ...page });
  const { versions, total } = answer;
  if (output.form !== "table") output.print({ data: answer, names: versions.map(nameOf) });
  else if (dot) output.draw((await import("../lineage-dot.js")).lineageDot(versions));
  else if (svg) output.draw((await import("../lineage-svg.js")).lineageSvg(versions));
  else {
    const { lineageLines } = await import("../lineage-text.js");
    for (const line of lineageLines(versions, output)) output.draw(`${line}\n`);
  }
  const next = (page.offset ?? 0) + versions.length;
  if (versions.length > 0 && next < total)
    output.info(
      `stemma: note: ${versions.length} of ${total} are drawn; older ones follow with --offset ${next}`,
    );
}
