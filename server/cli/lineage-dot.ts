/** The lineage of versions for Graphviz: `stemma model log MODEL --dot | dot -Tpdf`. Pure. */
import { printable } from "../../shared/printable.js";
import type { LineageVersion } from "../interface/api/models/lineage-definitions.js";
import { nameOf, stateOf } from "./version-text.js";

/** Solid edges: trained from. Dashed: declared to come after. Both point to the later version. */
export function lineageDot(versions: readonly LineageVersion[]): string {
  const known = new Set(versions.map(({ versionId }) => versionId));
  const lines = versions.flatMap((version) => {
    const { versionId, bases, after, state } = version;
    const label = `${nameOf(version)}\n${versionId.slice(0, 12)}\n${stateOf(version)}`;
    const style = state === "retired" ? ", style=dashed, fontcolor=gray40" : "";
    return [
      `  ${quoted(versionId)} [label=${quoted(label)}${style}];`,
      ...bases.filter((base) => known.has(base)).map((base) => `  ${quoted(base)} -> ${quoted(versionId)};`),
      ...after
        .filter((id) => known.has(id))
        .map((id) => `  ${quoted(id)} -> ${quoted(versionId)} [style=dashed, constraint=false];`),
    ];
  });
  return ["digraph lineage {", "  rankdir=BT;", "  node [shape=box];", ...lines, "}", ""].join("\n");
}

function quoted(text: string): string {
  const escaped = printable(text).replaceAll("\\", "\\\\").replaceAll('"', '\\"').replaceAll("\n", "\\n");
  return `"${escaped}"`;
}
