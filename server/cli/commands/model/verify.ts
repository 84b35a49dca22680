/** `stemma model verify`: read models and all they use from the disk and compare them with what was recorded. */
import { messageWithCode } from "../../../../shared/error-text.js";
import { exitStatus, isStemmaError } from "../../../../shared/errors.js";
import { formatDuration } from "../../../../shared/cli/output.js";
import type { VerificationReport } from "../../../interface/api/models/version-schemas.js";
import { listed, plain } from "../../plain-command.js";
import { exactnessOf, nameOf } from "../../version-text.js";

interface VerifiedModel {
  readonly model: string;
  readonly exact: boolean;
  readonly report?: VerificationReport;
  readonly error?: string;
}

const verify = plain("verify", {
  name: "verify",
  about: "read models, checkpoints and what they use back and compare them with what was recorded",
  takes: { models: "<models...>" },
  run: async ({ models }, { call }) => {
    const rows: VerifiedModel[] = [];
    for (const model of models) {
      try {
        const report = await call("verify", { model });
        rows.push({ model: nameOf(report), exact: true, report });
      } catch (error) {
        if (!isStemmaError(error) || error.exitStatus === exitStatus.usage) throw error;
        rows.push({ model, exact: false, error: messageWithCode(error) });
        process.exitCode = Math.max(Number(process.exitCode ?? 0), error.exitStatus);
      }
    }
    return rows;
  },
  print: (rows) => ({
    ...listed(rows, {
      nameOf: (row) => row.model,
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
    }),
    names: rows.filter((row) => row.exact).map((row) => row.model),
  }),
});

function totalMs({ steps }: VerificationReport): number {
  return steps.loadMs + steps.rebuildMs + steps.checkEnvironmentMs + steps.verifyMs;
}

export const commands = [verify];
