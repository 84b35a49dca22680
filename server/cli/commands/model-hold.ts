/** `stemma model hold|unhold`: keep a version from retention and retirement, and let it go again. */
import type { Command } from "commander";
import { StemmaError } from "../../../shared/errors.js";
import type { VersionSummary } from "../../storage/repository/answers/version-answers.js";
import { checkHoldable, describeHold } from "../../storage/repository/state/hold.js";
import { withContext, type CommandContext } from "../context.js";
import { nameOf } from "../version-text.js";

interface HoldChoices {
  readonly because: string;
  readonly dryRun: boolean;
}

export function addModelHoldCommands(model: Command): void {
  model
    .command("hold")
    .argument("<model>")
    .requiredOption("--because <text>", "why it must be kept: an incident, a release, an open question")
    .option("--dry-run", "only show what would happen", false)
    .description("keep a version: until unhold, neither stemma model rm nor any retention rule retires it")
    .action(async (reference: string, choices: HoldChoices, command: Command) =>
      withContext(command, (context) => holdCommand(reference, choices, context)),
    );
  model
    .command("unhold")
    .argument("<model>")
    .requiredOption("--because <text>", "why it need not be kept any more")
    .option("--dry-run", "only show what would happen", false)
    .description("let a held version go: retention rules and stemma model rm may retire it again")
    .action(async (reference: string, choices: HoldChoices, command: Command) =>
      withContext(command, (context) => unholdCommand(reference, choices, context)),
    );
}

async function holdCommand(
  reference: string,
  choices: HoldChoices,
  { output, operations, options }: CommandContext,
): Promise<void> {
  const because = reasonOf(choices);
  const opened = await operations();
  const before = await opened.model({ fleet: options.fleet, model: reference });
  checkHoldable(before);
  const summary: VersionSummary = choices.dryRun
    ? before
    : await opened.hold({ fleet: options.fleet, model: before.versionId, held: true, because });
  output.print({
    data: choices.dryRun
      ? { versionId: summary.versionId, held: false, wouldHold: { because } }
      : { versionId: summary.versionId, held: summary.held, hold: summary.hold },
    names: [nameOf(summary)],
    text: `${choices.dryRun ? "would hold" : "holding"} ${nameOf(summary)} (${summary.versionId.slice(0, 12)}): ${because}`,
  });
}

async function unholdCommand(
  reference: string,
  choices: HoldChoices,
  { output, operations, options }: CommandContext,
): Promise<void> {
  const because = reasonOf(choices);
  const opened = await operations();
  const before = await opened.model({ fleet: options.fleet, model: reference });
  const { versionId, hold } = before;
  if (hold === undefined) {
    output.print({
      data: { versionId, held: false },
      names: [nameOf(before)],
      text: `${nameOf(before)} is not held`,
    });
    return;
  }
  const { held } = choices.dryRun
    ? before
    : await opened.hold({
        fleet: options.fleet,
        model: versionId,
        held: false,
        because,
      });
  output.print({
    data: { versionId, held, was: hold },
    names: [nameOf(before)],
    text: `${choices.dryRun ? "would let go" : "let go"} ${nameOf(before)}, held ${describeHold(hold)}`,
  });
}

/** @throws USAGE */
function reasonOf({ because }: HoldChoices): string {
  if (because.trim() === "")
    throw new StemmaError(
      "USAGE",
      "--because is empty. Give the reason in a few words: it is shown to everyone who finds the hold later.",
    );
  return because.trim();
}
