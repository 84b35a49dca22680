/** A hook of a device refused the version that a rollout had given it: the device is back on what it ran. */
import type { FleetRepository } from "../../storage/repository/fleet-repository.js";

interface Refusal {
  readonly device: string;
  readonly line: string;
  /** The refused version; undefined: an agent of an earlier release does not name it. */
  readonly versionId?: string | undefined;
  readonly because: string;
  readonly atMs: number;
}

/** Longest reason in the journal, in UTF-16 code units. */
const maxBecause = 500;

/**
 * The device counts as failed in its rollout, and is assigned what it runs, so that it does not try again at each of
 * its connections. What no rollout gave it stays assigned.
 * @returns the rollout; undefined: none is concerned
 */
export async function noteSwitchRefused(
  repository: Pick<FleetRepository, "device" | "rollouts" | "isAssignmentAnswered" | "append">,
  { device, line, versionId: refused, because, atMs }: Refusal,
): Promise<string | undefined> {
  const assigned = repository.device(device)?.assigned?.[line];
  if (assigned?.rollout === undefined || repository.isAssignmentAnswered(device, line)) return undefined;
  // It may have refused another one again, which was offered to it when it connected.
  if (refused !== undefined && refused !== assigned.versionId) return undefined;
  const found = repository
    .rollouts()
    .find(({ name, versionId }) => name === assigned.rollout && versionId === assigned.versionId);
  const judged = found?.members.get(device)?.judged;
  const isOpen = found?.phase === "running" || found?.phase === "done";
  if (found === undefined || !isOpen || judged?.verdict !== "passed") return undefined;
  const { name: rollout } = found;
  await repository.append(
    { type: "switch-failed", atMs, rollout, device, because: because.slice(0, maxBecause) },
    ...(judged.before === null
      ? []
      : [{ type: "assigned" as const, atMs, device, line, versionId: judged.before, rollout }]),
  );
  return rollout;
}
