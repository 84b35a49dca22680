/** `stemma rollout watch`: what happens in a rollout, line by line, until it ends or waits for a person. */
import { setTimeout as pause } from "node:timers/promises";
import { exitStatus, StemmaError } from "../../../../shared/errors.js";
import type { RolloutDetailAnswer } from "../../../interface/api/rollouts/rollout-definitions.js";
import { plain } from "../../plain-command.js";
import { changesOf, headOfRollout } from "../../../fleet/rollout/rollout-text.js";

/** The time between two looks. */
const lookMs = 1_000;

const watch = plain("rollout", {
  name: "watch",
  about: "follow a rollout until it ends or is paused; exit status 5 where it is not done then",
  takes: { rollout: "<name>" },
  run: async ({ rollout }, { call, output, signal }) => {
    if ((await call("health")).mqttUrl === undefined)
      throw new StemmaError(
        "SERVER_UNREACHABLE",
        "Rollouts go on while a server runs, and none runs on this home. Start one with `stemma server`.",
      );
    let before: RolloutDetailAnswer | undefined;
    for (;;) {
      const now = await call("rollout", { rollout });
      for (const line of changesOf(before, now)) output.info(line);
      const isOver = now.phase !== "created" && now.phase !== "running";
      if (isOver) return now;
      before = now;
      await pause(lookMs, undefined, { signal }).catch(() => {
        signal.throwIfAborted();
      });
    }
  },
  print: (now, _, { output }) => ({
    names: [now.name],
    text: output.wrap(headOfRollout(now)),
    ...(now.phase === "done" ? {} : { status: exitStatus.partly }),
  }),
});

export const commands = [watch];
