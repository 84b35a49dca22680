/** `stemma model recover --fleet F --at TIME`: what every device of a fleet ran at a moment. */
import { dirname, join, resolve } from "node:path";
import { messageWithCode } from "../../../../shared/error-text.js";
import { exitStatus, isStemmaError } from "../../../../shared/errors.js";
import { parseTime } from "../../../../shared/cli/output.js";
import { endingOf } from "../../../../shared/model/kept-file.js";
import type { ServerOperations } from "../../../interface/api/server-operations.js";
import type { FleetMoment } from "../../../storage/repository/answers/device-answers.js";
import type { CommandContext } from "../../context.js";
import { refuseExisting, writeStreamDurably } from "../../stream-file.js";
import { exactnessOf, nameOf } from "../../version-text.js";

interface FleetChoices {
  readonly at: string;
  readonly folder?: string;
  readonly force: boolean;
}

interface RecoveredLine {
  readonly device: string;
  readonly line: string;
  readonly model: string;
  readonly exact: string;
  readonly file: string | null;
  readonly why: string;
}

/**
 * Recovers every model that a fleet ran at a moment. A line whose model is not known is listed as unknown.
 * The exit status is 5 when some model could not be recovered.
 */
export async function recoverFleet(
  { at, folder, force }: FleetChoices,
  { output, operations, options }: CommandContext,
): Promise<void> {
  const opened = await operations();
  const moments = await opened.asOf({ fleet: options.fleet, at: parseTime(at) });
  const pathOf = ({ device, line }: FleetMoment): string | undefined =>
    folder === undefined ? undefined : resolve(folder, device, `${line}.safetensors`);
  for (const moment of moments) {
    const path = pathOf(moment);
    if (path !== undefined && moment.versionId !== "unknown") await refuseExisting(path, force);
  }
  const rows: RecoveredLine[] = [];
  for (const moment of moments)
    rows.push(
      await recoverLine(opened, moment, { fleet: options.fleet, path: pathOf(moment), overwrite: force }),
    );
  output.printRows(rows, {
    nameOf: (row) => row.model,
    columns: [
      { title: "DEVICE", value: (row) => row.device },
      { title: "LINE", value: (row) => row.line },
      { title: "MODEL", value: (row) => row.model },
      { title: "EXACT", value: (row) => row.exact },
      { title: "FILE", value: (row) => row.file },
      { title: "WHY", value: (row) => row.why },
    ],
    empty: `no device of the fleet ${options.fleet} has reported an active model`,
  });
}

async function recoverLine(
  operations: ServerOperations,
  { device, line, versionId, why }: FleetMoment,
  {
    fleet,
    path,
    overwrite,
  }: { readonly fleet: string; readonly path: string | undefined; readonly overwrite: boolean },
): Promise<RecoveredLine> {
  if (versionId === "unknown") return { device, line, model: "unknown", exact: "-", file: null, why };
  try {
    const stream = await operations.recover({ fleet, model: versionId, form: "auto" });
    const { file: saved } = stream.expected;
    const written = path && saved ? join(dirname(path), `${line}${endingOf(saved)}`) : path;
    const report = await writeStreamDurably(stream, written, { overwrite }, () => undefined);
    return { device, line, model: nameOf(report), exact: exactnessOf(report), file: written ?? null, why };
  } catch (error) {
    if (!isStemmaError(error)) throw error;
    process.exitCode = exitStatus.partly;
    const model = versionId.slice(0, 12);
    return { device, line, model, exact: "NO", file: null, why: messageWithCode(error) };
  }
}
