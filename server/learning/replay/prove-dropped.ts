/** `storage check --replay`: replays some of the versions without tensors, which nothing but a replay can prove. */
import { messageOf } from "../../../shared/error-text.js";
import { isStemmaError } from "../../../shared/errors.js";
import { maxMaxMinutes } from "../../interface/api/models/replay-schemas.js";
import type { OperationsContext } from "../../services/context/operations-context.js";
import type { CheckReport } from "../../storage/repository/answers/store-answers.js";
import type { VersionSummary } from "../../storage/repository/answers/version-answers.js";
import { replayVersion } from "./replay-version.js";

type Problem = CheckReport["problems"][number];

/**
 * Replays up to `count` dropped versions, each equally likely. @throws DISK_FULL, QUOTA_EXCEEDED where another replay
 * runs
 */
export async function proveDropped(
  context: OperationsContext,
  fleet: string,
  count: number,
): Promise<{ readonly replayed: number; readonly problems: readonly Problem[] }> {
  const repository = await context.fleets.get(fleet);
  const waiting = [...repository.select("dropped")].filter(({ state }) => state !== "retired");
  const problems: Problem[] = [];
  let replayed = 0;
  for (; replayed < count && waiting.length > 0; replayed++) {
    const draw = Buffer.from(context.home.ports.random.bytes(6)).readUIntBE(0, 6) % waiting.length;
    const [version] = waiting.splice(draw, 1) as [VersionSummary];
    const because = await whyNotProved(context, fleet, version);
    if (because !== undefined)
      problems.push({
        what: "replay",
        id: version.versionId,
        message: `${version.name}:${version.version} has no tensors, and its replay does not give it: ${because}`,
      });
  }
  return { replayed, problems };
}

async function whyNotProved(
  context: OperationsContext,
  fleet: string,
  { versionId, dropped }: VersionSummary,
): Promise<string | undefined> {
  // The time in which it was proved is of this machine, or of the one that it was restored from.
  const maxMinutes = Math.min(Math.ceil(((dropped?.replayMs ?? 0) * 10) / 60_000) + 10, maxMaxMinutes);
  try {
    const { verdict, text } = await replayVersion(context, { fleet, model: versionId, maxMinutes });
    return verdict === "proved" ? undefined : `${verdict}, ${text}`;
  } catch (error) {
    if (!isStemmaError(error) || error.code === "DISK_FULL" || error.code === "QUOTA_EXCEEDED") throw error;
    return messageOf(error);
  }
}
