/** `stemma agent run`: the agent as a foreground program. */
import { resolve } from "node:path";
import type { Command } from "commander";
import { exitWithParent } from "../../../shared/cli/exit-with-parent.js";
import { runOnWithoutReaders } from "../../../shared/cli/standard-streams.js";
import { logForms, logLevels } from "../../../shared/adapters/log-forms.js";
import { parseLogForm, requestedLogLevel } from "../../../shared/cli/log-options.js";
import { addTakeOver, commonOptionsOf } from "../common-options.js";

interface RunChoices {
  readonly enrolment?: string;
  readonly config?: string;
  readonly profile?: string;
  readonly log: string;
  readonly logLevel?: string;
  readonly takeOver: boolean;
}

/** @param onStatus gets the exit status when the agent has ended */
export function addRun(program: Command, onStatus: (status: number) => void): void {
  addTakeOver(program.command("run"))
    .description(
      "run the agent until it is stopped (Ctrl-C); it needs an enrolment (`stemma agent enroll`), and no connection",
    )
    .option("--enrolment <file>", "the enrolment file (default <home>/enrolment.json)")
    .option("--config <file>", "settings: lines, recipes, schedules, log (default <home>/agent.json)")
    .option(
      "--profile <name>",
      "device class: a name of firmware-profiles/, or a path (default: that of the settings, else of the enrolment)",
    )
    .option("--log <form>", `form of the log: ${logForms.join(", ")}`, "plain")
    .option(
      "--log-level <level>",
      `log events from this level up: ${logLevels.join(", ")} (default: that of the settings, else info; --verbose means debug)`,
    )
    .action(async (choices: RunChoices, command: Command) => {
      const { home, verbose } = commonOptionsOf(command);
      const logForm = parseLogForm(choices.log);
      const logLevel = requestedLogLevel({ logLevel: choices.logLevel, verbose });
      exitWithParent();
      runOnWithoutReaders();
      const { runAgent } = await import("../../main.js");
      const status = await runAgent({
        home,
        logForm,
        logLevel,
        enrolment: choices.enrolment,
        config: choices.config === undefined ? undefined : resolve(choices.config),
        profile: choices.profile,
        takeOver: choices.takeOver,
      });
      onStatus(status);
    });
}
