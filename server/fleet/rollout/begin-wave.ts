/** Begins waves of rollouts: chooses their devices, and notes what the transfer to each is expected to take. */
import { defined } from "../../../shared/defined.js";
import { isStemmaError } from "../../../shared/errors.js";
import type { PlannedTransfer } from "../../../shared/journal/facts/rollout-facts.js";
import type { Clock, Log } from "../../../shared/ports.js";
import type { ServerOperations } from "../../interface/api/server-operations.js";
import type { LiveFleet } from "../../services/context/operations-context.js";
import type { FleetRepository } from "../../storage/repository/fleet-repository.js";
import { maxWaveFactDevices } from "../../storage/repository/state/fact-schemas.js";
import type { RolloutState } from "../../storage/repository/state/rollout-state.js";
import { chooseDevices } from "./choose-devices.js";
import { standingsOf } from "./family.js";
import { nextWave } from "./next-step.js";
import { planTransfers } from "./plan-transfers.js";
import type { Unreached } from "./unreached.js";

export interface WaveParts {
  readonly clock: Clock;
  readonly log: Log;
  readonly operations: Pick<ServerOperations, "devices">;
  fleetOf(fleet: string): Promise<Pick<LiveFleet, "predict" | "sendBytesPerSecond">>;
}

/** @returns the selected devices that cannot join, where none can; undefined: the wave has begun */
export async function beginWave(
  parts: WaveParts,
  repository: FleetRepository,
  rollout: RolloutState,
): Promise<readonly Unreached[] | undefined> {
  const { clock, operations, log } = parts;
  const { fleet } = repository;
  const { name, select } = rollout;
  const selected = await operations.devices({ fleet, select });
  const standings = standingsOf(repository, rollout);
  const { candidates, excluded } = chooseDevices(rollout, selected, repository.rollouts(), standings);
  const devices = nextWave(rollout, candidates);
  if (devices.length === 0) return excluded.filter(({ device }) => !rollout.members.has(device));
  const wave = rollout.wave + 1;
  const planned = await plannedTransfers(parts, repository, rollout, devices);
  for (let at = 0; at < devices.length; at += maxWaveFactDevices)
    await repository.append({
      type: "wave",
      atMs: clock.now(),
      rollout: name,
      wave,
      devices: devices.slice(at, at + maxWaveFactDevices),
      ...defined({ planned: planned?.slice(at, at + maxWaveFactDevices) }),
    });
  log.info("rollout-wave", { fleet, rollout: name, wave, devices: devices.length });
  return undefined;
}

/** Plans transfers for the report; a rollout goes on without it. */
async function plannedTransfers(
  parts: Pick<WaveParts, "fleetOf" | "log">,
  repository: FleetRepository,
  { name, line, versionId, policy }: RolloutState,
  devices: readonly string[],
): Promise<readonly PlannedTransfer[] | undefined> {
  const summary = repository.get(versionId);
  if (summary === undefined || devices.length === 0) return undefined;
  try {
    const live = await parts.fleetOf(repository.fleet);
    const found = await planTransfers(repository, live, {
      summary,
      line,
      devices,
      maxBytesPerSecond: policy.maxBytesPerSecond,
    });
    return devices.map((device) => {
      const { bytes = 0, ms = null } = found.get(device) ?? {};
      return { bytes, ms };
    });
  } catch (error) {
    if (!isStemmaError(error)) throw error;
    parts.log.warn("rollout-not-planned", {
      fleet: repository.fleet,
      rollout: name,
      code: error.code,
      message: error.message,
    });
    return undefined;
  }
}
