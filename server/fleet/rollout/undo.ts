/** Returns the devices of a rollout to what they ran before it. */
import type { Hash } from "../../../shared/tensor/tensor.js";
import type { FleetRepository } from "../../storage/repository/fleet-repository.js";
import type { RolloutState } from "../../storage/repository/state/rollout-state.js";

export interface Return {
  readonly device: string;
  /** Null: it ran nothing before, and keeps what it has. */
  readonly to: Hash | null;
}

/**
 * Returns which version an undo gives to which device: to those that run what the rollout assigned, and were
 * given nothing else since.
 */
export function returnsOf(
  repository: Pick<FleetRepository, "device">,
  { name, line, versionId, members }: Pick<RolloutState, "name" | "line" | "versionId" | "members">,
): readonly Return[] {
  return [...members.values()].flatMap(({ device, judged }) => {
    const known = repository.device(device);
    const assigned = known?.assigned?.[line];
    const isOurs = assigned?.versionId === versionId && assigned.rollout === name;
    return judged?.verdict === "passed" && known?.state === "enrolled" && isOurs
      ? [{ device, to: judged.before }]
      : [];
  });
}

/** Assignments of one append. */
const perAppend = 500;

/**
 * The rollout is `undone` first, so that it gives the version to nobody in between; a server that is killed during it
 * goes on at its next start.
 * @returns the devices that get another assignment
 */
export async function undo(
  repository: FleetRepository,
  rollout: RolloutState,
  { atMs, because }: { readonly atMs: number; readonly because: string },
): Promise<readonly Return[]> {
  const returns = returnsOf(repository, rollout);
  const assignments = returns.flatMap(({ device, to }) =>
    to === null
      ? []
      : [
          {
            type: "assigned" as const,
            atMs,
            device,
            line: rollout.line,
            versionId: to,
            rollout: rollout.name,
          },
        ],
  );
  if (rollout.phase !== "undone")
    await repository.append({ type: "rollout-phase", atMs, rollout: rollout.name, phase: "undone", because });
  for (let at = 0; at < assignments.length; at += perAppend)
    await repository.append(...assignments.slice(at, at + perAppend));
  return returns;
}
