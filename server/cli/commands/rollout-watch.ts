/** `stemma rollout watch`: what happens in a rollout, line by line, until it ends or waits for a person. */
import { setTimeout as pause } from "node:timers/promises";
import type { Command } from "commander";
import { exitStatus, StemmaError } from "../../../shared/errors.js";
import type { RolloutDetailAnswer } from "../../interface/api/rollouts/rollout-definitions.js";
import { withContext, type CommandContext } from "../context.js";
import { changesOf, headOfRollout } from "../../fleet/rollout/rollout-text.js";

/** Between two looks. */
const lookMs = 1_000;

export function addRolloutWatchCommand(rollout: Command): void {
  rollout
    .command("watch")
    .argument("<name>")
    .description("follow a rollout until it ends or is paused; exit status 5 where it is not done then")
    .action(async (name: string, _: unknown, command: Command) =>
      withContext(command, (context) => watchCommand(name, context)),
    );
}

async function watchCommand(
  name: string,
  { output, operations, options: { fleet }, signal }: CommandContext,
): Promise<void> {
  const opened = await operations();
  if ((await opened.health()).mqttUrl === undefined)
    throw new StemmaError(
      "SERVER_UNREACHABLE",
      "Rollouts go on while a server runs, and none runs on this home. Start one with `stemma server`.",
    );
  let before: RolloutDetailAnswer | undefined;
  for (;;) {
    const now = await opened.rollout({ fleet, rollout: name });
    for (const line of changesOf(before, now)) output.info(line);
    const isOver = now.phase !== "created" && now.phase !== "running";
    if (isOver) {
      output.print({ data: now, names: [now.name], text: output.wrap(headOfRollout(now)) });
      if (now.phase !== "done") process.exitCode = exitStatus.partly;
      return;
    }
    before = now;
    await pause(lookMs, undefined, { signal }).catch(() => {
      signal.throwIfAborted();
    });
  }
}
