/** `stemma model recover --merged`: an adapter merged into its base, as one file. */
import { resolve } from "node:path";
import { formatBytes } from "../../../../shared/cli/output.js";
import { counted } from "../../../../shared/printable.js";
import { StemmaError } from "../../../../shared/errors.js";
import type { OperationInput } from "../../../interface/api/server-operations.js";
import type { CommandContext } from "../../context.js";
import { mergedStream } from "../../merged-recovery.js";
import { refuseExisting, writeStreamDurably, writeStreamTo } from "../../stream-file.js";
import { nameOf } from "../../version-text.js";

export interface MergedChoices {
  readonly file?: string;
  readonly environment: OperationInput<"recover">["environment"];
  readonly force: boolean;
}

/** @throws USAGE without a model and a file */
export async function recoverMerged(
  reference: string | undefined,
  { file, environment, force }: MergedChoices,
  context: CommandContext,
): Promise<void> {
  const { output } = context;
  if (reference === undefined || file === undefined || (file === "-" && process.stdout.isTTY))
    throw new StemmaError("USAGE", "--merged is for one adapter, into a file: MODEL --merged --file PATH");
  const path = file === "-" ? undefined : resolve(file);
  if (path !== undefined) await refuseExisting(path, force);
  const stream = await mergedStream(reference, environment, context);
  const report =
    path === undefined
      ? await writeStreamTo(stream, process.stdout)
      : await writeStreamDurably(stream, path, { overwrite: force }, (bytes) => {
          output.progress(`merging ${reference}: ${formatBytes(bytes)} of ${formatBytes(stream.byteLength)}`);
        });
  output.endProgress();
  const text =
    `${nameOf(report)} merged into ${nameOf(report.base)}: ${report.changed} of ${counted(report.tensors, "tensor")} ` +
    `changed, ${formatBytes(report.byteLength)}\nwritten to ${path ?? "standard output"}; it is a file, and not a version`;
  if (path === undefined) output.info(text);
  else output.print({ data: { ...report, file: path }, names: [report.versionId], text });
}
