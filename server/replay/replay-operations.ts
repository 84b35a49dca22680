/** Operations on queued replays: what waits, what runs, how it ended. */
import { byOf } from "../../shared/journal/caller.js";
import { StemmaError } from "../../shared/errors.js";
import type { ReplayJob } from "../api/replay-schemas.js";
import type { ServerOperations } from "../api/server-operations.js";
import type { OperationsContext } from "../context/operations-context.js";
import { ReplayJobs, type StoredReplay } from "./replay-jobs.js";

type ReplayOperations = Pick<ServerOperations, "replays" | "queueReplay" | "cancelReplay">;

export function replayOperations(context: OperationsContext): ReplayOperations {
  const { home, fleets, caller, live } = context;
  const asJob = (fleet: string, stored: StoredReplay): ReplayJob => {
    const { by: _, ...rest } = stored;
    const running = live?.replays.running;
    const isRunning =
      stored.state === "waiting" && running?.fleet === fleet && running.versionId === stored.versionId;
    if (!isRunning) return { ...rest, ...byOf(stored) };
    const { phase, epoch, epochs, iteration, iterations } = running.progress ?? { phase: "prepare" };
    return {
      ...rest,
      ...byOf(stored),
      state: "running",
      startedAtMs: running.startedAtMs,
      progress: {
        phase,
        ...(epoch === undefined ? {} : { epoch }),
        ...(epochs === undefined ? {} : { epochs }),
        ...(iteration === undefined ? {} : { iteration }),
        ...(iterations === undefined ? {} : { iterations }),
      },
    };
  };
  return {
    replays: async ({ fleet }) => {
      await fleets.get(fleet);
      const jobs = (await new ReplayJobs(home, fleet).list()).map((stored) => asJob(fleet, stored));
      return [
        ...jobs.filter(({ state }) => state === "running"),
        ...jobs.filter(({ state }) => state !== "running"),
      ];
    },
    queueReplay: async ({ fleet, model, priority }) => {
      const repository = await fleets.get(fleet);
      const summary = repository.resolve(model);
      const stored = await new ReplayJobs(home, fleet).add(summary, {
        ...(priority === undefined ? {} : { priority }),
        ...(caller === undefined ? {} : { by: caller }),
      });
      const job = asJob(fleet, stored);
      live?.replays.wake();
      return job;
    },
    cancelReplay: async ({ fleet, model }) => {
      const { versionId, name, version } = (await fleets.get(fleet)).resolve(model);
      const cancelled = await new ReplayJobs(home, fleet).cancel(versionId);
      if (cancelled === undefined)
        throw new StemmaError(
          "NOT_FOUND",
          `No replay of ${name}:${version} waits or runs. \`stemma replay list\` shows those that do.`,
          { versionId },
        );
      live?.replays.stop(fleet, versionId);
      return asJob(fleet, cancelled);
    },
  };
}
