/**
 * `stemma doctor`: checks whether this machine and this home are fit to run Stemma. Only reads, except that
 * it writes a test file and removes it.
 */
import type { Command } from "commander";
import { exitStatus } from "../../../../shared/errors.js";
import { withContext } from "../../context.js";
import { examine } from "../../doctor/examine.js";
import { findingsText } from "../../doctor/findings-text.js";

export function define(command: Command): void {
  command.action(async (_: unknown, command: Command) =>
    withContext(command, async ({ output, options }) => {
      const findings = await examine({ home: options.home });
      if (findings.some((finding) => finding.state === "wrong")) process.exitCode = exitStatus.failed;
      output.print({
        data: findings,
        names: findings.filter((finding) => finding.state !== "good").map((finding) => finding.what),
        text: findingsText(findings),
      });
    }),
  );
}
