/**
 * Carries the running rollouts of a server's fleets forward. Everything that a rollout decided is a fact, so a server
 * that was killed goes on where it was; only which device is asked again when is in memory.
 */
import { SerialQueue } from "../../shared/concurrency/serial-queue.js";
import { messageOf } from "../../shared/error-text.js";
import { isStemmaError, StemmaError } from "../../shared/errors.js";
import type { PlannedTransfer } from "../../shared/journal/facts/rollout-facts.js";
import type { Clock, Log } from "../../shared/ports.js";
import { switchRefused, trialComplete } from "../../shared/wire/device-events.js";
import type { ServerEvent } from "../api/event-schemas.js";
import type { ServerOperations } from "../api/server-operations.js";
import type { OpenFleets } from "../context/open-fleets.js";
import type { LiveFleet } from "../context/operations-context.js";
import type { EventHub } from "../events/event-hub.js";
import type { FleetRepository } from "../repository/fleet-repository.js";
import { maxWaveFactDevices } from "../repository/state/fact-schemas.js";
import { firstBefore, lateMembers, type RolloutState } from "../repository/state/rollout-state.js";
import { chooseDevices } from "./choose-devices.js";
import { needsOf, whyDeferred } from "./ask-devices.js";
import { familyOf } from "./family.js";
import { TrialEnder } from "./end-trials.js";
import type { Judgement } from "./judge-device.js";
import { factsOf, judgementOf, nextAnswer } from "./next-answer.js";
import { nextStep, nextWave, type Step } from "./next-step.js";
import { planTransfers } from "./plan-transfers.js";
import { noteSwitchRefused } from "./switch-refused.js";
import { returnsOf, undo } from "./undo.js";
import { isOpenAt, offsetOf } from "./windows.js";

export interface RolloutRunnerParts {
  readonly clock: Clock;
  readonly log: Log;
  readonly fleets: OpenFleets;
  readonly events: Pick<EventHub, "listen">;
  readonly operations: Pick<ServerOperations, "devices" | "evaluateOnDevice">;
  fleetOf(
    fleet: string,
  ): Promise<Pick<LiveFleet, "isOnline" | "assigned" | "predict" | "sendBytesPerSecond" | "command">>;
}

/** While a rollout runs it is looked at in intervals, too: a selection may depend on the time. */
const lookMs = 5_000;
/** Between two looks, at least: in a large fleet many devices change at the same time. */
const minLookMs = 100;
/** Until a device that waits is asked again; doubles. */
const askAgainMs = { first: 1_000, last: 60_000 };
/** The same during its trial on live inputs, whose end it tells by itself. */
const askTrialMs = 10 * 60_000;
/** How often a device may fail to measure before that is its answer. */
const maxFailures = 3;
/** A device that is asked after this pause is offered the version once more. */
const offerAgainMs = 8_000;
/** Events after which a rollout may go on. */
const wakers: ReadonlySet<ServerEvent["event"]> = new Set([
  "device-connected",
  "activated",
  "recorded",
  "device-event",
]);

type DeviceEvent = Extract<ServerEvent, { readonly event: "device-event" }>;

interface Asked {
  isAsking: boolean;
  nextMs: number;
  pauseMs: number;
  waits: string;
  /** How often it could not measure, for another reason than that it has to wait. */
  failures: number;
  /** It has the version, and its software runs it on live inputs. */
  isOnTrial: boolean;
}

export class RolloutRunner {
  readonly #stop = new AbortController();
  readonly #work = new SerialQueue();
  readonly #judging = new SerialQueue();
  readonly #asked = new Map<string, Asked>();
  readonly #measuring = new Set<Promise<void>>();
  /** Rollouts whose undo was seen to be complete. */
  readonly #undone = new Set<string>();
  readonly #trials: TrialEnder;
  /** When the next look is due, by the monotonic clock. */
  #dueMs = Infinity;
  #lookedMs = -Infinity;
  #cancelTimer: () => void = () => undefined;
  #listening: Promise<void> | undefined;

  constructor(private readonly parts: RolloutRunnerParts) {
    this.#trials = new TrialEnder(parts);
  }

  start(): void {
    this.#listening = this.#listen();
    this.wake();
  }

  /** Something changed that a rollout may wait for. */
  wake(): void {
    this.#lookAt(this.#lookedMs + minLookMs);
  }

  /** Why a device was not judged yet; undefined: it was not asked since the server started. */
  waits(fleet: string, rollout: string, device: string): string | undefined {
    return this.#asked.get(keyOf(fleet, rollout, device))?.waits;
  }

  async close(): Promise<void> {
    this.#stop.abort();
    this.#trials.close();
    this.#cancelTimer();
    await this.#listening;
    await this.#work.idle();
    // They end at once, since nobody waits for a device any more.
    await Promise.all(this.#measuring);
    await this.#judging.idle();
  }

  async #listen(): Promise<void> {
    for await (const event of this.parts.events.listen(this.#stop.signal)) {
      if (event.event === "device-event" && event.name === switchRefused) await this.#switchRefused(event);
      if (event.event === "device-event" && event.name === trialComplete) this.#askSoon(event);
      if (event.event === "device-connected") this.#trials.connected(event.fleet, event.device);
      if (wakers.has(event.event)) this.wake();
    }
  }

  /** What it waits for is there now. */
  #askSoon({ fleet, device }: Pick<DeviceEvent, "fleet" | "device">): void {
    for (const [key, asked] of this.#asked)
      if (asked.isOnTrial && key.startsWith(`${fleet}/`) && key.endsWith(`/${device}`)) asked.nextMs = 0;
  }

  /** Never rejects: the device says so again where it is offered the version again. */
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
          // Such as a person who paused it at this moment: the next look sees that.
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
          repository.isAssignmentAnswered(device, line),
      });
      if (await this.#take(repository, rollout, step)) return;
    }
  }

  /** Devices that were silent until the rollout had ended, and are connected now. */
  async #askLate(repository: FleetRepository, rollout: RolloutState): Promise<void> {
    const late = lateMembers(repository.rollouts(), rollout);
    if (late.length > 0) await this.#askSome(repository, rollout, late);
  }

  /** @returns whether the rollout has reached all devices */
  async #beginWave(repository: FleetRepository, rollout: RolloutState): Promise<boolean> {
    const { clock, operations, log } = this.parts;
    const { fleet } = repository;
    const { name, versionId, select } = rollout;
    const selected = await operations.devices({ fleet, select });
    const family = familyOf(repository, versionId);
    const { candidates } = chooseDevices(rollout, selected, repository.rollouts(), family);
    const devices = nextWave(rollout, candidates);
    const wave = rollout.wave + 1;
    const planned = await this.#planned(repository, rollout, devices);
    for (let at = 0; at < devices.length; at += maxWaveFactDevices)
      await repository.append({
        type: "wave",
        atMs: clock.now(),
        rollout: name,
        wave,
        devices: devices.slice(at, at + maxWaveFactDevices),
        ...(planned === undefined ? {} : { planned: planned.slice(at, at + maxWaveFactDevices) }),
      });
    if (devices.length > 0) log.info("rollout-wave", { fleet, rollout: name, wave, devices: devices.length });
    return devices.length === 0;
  }

  /** For the report; a rollout goes on without it. */
  async #planned(
    repository: FleetRepository,
    { name, line, versionId, policy }: RolloutState,
    devices: readonly string[],
  ): Promise<readonly PlannedTransfer[] | undefined> {
    const summary = repository.get(versionId);
    if (summary === undefined || devices.length === 0) return undefined;
    try {
      const live = await this.parts.fleetOf(repository.fleet);
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
      this.parts.log.warn("rollout-not-planned", {
        fleet: repository.fleet,
        rollout: name,
        code: error.code,
        message: error.message,
      });
      return undefined;
    }
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
        await this.#askSome(repository, rollout, step.devices);
        return true;
      case "choose":
        if (!(await this.#beginWave(repository, rollout))) return false;
        await this.#setPhase(repository, name, "done", "no device is left");
        return true;
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
    await this.#offer(fleet, [...members.keys()]);
  }

  /** A server that was killed during an undo goes on with it. */
  async #finishUndo(repository: FleetRepository, rollout: RolloutState): Promise<void> {
    const key = keyOf(repository.fleet, rollout.name, "");
    if (this.#undone.has(key)) return;
    this.#undone.add(key);
    if (returnsOf(repository, rollout).some(({ to }) => to !== null)) {
      await undo(repository, rollout, { atMs: this.parts.clock.now(), because: rollout.because });
      await this.#offerReturns(repository, rollout);
    }
  }

  async #offer(fleet: string, devices: readonly string[]): Promise<void> {
    const live = await this.parts.fleetOf(fleet);
    for (const device of devices) await live.assigned(device);
  }

  /** Asks devices that are connected, as many at the same time as the policy allows. */
  async #askSome(
    repository: FleetRepository,
    rollout: RolloutState,
    devices: readonly string[],
  ): Promise<void> {
    const { fleet } = repository;
    const live = await this.parts.fleetOf(fleet);
    const nowMs = this.parts.clock.monotonic();
    const asked = devices.map((device) => {
      const key = keyOf(fleet, rollout.name, device);
      const known = this.#asked.get(key);
      const now = known ?? {
        isAsking: false,
        nextMs: 0,
        pauseMs: askAgainMs.first,
        waits: "its turn comes",
        failures: 0,
        isOnTrial: false,
      };
      if (known === undefined) this.#asked.set(key, now);
      return { device, key, now };
    });
    let free = rollout.policy.atOnce - asked.filter(({ now }) => now.isAsking).length;
    for (const { device, now } of asked) {
      const isGone = repository.device(device)?.state !== "enrolled";
      if (free <= 0) return;
      if (now.isAsking || (!isGone && !live.isOnline(device))) continue;
      const first = firstBefore(repository.rollouts(), rollout, device);
      if (first !== undefined) {
        now.waits = `the rollout ${first.name} of this line goes first`;
        continue;
      }
      const offsetMinutes = offsetOf(repository.device(device)?.labels);
      if (!isOpenAt(rollout.policy.windows, this.parts.clock.now(), offsetMinutes)) {
        now.waits = "its window is closed";
        continue;
      }
      if (now.nextMs > nowMs) {
        this.#lookAt(now.nextMs);
        continue;
      }
      free--;
      now.isAsking = true;
      const measuring = this.#ask(repository, rollout.name, device, now).finally(() => {
        this.#measuring.delete(measuring);
      });
      this.#measuring.add(measuring);
    }
  }

  /** Never rejects. */
  async #ask(repository: FleetRepository, name: string, device: string, asked: Asked): Promise<void> {
    const { operations, clock, log } = this.parts;
    const { fleet } = repository;
    try {
      const live = await this.parts.fleetOf(fleet);
      const deferred = await whyDeferred(live, device, needsOf(repository.rollout(name).policy));
      if (deferred !== undefined) {
        asked.waits = deferred;
        return;
      }
      // It may have been connected when it joined, so that no birth brings it the offer; or lost the offer.
      const isToOffer = asked.nextMs === 0 || (asked.pauseMs >= offerAgainMs && !asked.isOnTrial);
      if (isToOffer && live.isOnline(device)) await live.assigned(device, name);
      const answer = await this.#unlessStopped(
        nextAnswer({ operations, live }, repository, repository.rollout(name), device),
      );
      asked.isOnTrial = "isOnTrial" in answer;
      const isFailure = "waits" in answer && answer.otherwise !== undefined;
      if (isFailure) asked.failures++;
      const measured = isFailure && asked.failures >= maxFailures ? answer.otherwise : answer;
      if ("waits" in measured) asked.waits = measured.waits;
      else
        await this.#judging.run(async () => {
          const rollout = repository.rollout(name);
          const isWaiting =
            rollout.phase === "running" || lateMembers(repository.rollouts(), rollout).includes(device);
          if (!isWaiting || rollout.members.get(device)?.judged !== undefined) return;
          // It joined another one meanwhile, which is to decide first.
          if (firstBefore(repository.rollouts(), rollout, device) !== undefined) return;
          await this.#judged(repository, rollout, device, judgementOf(rollout, device, measured));
          this.#asked.delete(keyOf(fleet, name, device));
        });
    } catch (error) {
      asked.waits = messageOf(error);
      if (!isStemmaError(error))
        log.warn("rollout-delayed", { fleet, rollout: name, device, message: asked.waits });
    } finally {
      asked.isAsking = false;
      asked.nextMs = clock.monotonic() + asked.pauseMs;
      asked.pauseMs = Math.min(2 * asked.pauseMs, asked.isOnTrial ? askTrialMs : askAgainMs.last);
      this.wake();
    }
  }

  /** A device may take minutes to answer. @throws INTERRUPTED */
  async #unlessStopped<T>(work: Promise<T>): Promise<T> {
    const { signal } = this.#stop;
    let stop: () => void = () => undefined;
    const stopped = new Promise<never>((_, reject) => {
      stop = () => {
        reject(
          new StemmaError("INTERRUPTED", "The server stops; the rollout goes on when it is started again."),
        );
      };
      signal.addEventListener("abort", stop, { once: true });
      if (signal.aborted) stop();
    });
    try {
      return await Promise.race([work, stopped]);
    } finally {
      signal.removeEventListener("abort", stop);
    }
  }

  /** The verdict, and with it the assignment where the device switches; before a trial only what it measured. */
  async #judged(
    repository: FleetRepository,
    rollout: RolloutState,
    device: string,
    judgement: Judgement,
  ): Promise<void> {
    const { clock, log } = this.parts;
    const { fleet } = repository;
    const { name, line } = rollout;
    const facts = factsOf(rollout, device, judgement, {
      atMs: clock.now(),
      assigned: repository.assignment(device, line),
    });
    await repository.append(...facts);
    const { verdict, because } = judgement;
    const isJudged = facts[0].type === "judged";
    const fields = { fleet, rollout: name, device, ...(isJudged ? { verdict } : {}), text: because };
    log.info(isJudged ? "rollout-judged" : "rollout-measured", fields);
    if (isJudged && verdict === "passed") await this.#offer(fleet, [device]);
    if (isJudged && verdict !== "passed") this.#trials.judged(fleet, name, device);
  }
}

function keyOf(fleet: string, rollout: string, device: string): string {
  return `${fleet}/${rollout}/${device}`;
}
