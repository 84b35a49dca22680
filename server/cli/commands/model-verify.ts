/** `stemma model verify`: read models and all they use from the disk and compare them with what was recorded. */
import type { Command } from "commander";
import { messageWithCode } from "../../../shared/error-text.js";
import { exitStatus, isStemmaError } from "../../../shared/errors.js";
import { formatDuration } from "../../../shared/cli/output.js";
import type { VerificationReport } from "../../interface/api/models/version-schemas.js";
import { withContext } from "../context.js";
import { exactnessOf, nameOf } from "../version-text.js";

interface VerifiedModel {
  readonly model: string;
  readonly exact: boolean;
  readonly report?: VerificationReport;
  readonly error?: string;
}

export function addModelVerifyCommand(model: Command): void {
  model
    .command("verify")
    .argument("<models...>")
    .description("read models, checkpoints and what they use back and compare them with what was recorded")
    .action(async (references: string[], _: unknown, command: Command) =>
      withContext(command, async ({ output, operations, options }) => {
        const rows: VerifiedModel[] = [];
        for (const reference of references) {
          try {
            const report = await (await operations()).verify({ fleet: options.fleet, model: reference });
            rows.push({ model: nameOf(report), exact: true, report });
          } catch (error) {
            if (!isStemmaError(error) || error.exitStatus === exitStatus.usage) throw error;
            rows.push({ model: reference, exact: false, error: messageWithCode(error) });
            process.exitCode = Math.max(Number(process.exitCode ?? 0), error.exitStatus);
          }
        }
        output.print({
          data: rows,
          names: rows.filter((row) => row.exact).map((row) => row.model),
          table: {
            rows,
            columns: [
              { title: "MODEL", value: (row) => row.model },
              { title: "EXACT", value: (row) => (row.exact ? exactnessOf(row.report) : "NO") },
              {
                title: "TIME",
                value: (row) => (row.report ? formatDuration(totalMs(row.report)) : "-"),
                align: "right",
              },
              { title: "PARTS", value: (row) => row.report?.parts.length, align: "right" },
              { title: "ROOT", value: (row) => row.report?.root.slice(0, 16) },
              { title: "PROBLEM", value: (row) => row.error ?? "" },
            ],
          },
        });
      }),
    );
}

function totalMs({ steps }: VerificationReport): number {
  return steps.loadMs + steps.rebuildMs + steps.checkEnvironmentMs + steps.verifyMs;
}
