/**
 * Asks the devices of rollouts how a version does on them, and states what came of each. As many are asked at a time as
 * each policy allows. When a device is asked again is in memory only: a server that was killed asks again.
 */
import { SerialQueue } from "../../../shared/concurrency/serial-queue.js";
import { messageOf } from "../../../shared/error-text.js";
import { isStemmaError } from "../../../shared/errors.js";
import type { Clock, Log } from "../../../shared/ports.js";
import { printable } from "../../../shared/printable.js";
import type { ServerOperations } from "../../interface/api/server-operations.js";
import { lineLeaseMs } from "../../services/context/line-leases.js";
import type { LiveFleet } from "../../services/context/operations-context.js";
import type { FleetRepository } from "../../storage/repository/fleet-repository.js";
import { firstBefore, lateMembers, type RolloutState } from "../../storage/repository/state/rollout-state.js";
import { needsOf, whyDeferred } from "./ask-devices.js";
import type { Judgement } from "./judge-device.js";
import { factsOf, judgementOf, nextAnswer } from "./next-answer.js";
import { Places } from "./places.js";
import { serverStops } from "./rollout-errors.js";
import { whyClosed } from "./windows.js";

export interface DeviceQuestionsParts {
  readonly clock: Clock;
  readonly log: Log;
  readonly operations: Pick<ServerOperations, "evaluateOnDevice">;
  /** Aborted when the server stops. */
  readonly signal: AbortSignal;
  fleetOf(
    fleet: string,
  ): Promise<Pick<LiveFleet, "isOnline" | "assigned" | "fetching" | "command" | "lineLeases">>;
  /** A rollout may go on. */
  wake(): void;
  /** A device may be asked at this time, by the monotonic clock. */
  lookAt(atMs: number): void;
  /** The device does not get the version, so that a trial of it is over. */
  trialEnded(fleet: string, rollout: string, device: string): void;
}

/** The time until a device that waits is asked again; doubles. */
const askAgainMs = { first: 1_000, last: 60_000 };
/** The same during its trial on live inputs, whose end it tells by itself. */
const askTrialMs = 10 * 60_000;
/** The number of failed measurements after which failing is a device's answer. */
const maxFailures = 3;
/** A device that is asked after this pause is offered the version once more. */
const offerAgainMs = 8_000;
/** The time until devices that fetch are looked at again: nothing else tells that a fetch has ended. */
const lookAtFetchesMs = 2_000;

interface Asked {
  isAsking: boolean;
  nextMs: number;
  pauseMs: number;
  waits: string;
  /** The number of times it could not measure, for another reason than that it has to wait. */
  failures: number;
  /** True if it has the version, and its software runs it on live inputs. */
  isOnTrial: boolean;
  /** True if it was being sent the version at the last look. */
  isFetching: boolean;
  /** True if it may not have got an offer since it connected. */
  isToOffer: boolean;
  /** The number of times it got a place: who had fewer is asked first. */
  turns: number;
}

interface AskedDevice {
  readonly device: string;
  readonly asked: Asked;
}

type LiveForQuestions = Awaited<ReturnType<DeviceQuestionsParts["fleetOf"]>>;

export class DeviceQuestions {
  readonly #judging = new SerialQueue();
  /** The questions by fleet and device, then by rollout. */
  readonly #asked = new Map<string, Map<string, Asked>>();
  /** The places by fleet and rollout. */
  readonly #places = new Map<string, Places>();
  readonly #measuring = new Set<Promise<void>>();

  constructor(private readonly parts: DeviceQuestionsParts) {}

  /** Returns why a device was not judged yet; undefined if it was not asked since the server started. */
  waits(fleet: string, rollout: string, device: string): string | undefined {
    return this.#asked.get(`${fleet}/${device}`)?.get(rollout)?.waits;
  }

  /** Asks a device on trial soon, because what it waits for is there now. */
  askSoon(fleet: string, device: string): void {
    for (const asked of this.#asked.get(`${fleet}/${device}`)?.values() ?? [])
      if (asked.isOnTrial) asked.nextMs = 0;
  }

  /** Notes that a device may have been switched off: it is offered the version again in its turn. */
  connected(fleet: string, device: string): void {
    for (const asked of this.#asked.get(`${fleet}/${device}`)?.values() ?? []) {
      if (asked.isOnTrial) continue;
      asked.isToOffer = true;
      asked.nextMs = 0;
      asked.pauseMs = askAgainMs.first;
    }
  }

  /** Asks devices that are connected, so that as many as the policy allows fetch and measure at the same time. */
  async askSome(
    repository: FleetRepository,
    rollout: RolloutState,
    devices: readonly string[],
  ): Promise<void> {
    const { fleet } = repository;
    const live = await this.parts.fleetOf(fleet);
    const nowMs = this.parts.clock.monotonic();
    const fetching = live.fetching(rollout.versionId);
    const members = [...fetching].filter((device) => rollout.members.has(device));
    const taken = new Set(this.#placesOf(fleet, rollout.name).taken(members, nowMs));
    if (members.length > 0) this.parts.lookAt(nowMs + lookAtFetchesMs);
    const waiting: AskedDevice[] = [];
    for (const device of devices) {
      const asked = this.#askedOf(fleet, rollout.name, device);
      if (asked.isAsking) taken.add(device);
      const wasFetching = asked.isFetching;
      asked.isFetching = fetching.has(device);
      if (wasFetching && !asked.isFetching) asked.nextMs = Math.min(asked.nextMs, nowMs);
      if (!asked.isAsking && !asked.isFetching) waiting.push({ device, asked });
    }
    const isFull = taken.size >= rollout.policy.atOnce;
    const due = waiting.filter(
      (one) => (!isFull || taken.has(one.device)) && this.#isDue(live, repository, rollout, one),
    );
    // Devices that have a place already come first, then who had the fewest.
    const turnOf = ({ device, asked }: AskedDevice): number => (taken.has(device) ? -1 : asked.turns);
    due.sort((a, b) => turnOf(a) - turnOf(b));
    for (const { device, asked } of due) {
      if (!taken.has(device)) {
        if (taken.size >= rollout.policy.atOnce) return;
        taken.add(device);
        asked.turns++;
      }
      asked.isAsking = true;
      const measuring = this.#ask(repository, rollout.name, device, asked).finally(() => {
        this.#measuring.delete(measuring);
      });
      this.#measuring.add(measuring);
    }
  }

  #askedOf(fleet: string, rollout: string, device: string): Asked {
    const ofDevice = this.#asked.get(`${fleet}/${device}`) ?? new Map<string, Asked>();
    const known = ofDevice.get(rollout);
    if (known !== undefined) return known;
    const asked: Asked = {
      isAsking: false,
      nextMs: 0,
      pauseMs: askAgainMs.first,
      waits: "its turn comes",
      failures: 0,
      isOnTrial: false,
      isFetching: false,
      isToOffer: true,
      turns: 0,
    };
    ofDevice.set(rollout, asked);
    this.#asked.set(`${fleet}/${device}`, ofDevice);
    return asked;
  }

  #forget(fleet: string, rollout: string, device: string): void {
    const ofDevice = this.#asked.get(`${fleet}/${device}`);
    ofDevice?.delete(rollout);
    if (ofDevice?.size === 0) this.#asked.delete(`${fleet}/${device}`);
  }

  #placesOf(fleet: string, rollout: string): Places {
    const key = `${fleet}/${rollout}`;
    const known = this.#places.get(key) ?? new Places();
    this.#places.set(key, known);
    return known;
  }

  /** True if a device may be asked now; else what it waits for is noted. */
  #isDue(
    live: LiveForQuestions,
    repository: FleetRepository,
    rollout: RolloutState,
    { device, asked }: AskedDevice,
  ): boolean {
    const known = repository.device(device);
    if (known?.state === "enrolled" && !live.isOnline(device)) return false;
    const { clock } = this.parts;
    if (asked.nextMs > clock.monotonic()) {
      this.parts.lookAt(asked.nextMs);
      return false;
    }
    const first = firstBefore(repository.rollouts(), rollout, device);
    if (first !== undefined) {
      asked.waits = `the rollout ${first.name} of this line goes first`;
      return false;
    }
    const lease = live.lineLeases.of(rollout.line);
    if (lease !== undefined) {
      asked.waits = `the line is leased: ${printable(lease.holder)}`;
      this.parts.lookAt(clock.monotonic() + lineLeaseMs);
      return false;
    }
    const closed = whyClosed(rollout.policy.windows, clock.now(), known?.labels);
    if (closed !== undefined) {
      asked.waits = closed;
      return false;
    }
    return true;
  }

  /** Asks one device; never rejects. */
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
      // An offer is due in its turn, or where the device may have lost the last one.
      const isToOffer = asked.isToOffer || (asked.pauseMs >= offerAgainMs && !asked.isOnTrial);
      if (isToOffer && live.isOnline(device)) await live.assigned(device, name);
      const answer = await this.#unlessStopped(
        nextAnswer({ operations, live }, repository, repository.rollout(name), device),
      );
      asked.isOnTrial = "isOnTrial" in answer;
      const isFetching = "isFetching" in answer;
      if (isFetching) this.#placesOf(fleet, name).begin(device, clock.monotonic());
      // Otherwise it may wait because it could not be reached.
      asked.isToOffer = !isFetching && !asked.isOnTrial;
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
          // A search took the line meanwhile: the device is asked again after it.
          if (live.lineLeases.of(rollout.line) !== undefined) return;
          await this.#judged(repository, rollout, device, judgementOf(rollout, device, measured));
          this.#forget(fleet, name, device);
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
        reject(serverStops());
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
    const { verdict, before, because } = judgement;
    const isJudged = facts[0].type === "judged";
    const places = this.#placesOf(fleet, name);
    // A device that had nothing to compare with fetches the version only now.
    if (isJudged && verdict === "passed" && before === null) places.begin(device, clock.monotonic());
    else places.end(device);
    const fields = { fleet, rollout: name, device, ...(isJudged ? { verdict } : {}), text: because };
    log.info(isJudged ? "rollout-judged" : "rollout-measured", fields);
    if (isJudged && verdict === "passed") await (await this.parts.fleetOf(fleet)).assigned(device);
    if (isJudged && verdict !== "passed") this.parts.trialEnded(fleet, name, device);
  }

  /**
   * Waits for the running questions; after the signal was aborted they end at once, as no device is waited
   * for any more.
   */
  async idle(): Promise<void> {
    await Promise.all(this.#measuring);
    await this.#judging.idle();
  }
}
