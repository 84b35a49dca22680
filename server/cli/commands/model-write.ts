/** `stemma model tag|rm|redact`: names a version, retires it, or redacts how it was trained. */
import type { Command } from "commander";
import { withContext, type CommandContext } from "../context.js";
import { nameOf } from "../version-text.js";

interface TagChoices {
  readonly remove: boolean;
  readonly dryRun: boolean;
}
interface RetireChoices {
  readonly because: string;
  readonly dryRun: boolean;
}

export function addModelWriteCommands(model: Command): void {
  model
    .command("tag")
    .argument("<model>")
    .argument("<tag>")
    .option("--remove", "remove the tag", false)
    .option("--dry-run", "only check that the model exists", false)
    .description("let a tag point to a version: name:tag works wherever name:version does")
    .action(async (...[reference, tag, choices, command]: [string, string, TagChoices, Command]) =>
      withContext(command, (context) => tagCommand({ reference, tag, ...choices }, context)),
    );
  model
    .command("rm")
    .argument("<model>")
    .option("--because <reason>", "kept with the fact", "removed by hand")
    .option("--dry-run", "show what would happen", false)
    .description(
      "retire a model: its name, parents and times are kept; the next storage gc frees its tensors that nothing else refers to",
    )
    .action(async (reference: string, choices: RetireChoices, command: Command) =>
      withContext(command, (context) => retireCommand(reference, choices, context)),
    );
  addRedactCommand(model);
}

function addRedactCommand(model: Command): void {
  model
    .command("redact")
    .argument("<model>")
    .requiredOption("--because <text>", "kept with the fact")
    .option("--dry-run", "only check that there is something to redact", false)
    .description(
      "make parameters, seed, data description, times and caller of a training unreadable for ever; " +
        "the model, its id and the commitments stay",
    )
    .action(async (reference: string, choices: RetireChoices, command: Command) =>
      withContext(command, (context) => redactCommand(reference, choices, context)),
    );
}

async function redactCommand(
  reference: string,
  { because, dryRun }: RetireChoices,
  { output, operations, options }: CommandContext,
): Promise<void> {
  const summary = await (
    await operations()
  ).redact({ fleet: options.fleet, model: reference, because, dryRun });
  output.print({
    data: { versionId: summary.versionId, redacted: !dryRun },
    names: [nameOf(summary)],
    text:
      `${dryRun ? "would redact" : "redacted"} how ${nameOf(summary)} was trained; backups and devices ` +
      "that have it keep their copies; remove it from this disk with: stemma storage gc",
  });
}

async function tagCommand(
  { reference, tag, remove, dryRun }: TagChoices & { readonly reference: string; readonly tag: string },
  { output, operations, options }: CommandContext,
): Promise<void> {
  const opened = await operations();
  const summary = dryRun
    ? await opened.model({ fleet: options.fleet, model: reference })
    : await opened.tag({ fleet: options.fleet, model: reference, tag, remove });
  const change = remove ? "points to nothing" : `is ${nameOf(summary)}`;
  output.print({
    data: summary,
    names: [nameOf(summary)],
    text: `${dryRun ? "would be: " : ""}${summary.name}:${tag} ${change}`,
  });
}

async function retireCommand(
  reference: string,
  { because, dryRun }: RetireChoices,
  { output, operations, options }: CommandContext,
): Promise<void> {
  const opened = await operations();
  const { versionId, derived, ...before } = await opened.model({ fleet: options.fleet, model: reference });
  await opened.retire({ fleet: options.fleet, model: versionId, because, dryRun });
  const note =
    derived.length > 0 ? `; ${derived.length} models derived from it keep the tensors they share` : "";
  output.print({
    data: { versionId, retired: !dryRun },
    names: [nameOf(before)],
    text: `${dryRun ? "would retire" : "retired"} ${nameOf(before)}${note}; free its space with: stemma storage gc`,
  });
}
