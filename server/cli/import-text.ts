/** The report of an import as text. Pure. */
import { formatBytes } from "../../shared/cli/output.js";
import { counted } from "../../shared/printable.js";
import type { ImportReport } from "../interface/api/models/import-schemas.js";
import { addedBytes, nameOf } from "./version-text.js";

/** "update: 2 of 4 tensors changed; 68 B of 196 B stored". */
export function describeImport(report: ImportReport): string {
  const { approach, isFile, unchanged, changed, tensors, newTensorBytes, tensorBytes, summary, story } =
    report;
  const extent = unchanged
    ? "equal to its base"
    : approach === "update"
      ? `${changed} of ${counted(tensors, "tensor")} changed`
      : `all ${counted(tensors, "tensor")}`;
  const stored = `${formatBytes(newTensorBytes)} of ${formatBytes(tensorBytes)} stored`;
  const all = summary === undefined ? "" : `, ${addedBytes(summary)} with its record`;
  const text = `${isFile === true ? "a file as it is" : `${approach}: ${extent}`}; ${stored}${all}`;
  return story === undefined
    ? text
    : `${text}\n  with the story of ${story.name} (${story.versionId.slice(0, 12)}) of the fleet ${story.fleet}, ` +
        "which is not proved here: stemma replay run";
}

/** Says what an import without --base may have been trained from, and what to type then; undefined: not known. */
export function likelyBasesText({ likelyBases = [], summary }: ImportReport): string | undefined {
  const [first] = likelyBases;
  if (first === undefined) return undefined;
  const one = likelyBases.length === 1 ? "it" : "one of them";
  const base = `--base ${typedName(first)}`;
  return (
    `it has the same tensors as ${likelyBases.map(nameOf).join(", ")}, whatever their values. If it was trained from ` +
    (summary === undefined
      ? `${one}, import it with ${base}.`
      : `${one}, import it again with ${base}, and retire this version: stemma model rm ${typedName(summary)}`)
  );
}

/** A version as it can be typed in any shell: names may have characters that a shell does not take as they are. */
function typedName(version: NonNullable<ImportReport["likelyBases"]>[number]): string {
  const name = nameOf(version);
  return /^\w[\w.:/-]*$/.test(name) ? name : version.versionId;
}
