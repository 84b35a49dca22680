/** `stemma model hold|unhold`: keep a version from retention and retirement, and let it go again. */
import type { Command } from "commander";
import { StemmaError } from "../../../shared/errors.js";
import type { VersionSummary } from "../../repository/fleet-repository.js";
import { checkHoldable, describeHold } from "../../repository/state/hold.js";
import { withContext } from "../context.js";
import { currentUser } from "../current-user.js";
import { nameOf } from "../version-text.js";

interface HoldChoices {
  readonly because: string;
  readonly dryRun: boolean;
}

export function addModelHoldCommands(model: Command): void {
  model
    .command("hold")
    .argument("<model>")
    .requiredOption("--because <text>", "why it must stay: an incident, a release, a question that is open")
    .option("--dry-run", "only say what would happen", false)
    .description("keep a version: neither stemma model rm nor any retention rule takes it until it is let go")
    .action(async (reference: string, choices: HoldChoices, command: Command) =>
      withContext(command, async ({ output, operations, options }) => {
        const because = reasonOf(choices),
          by = currentUser(),
          door = await operations();
        const before = await door.model({ fleet: options.fleet, model: reference });
        checkHoldable(before);
        const summary: VersionSummary = choices.dryRun
          ? before
          : await door.hold({ fleet: options.fleet, model: before.versionId, held: true, because, by });
        output.print({
          data: choices.dryRun
            ? { versionId: summary.versionId, held: false, wouldHold: { because, by } }
            : { versionId: summary.versionId, held: summary.held, hold: summary.hold },
          names: [nameOf(summary)],
          text: `${choices.dryRun ? "would hold" : "holding"} ${nameOf(summary)} (${summary.versionId.slice(0, 12)}): ${because}`,
        });
      }),
    );

  model
    .command("unhold")
    .argument("<model>")
    .requiredOption("--because <text>", "why it need not stay any more")
    .option("--dry-run", "only say what would happen", false)
    .description("let a held version go: retention rules and stemma model rm may take it again")
    .action(async (reference: string, choices: HoldChoices, command: Command) =>
      withContext(command, async ({ output, operations, options }) => {
        const because = reasonOf(choices),
          door = await operations();
        const before = await door.model({ fleet: options.fleet, model: reference });
        if (before.hold === undefined) {
          output.print({
            data: { versionId: before.versionId, held: false },
            names: [nameOf(before)],
            text: `${nameOf(before)} is not held`,
          });
          return;
        }
        const held = choices.dryRun
          ? before.held
          : (
              await door.hold({
                fleet: options.fleet,
                model: before.versionId,
                held: false,
                because,
                by: currentUser(),
              })
            ).held;
        output.print({
          data: { versionId: before.versionId, held, was: before.hold },
          names: [nameOf(before)],
          text: `${choices.dryRun ? "would let go" : "let go"} ${nameOf(before)}, held ${describeHold(before.hold)}`,
        });
      }),
    );
}

function reasonOf({ because }: HoldChoices): string {
  if (because.trim() === "")
    throw new StemmaError(
      "USAGE",
      "--because is empty. Say in a few words why; whoever finds the hold in a year will thank you.",
    );
  return because.trim();
}
