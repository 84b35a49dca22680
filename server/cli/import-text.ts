/** The report of an import as text. Pure. */
import { formatBytes } from "../../shared/cli/output.js";
import type { ImportReport } from "../interface/api/models/import-schemas.js";
import { addedBytes } from "./version-text.js";

/** "update: 2 of 4 tensors changed; 68 B of 196 B stored". */
export function describeImport(report: ImportReport): string {
  const { approach, unchanged, changed, tensors, newTensorBytes, tensorBytes, summary, story } = report;
  const extent = unchanged
    ? "equal to its base"
    : approach === "update"
      ? `${changed} of ${tensors} tensors changed`
      : `all ${tensors} tensors`;
  const stored = `${formatBytes(newTensorBytes)} of ${formatBytes(tensorBytes)} stored`;
  const all = summary === undefined ? "" : `, ${addedBytes(summary)} with its record`;
  const text = `${approach}: ${extent}; ${stored}${all}`;
  return story === undefined
    ? text
    : `${text}\n  with the story of ${story.name} (${story.versionId.slice(0, 12)}) of the fleet ${story.fleet}, ` +
        "which is not proved here: stemma replay run";
}
