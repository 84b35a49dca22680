/**
 * Asks the devices of rollouts how a version does on them, as many at a time as each policy allows, and states what
 * came of each. When a device is asked again is in memory only: a server that was killed asks again.
 */
import { SerialQueue } from "../../shared/concurrency/serial-queue.js";
import { messageOf } from "../../shared/error-text.js";
import { isStemmaError, StemmaError } from "../../shared/errors.js";
import type { Clock, Log } from "../../shared/ports.js";
import type { ServerOperations } from "../api/server-operations.js";
import type { LiveFleet } from "../context/operations-context.js";
import type { FleetRepository } from "../repository/fleet-repository.js";
import { firstBefore, lateMembers, type RolloutState } from "../repository/state/rollout-state.js";
import { needsOf, whyDeferred } from "./ask-devices.js";
import type { Judgement } from "./judge-device.js";
import { factsOf, judgementOf, nextAnswer } from "./next-answer.js";
import { isOpenAt, offsetOf } from "./windows.js";

export interface DeviceQuestionsParts {
  readonly clock: Clock;
  readonly log: Log;
  readonly operations: Pick<ServerOperations, "evaluateOnDevice">;
  /** Aborted when the server stops. */
  readonly signal: AbortSignal;
  fleetOf(fleet: string): Promise<Pick<LiveFleet, "isOnline" | "assigned" | "command">>;
  /** A rollout may go on. */
  wake(): void;
  /** A device may be asked at this time, by the monotonic clock. */
  lookAt(atMs: number): void;
  /** The device does not get the version, so that a trial of it is over. */
  trialEnded(fleet: string, rollout: string, device: string): void;
}

/** Until a device that waits is asked again; doubles. */
const askAgainMs = { first: 1_000, last: 60_000 };
/** The same during its trial on live inputs, whose end it tells by itself. */
const askTrialMs = 10 * 60_000;
/** How often a device may fail to measure before that is its answer. */
const maxFailures = 3;
/** A device that is asked after this pause is offered the version once more. */
const offerAgainMs = 8_000;

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

export class DeviceQuestions {
  readonly #judging = new SerialQueue();
  readonly #asked = new Map<string, Asked>();
  readonly #measuring = new Set<Promise<void>>();

  constructor(private readonly parts: DeviceQuestionsParts) {}

  /** Why a device was not judged yet; undefined: it was not asked since the server started. */
  waits(fleet: string, rollout: string, device: string): string | undefined {
    return this.#asked.get(keyOf(fleet, rollout, device))?.waits;
  }

  /** What a device on trial waits for is there now. */
  askSoon(fleet: string, device: string): void {
    for (const [key, asked] of this.#asked)
      if (asked.isOnTrial && key.startsWith(`${fleet}/`) && key.endsWith(`/${device}`)) asked.nextMs = 0;
  }

  /** Asks devices that are connected, as many at the same time as the policy allows. */
  async askSome(
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
        this.parts.lookAt(now.nextMs);
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
      this.parts.wake();
    }
  }

  /** A device may take minutes to answer. @throws INTERRUPTED */
  async #unlessStopped<T>(work: Promise<T>): Promise<T> {
    const { signal } = this.parts;
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
    if (isJudged && verdict === "passed") await (await this.parts.fleetOf(fleet)).assigned(device);
    if (isJudged && verdict !== "passed") this.parts.trialEnded(fleet, name, device);
  }

  /** After the signal was aborted: no device is waited for any more, so questions end at once. */
  async idle(): Promise<void> {
    await Promise.all(this.#measuring);
    await this.#judging.idle();
  }
}

function keyOf(fleet: string, rollout: string, device: string): string {
  return `${fleet}/${rollout}/${device}`;
}
