/** `stemma model log`: what a model was trained from, as a table or as a drawing. */
import type { Output } from "../../../../shared/cli/output.js";
import { StemmaError } from "../../../../shared/errors.js";
import type { LineageGraph } from "../../../interface/api/models/lineage-definitions.js";
import type { CallOutput, OperationInput } from "../../../interface/api/server-operations.js";
import { describeAll } from "../../describe-all.js";
import { pageOptions, refuseWithPage, writePage } from "../../page/write-page.js";
import { plain, type PlainContext } from "../../plain-command.js";
import { nameOf, versionColumns } from "../../version-text.js";

const log = plain("lineage", {
  name: "log",
  about: "the models this one was trained from, newest first",
  takes: { model: "" },
  options: {
    graph: "draw them in the terminal, as git log --graph does",
    dot: "print the drawing for Graphviz",
    svg: "print the drawing as a picture in SVG",
    descendants: "in a drawing: also the models that were trained from it",
    limit: "<n> only the newest n (in a drawing: 100)",
    offset: "<n> skip the newest n",
    ...pageOptions,
  },
  help: `
  stemma model log soh --graph --descendants      draw the whole family in the terminal
  stemma model log soh --svg > family.svg
  stemma model log soh --html family.html --descendants
  stemma model log soh --dot | dot -Tpdf -o family.pdf

In drawings lines lead from a model to what it was trained from; dashed ones (--svg,
--dot) and "after" (--graph) are declared with stemma model successor set.
`,
  run: async ({ graph, dot, svg, html, force, ...asked }, { call, output }) => {
    const { descendants, ...page } = asked;
    if (html !== undefined) {
      refuseWithPage({ graph, dot, svg });
      return await writePage(html, { force }, () => pageOf(asked, call));
    }
    if (graph || dot || svg) {
      if (Number(graph) + Number(dot) + Number(svg) > 1)
        throw new StemmaError("USAGE", "Choose one of --graph, --dot and --svg.");
      await drawLineage(await call("lineage", asked), { dot, svg, offset: asked.offset ?? 0 }, output);
      return undefined;
    }
    if (descendants)
      throw new StemmaError(
        "USAGE",
        "--descendants belongs to --graph, --dot, --svg or --html. `stemma model descendants` lists descendants page by page.",
      );
    const rows = await call("log", page);
    const columns = [...versionColumns, { title: "BY", value: (row: Logged) => row.by ?? "-" }];
    output.printRows(rows, { nameOf, columns });
    return undefined;
  },
});

async function pageOf(
  asked: Omit<OperationInput<"lineage">, "fleet">,
  call: PlainContext["call"],
): Promise<string> {
  const { versions, total } = await call("lineage", asked);
  const described = await describeAll(versions, call);
  const [{ versionsPage }, { factsOfListed }] = await Promise.all([
    import("../../page/versions-page.js"),
    import("../../page/version-list.js"),
  ]);
  return versionsPage({
    title: asked.model,
    kind: "Lineage",
    versions: versions.map((version, at) => ({
      ...version,
      ...factsOfListed(described[at] as CallOutput<"model">),
    })),
    total,
    writtenAtMs: Date.now(),
  });
}

type Logged = CallOutput<"log">[number];

export async function drawLineage(
  answer: LineageGraph,
  { dot, svg, offset }: { readonly dot: boolean; readonly svg: boolean; readonly offset: number },
  output: Output,
): Promise<void> {
  const { versions, total } = answer;
  if (output.form !== "table") output.print({ data: answer, names: versions.map(nameOf) });
  else if (dot) output.draw((await import("../../lineage-dot.js")).lineageDot(versions));
  else if (svg) output.draw((await import("../../lineage-svg.js")).lineageSvg(versions));
  else {
    const { lineageLines } = await import("../../lineage-text.js");
    for (const line of lineageLines(versions, output)) output.draw(`${line}\n`);
  }
  const next = offset + versions.length;
  if (versions.length > 0 && next < total)
    output.info(
      `stemma: note: ${versions.length} of ${total} are drawn; older ones follow with --offset ${next}`,
    );
}

export const commands = [log];
