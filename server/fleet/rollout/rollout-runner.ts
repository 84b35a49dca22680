/**
 * Carries the running rollouts of a server's fleets forward. Everything that a rollout decided is a fact, so a server
 * that was killed goes on where it was.
 */
import { SerialQueue } from "../../../shared/concurrency/serial-queue.js";
import { messageOf } from "../../../shared/error-text.js";
import type { Clock, Log } from "../../../shared/ports.js";
import { switchRefused, trialComplete } from "../../../shared/wire/device-events.js";
import type { ServerEvent } from "../../interface/api/event-schemas.js";
import type { ServerOperations } from "../../interface/api/server-operations.js";
import type { OpenFleets } from "../../services/context/open-fleets.js";
import type { LiveFleet } from "../../services/context/operations-context.js";
import type { EventHub } from "../../interface/events/event-hub.js";
import type { FleetRepository } from "../../storage/repository/fleet-repository.js";
import { lateMembers, type RolloutState } from "../../storage/repository/state/rollout-state.js";
import { beginWave } from "./begin-wave.js";
import { TrialEnder } from "./end-trials.js";
import { nextStep, stepWithoutDevices, type Step } from "./next-step.js";
import { DeviceQuestions } from "./question-devices.js";
import { noteSwitchRefused } from "./switch-refused.js";
import { returnsOf, undo } from "./undo.js";

export interface RolloutRunnerParts {
  readonly clock: Clock;
  readonly log: Log;
  readonly fleets: OpenFleets;
  readonly events: Pick<EventHub, "listen">;
  readonly operations: Pick<ServerOperations, "devices" | "evaluateOnDevice">;
  fleetOf(
    fleet: string,
  ): Promise<
    Pick<
      LiveFleet,
      "isOnline" | "assigned" | "fetching" | "predict" | "sendBytesPerSecond" | "command" | "lineLeases"
    >
  >;
}

/** The interval of looks at a running rollout: a selection may depend on the time. */
const lookMs = 5_000;
/** The least time between two looks: in a large fleet many devices change at the same time. */
const minLookMs = 100;
/** Events after which a rollout may go on. */
const wakers: ReadonlySet<ServerEvent["event"]> = new Set([
  "device-connected",
  "activated",
  "recorded",
  "device-event",
]);

type DeviceEvent = Extract<ServerEvent, { readonly event: "device-event" }>;

export class RolloutRunner {
  readonly #stop = new AbortController();
  readonly #work = new SerialQueue();
  /** Rollouts whose undo was seen to be complete. */
  readonly #undone = new Set<string>();
  readonly #trials: TrialEnder;
  readonly #questions: DeviceQuestions;
  /** The time of the next look, by the monotonic clock. */
  #dueMs = Infinity;
  #lookedMs = -Infinity;
  #cancelTimer: () => void = () => undefined;
  #listening: Promise<void> | undefined;

  constructor(private readonly parts: RolloutRunnerParts) {
    this.#trials = new TrialEnder(parts);
    this.#questions = new DeviceQuestions({
      ...parts,
      signal: this.#stop.signal,
      wake: () => {
        this.wake();
      },
      lookAt: (atMs) => {
        this.#lookAt(atMs);
      },
      trialEnded: (fleet, rollout, device) => {
        this.#trials.judged(fleet, rollout, device);
      },
    });
  }

  start(): void {
    this.#listening = this.#listen();
    this.wake();
  }

  /** Looks again, because something changed that a rollout may wait for. */
  wake(): void {
    this.#lookAt(this.#lookedMs + minLookMs);
  }

  /** Returns why a device was not judged yet; undefined if it was not asked since the server started. */
  waits(fleet: string, rollout: string, device: string): string | undefined {
    return this.#questions.waits(fleet, rollout, device);
  }

  async close(): Promise<void> {
    this.#stop.abort();
    this.#trials.close();
    this.#cancelTimer();
    await this.#listening;
    await this.#work.idle();
    await this.#questions.idle();
  }

  async #listen(): Promise<void> {
    for await (const event of this.parts.events.listen(this.#stop.signal)) {
      if (event.event === "device-event" && event.name === switchRefused) await this.#switchRefused(event);
      if (event.event === "device-event" && event.name === trialComplete)
        this.#questions.askSoon(event.fleet, event.device);
      if (event.event === "device-connected") {
        this.#trials.connected(event.fleet, event.device);
        this.#questions.connected(event.fleet, event.device);
      }
      if (wakers.has(event.event)) this.wake();
    }
  }

  /** Handles a refused switch, and never rejects: the device says so again where it is offered the version again. */
  async #switchRefused({ fleet, device, line, text, versionId }: DeviceEvent): Promise<void> {
    const { fleets, clock, log } = this.parts;
    try {
      const refusal = { device, line, versionId, because: text, atMs: clock.now() };
      const rollout = await noteSwitchRefused(await fleets.get(fleet), refusal);
      if (rollout !== undefined) log.warn("rollout-switch-failed", { fleet, rollout, device, text });
    } catch (error) {
      log.warn("rollout-delayed", { fleet, device, message: messageOf(error) });
    }
  }

  /** Looks at this time, or earlier where that was asked for. */
  #lookAt(atMs: number): void {
    if (atMs >= this.#dueMs || this.#stop.signal.aborted) return;
    this.#dueMs = atMs;
    this.#cancelTimer();
    this.#cancelTimer = this.parts.clock.after(Math.max(0, atMs - this.parts.clock.monotonic()), () => {
      this.#dueMs = Infinity;
      this.#work
        .run(() => this.#lookAtAll())
        .catch((error: unknown) => {
          this.parts.log.error("rollouts-stopped", { message: messageOf(error) });
          this.#lookAt(this.parts.clock.monotonic() + lookMs);
        });
    });
  }

  async #lookAtAll(): Promise<void> {
    this.#lookedMs = this.parts.clock.monotonic();
    let isRunning = false;
    for (const fleet of await this.parts.fleets.names()) {
      const repository = await this.parts.fleets.get(fleet);
      for (const rollout of repository.rollouts()) {
        const { name, phase } = rollout;
        if (phase === "undone") await this.#finishUndo(repository, rollout);
        if (phase === "done") await this.#askLate(repository, rollout);
        if (phase === "aborted" || phase === "undone") this.#trials.rolloutEnded(repository.fleet, rollout);
        if (phase !== "running" || this.#stop.signal.aborted) continue;
        isRunning = true;
        await this.#advance(repository, name).catch((error: unknown) => {
          // A person may have paused it at this moment: the next look sees that.
          this.parts.log.warn("rollout-delayed", { fleet, rollout: name, message: messageOf(error) });
        });
      }
    }
    if (isRunning) this.#lookAt(this.#lookedMs + lookMs);
  }

  /** Takes steps until the rollout waits for something. */
  async #advance(repository: FleetRepository, name: string): Promise<void> {
    for (;;) {
      const rollout = repository.rollout(name);
      if (rollout.phase !== "running" || this.#stop.signal.aborted) return;
      const { line, versionId } = rollout;
      const step = nextStep(rollout, {
        nowMs: this.parts.clock.now(),
        hasSwitched: (device) =>
          repository.device(device)?.state !== "enrolled" ||
          repository.assignment(device, line) !== versionId ||
          repository.hasSwitched(device, line, versionId),
      });
      if (await this.#take(repository, rollout, step)) return;
    }
  }

  /** Devices that were silent until the rollout had ended, and are connected now. */
  async #askLate(repository: FleetRepository, rollout: RolloutState): Promise<void> {
    const late = lateMembers(repository.rollouts(), rollout);
    if (late.length > 0) await this.#questions.askSome(repository, rollout, late);
  }

  /** @returns whether the rollout waits now */
  async #take(repository: FleetRepository, rollout: RolloutState, step: Step): Promise<boolean> {
    const { name, policy } = rollout;
    const { fleet } = repository;
    const { log, clock } = this.parts;
    switch (step.do) {
      case "wait":
        return true;
      case "judge":
        await this.#questions.askSome(repository, rollout, step.devices);
        return true;
      case "choose":
        return this.#beginWave(repository, rollout);
      case "end":
        await this.#setPhase(repository, name, "done", "every wave has ended");
        return true;
      case "expire":
        await this.#setPhase(repository, name, "aborted", step.because);
        return true;
      case "fail":
        log.warn("rollout-failed", { fleet, rollout: name, text: step.because });
        if (policy.onFailure === "undo") {
          await undo(repository, rollout, { atMs: clock.now(), because: step.because });
          await this.#offerReturns(repository, rollout);
        } else await this.#setPhase(repository, name, "paused", step.because);
        return true;
    }
  }

  /** @returns whether the rollout waits now */
  async #beginWave(repository: FleetRepository, rollout: RolloutState): Promise<boolean> {
    const unreached = await beginWave(this.parts, repository, rollout);
    if (unreached === undefined) return false;
    const ended = stepWithoutDevices(rollout, unreached);
    if (ended !== undefined) await this.#setPhase(repository, rollout.name, ended.phase, ended.because);
    return true;
  }

  async #setPhase(
    repository: FleetRepository,
    rollout: string,
    phase: "paused" | "done" | "aborted",
    because: string,
  ): Promise<void> {
    const { clock, log } = this.parts;
    await repository.append({ type: "rollout-phase", atMs: clock.now(), rollout, phase, because });
    log.info("rollout-phase", { fleet: repository.fleet, rollout, phase, text: because });
  }

  async #offerReturns({ fleet }: FleetRepository, { members }: RolloutState): Promise<void> {
    const live = await this.parts.fleetOf(fleet);
    for (const device of members.keys()) await live.assigned(device);
  }

  /** A server that was killed during an undo goes on with it. */
  async #finishUndo(repository: FleetRepository, rollout: RolloutState): Promise<void> {
    const key = `${repository.fleet}/${rollout.name}`;
    if (this.#undone.has(key)) return;
    this.#undone.add(key);
    if (returnsOf(repository, rollout).some(({ to }) => to !== null)) {
      await undo(repository, rollout, { atMs: this.parts.clock.now(), because: rollout.because });
      await this.#offerReturns(repository, rollout);
    }
  }
}
