/**
 * Tells devices that a trial on their live inputs is over where the version did not pass: they end it and remove the
 * version. A device that is not connected is told when it is back.
 */
import { mapConcurrent } from "../../../shared/concurrency/map-concurrent.js";
import { messageOf } from "../../../shared/error-text.js";
import type { Clock, Log } from "../../../shared/ports.js";
import type { TrialEnd } from "../../../shared/wire/live-trial.js";
import type { LiveFleet } from "../../services/context/operations-context.js";
import type { FleetRepository } from "../../storage/repository/fleet-repository.js";
import type { RolloutState, StagedVersion } from "../../storage/repository/state/rollout-state.js";

const answerMs = 30_000;
/** Devices that are told at the same time. */
const atOnce = 16;
/** The time until a device that is connected is told again. */
const retryMs = 5_000;

/** True if a device may still have the version of a rollout on trial, which nobody wants any more. Pure. */
export function isTrialOver(
  { policy, phase, members, versionId, line }: RolloutState,
  device: string,
  staged: readonly StagedVersion[],
): boolean {
  const member = members.get(device);
  if (policy.live === undefined || member === undefined) return false;
  if (staged.some((other) => other.line === line && other.versionId === versionId)) return false;
  // What it passed is assigned to it, or was; a rollout that is paused goes on.
  if (member.judged !== undefined) return member.judged.verdict !== "passed";
  return phase === "aborted" || phase === "undone";
}

export interface TrialEnderParts {
  readonly clock: Pick<Clock, "after">;
  readonly log: Log;
  readonly fleets: { get(fleet: string): Promise<TrialRepository> };
  fleetOf(fleet: string): Promise<Pick<LiveFleet, "isOnline" | "command">>;
}
type TrialRepository = Pick<FleetRepository, "rollouts" | "rollout" | "stagedFor">;

/** Ends trials: its methods begin to tell devices, and do not wait for them. */
export class TrialEnder {
  /** The ends that a device has confirmed since this process started, or is being told. */
  readonly #notices = new Set<string>();
  /** Rollouts that ended, and whose devices were told. */
  readonly #ended = new Set<string>();
  readonly #retries = new Set<() => void>();
  #isClosed = false;

  constructor(private readonly parts: TrialEnderParts) {}

  /** A rollout did not pass a device. */
  judged(fleet: string, rollout: string, device: string): void {
    this.#tell(fleet, rollout, [device]);
  }

  /** A rollout ended. May be called again. */
  rolloutEnded(fleet: string, { name, policy, members }: RolloutState): void {
    const key = `${fleet}/${name}`;
    if (policy.live === undefined || this.#ended.has(key)) return;
    this.#ended.add(key);
    this.#tell(fleet, name, [...members.keys()]);
  }

  /** A device is connected: the trials of its newest rollouts may have ended meanwhile. */
  connected(fleet: string, device: string): void {
    this.#run(async () => {
      const repository = await this.parts.fleets.get(fleet);
      const lines = new Set<string>();
      for (const { name, policy, members, line } of [...repository.rollouts()].reverse()) {
        if (policy.live === undefined || !members.has(device) || lines.has(line)) continue;
        lines.add(line);
        this.#tell(fleet, name, [device]);
      }
    });
  }

  /** Begins nothing more. What a device still answers is not heard. */
  close(): void {
    this.#isClosed = true;
    for (const cancel of this.#retries) cancel();
  }

  #run(work: () => Promise<void>): void {
    work().catch((error: unknown) => {
      this.parts.log.warn("trials-not-ended", { text: messageOf(error) });
    });
  }

  /** Tells those devices that are connected, and may have the trial. */
  #tell(fleet: string, name: string, devices: readonly string[]): void {
    this.#run(async () => {
      const repository = await this.parts.fleets.get(fleet);
      const live = await this.parts.fleetOf(fleet);
      const rollout = repository.rollout(name);
      const over = devices.filter(
        (device) => live.isOnline(device) && isTrialOver(rollout, device, repository.stagedFor(device)),
      );
      await mapConcurrent(over, atOnce, (device) => this.#end(live, fleet, rollout, device));
    });
  }

  async #end(
    live: Pick<LiveFleet, "command">,
    fleet: string,
    { name, line, versionId }: RolloutState,
    device: string,
  ): Promise<void> {
    const key = `${fleet}/${name}/${device}`;
    if (this.#isClosed || this.#notices.has(key)) return;
    this.#notices.add(key);
    const end: TrialEnd = { line, rollout: name, versionId, end: true };
    const failed = await live.command(device, { name: "trial", body: end }, answerMs).then(
      // An agent that knows no trials has none.
      ({ code }) => (code === "" || code === "USAGE" ? undefined : code),
      messageOf,
    );
    if (failed === undefined || this.#isClosed) return;
    this.#notices.delete(key);
    this.parts.log.debug("trial-not-ended", { fleet, rollout: name, device, text: failed });
    // The failure may be a session that has only begun.
    const cancel = this.parts.clock.after(retryMs, () => {
      this.#retries.delete(cancel);
      this.#tell(fleet, name, [device]);
    });
    this.#retries.add(cancel);
  }
}
