/** The lineage of versions as lines for a terminal: drawing and texts within its columns. Pure. */
import { columnsOf } from "../../shared/cli/text-width.js";
import { printable } from "../../shared/printable.js";
import type { LineageVersion } from "../interface/api/models/lineage-definitions.js";
import { drawLanes, type GraphLine } from "./lineage-lanes.js";
import { addedBytes, minuteOfSaving, nameOf, stateOf } from "./version-text.js";

/** Wider drawings are cut: the texts have to fit too. */
const maxGraphColumns = 40;

/** Red, green, yellow, blue, magenta, cyan: as `git log --graph` has them. */
const pathColours = [31, 32, 33, 34, 35, 36];
const nameColour = 33;

export function lineageLines(
  versions: readonly LineageVersion[],
  { columns, hasColours }: { readonly columns: number; readonly hasColours: boolean },
): readonly string[] {
  const lines = drawLanes(versions);
  const names = new Map(versions.map((version) => [version.versionId, nameOf(version)]));
  return lines.map(({ cells, version }) => {
    const width = Math.min(cells.length, maxGraphColumns);
    const isCut = cells.length > maxGraphColumns;
    const drawn = paint(isCut ? cells.slice(0, width - 1) : cells, hasColours) + (isCut ? "…" : "");
    if (version === undefined) return drawn;
    const texts = textOf(version, names);
    const name = cut(texts.name, columns - width - 1);
    const rest = cut(texts.rest, columns - width - 2 - columnsOf(name));
    const shown = hasColours ? colour(name, nameColour) : name;
    return `${drawn} ${shown}${rest === "" ? "" : ` ${rest}`}`;
  });
}

function textOf(
  version: LineageVersion,
  names: ReadonlyMap<LineageVersion["versionId"], string>,
): { readonly name: string; readonly rest: string } {
  const { versionId, after } = version;
  const known = after.flatMap((id) => names.get(id) ?? []);
  return {
    name: printable(nameOf(version)),
    rest: printable(
      `${versionId.slice(0, 8)} ${stateOf(version)}, ${minuteOfSaving(version)}, ` +
        `+${addedBytes(version)}${known.length === 0 ? "" : `, after ${known.join(", ")}`}`,
    ),
  };
}

/** The first `columns` columns of a text; nothing where there is no room for more than an ellipsis. */
function cut(text: string, columns: number): string {
  if (columnsOf(text) <= columns) return text;
  if (columns < 2) return "";
  const kept: string[] = [];
  let used = 1;
  for (const character of text) {
    used += columnsOf(character);
    if (used > columns) break;
    kept.push(character);
  }
  return `${kept.join("")}…`;
}

function paint(cells: GraphLine<unknown>["cells"], hasColours: boolean): string {
  return cells
    .map(({ character, path }) =>
      hasColours && path > 0 && character !== "*"
        ? colour(character, pathColours[(path - 1) % pathColours.length] as number)
        : character,
    )
    .join("");
}

function colour(text: string, code: number): string {
  return `\u001b[${code}m${text}\u001b[0m`;
}
