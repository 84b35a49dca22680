/**
 * The server in a simulation: the parts of a server as server/main.ts connects them, on a machine that can be killed,
 * behind a broker in memory. HTTP, TLS, webhooks and replays stay outside.
 */
// Operations load these when they are first used. A run must not depend on how long that takes.
import "../../server/operations/rollouts/rollout-operations.js";
import "../../server/operations/stores/retention-operations.js";
import "../../server/operations/devices/select-devices.js";
import "../../server/operations/devices/device-rollback.js";
import "../../server/operations/devices/device-evaluation.js";
import { ClockGuard } from "../../server/operations/configuration/clock-guard.js";
import { maxApartMs } from "../../server/access/identity/clock-judgement.js";
import { serverConfig } from "../../server/operations/configuration/config.js";
import type { LiveServer } from "../../server/services/context/operations-context.js";
import { openFleets, type OpenFleets } from "../../server/services/context/open-fleets.js";
import { eventHub } from "../../server/interface/events/event-hub.js";
import { FleetIngests } from "../../server/fleet-ingests.js";
import type { ServerOperations } from "../../server/interface/api/server-operations.js";
import { localOperations } from "../../server/operations/local-operations.js";
import { startMergeSchedule } from "../../server/operations/stores/merge-schedule.js";
import { startRetentionSchedule } from "../../server/operations/stores/retention-schedule.js";
import type { FleetIngest } from "../../server/fleet/ingest/fleet-ingest.js";
import type { FleetRepository } from "../../server/storage/repository/fleet-repository.js";
import { openHome, type Home } from "../../server/storage/repository/home.js";
import { newestFactMs } from "../../server/storage/repository/newest-fact.js";
import { RolloutRunner } from "../../server/fleet/rollout/rollout-runner.js";
import { RecentEvents } from "../../shared/adapters/recent-log.js";
import { messageWithCode } from "../../shared/error-text.js";
import { defaultRoot } from "../../shared/wire/topics.js";
import { Machine, type MachineParts, type Process } from "./machine.js";
import { MemoryBroker } from "./memory-broker.js";

export const fleet = "cars";
const home = "/home";
/** A supervisor starts a server again that ended. */
const restartMs = 5_000;

/** A server that runs. */
export interface RunningServer {
  readonly process: Process;
  readonly broker: MemoryBroker;
  readonly operations: ServerOperations;
  readonly repository: FleetRepository;
  readonly ingest: FleetIngest;
  readonly clockGuard: ClockGuard;
}

export interface ServerWatcher {
  /** The server has opened its home. */
  started(server: RunningServer): void;
  logged(event: string, fields: Readonly<Record<string, unknown>>): void;
  /** Its key was used, as it should not be. */
  signedWrongly(text: string): void;
  /** It could not start. */
  failed(error: unknown): void;
}

export class SimulatedServer {
  readonly machine: Machine;
  running: RunningServer | undefined;
  /** The broker listens before the fleets are open. */
  #broker: MemoryBroker | undefined;
  /** The next start takes the clock as it is. */
  #accept = false;

  constructor(
    private readonly parts: MachineParts & { readonly releaseAfter: "stored" | "backed-up" },
    private readonly watcher: ServerWatcher,
  ) {
    this.machine = new Machine("server", parts);
  }

  get broker(): MemoryBroker | undefined {
    return this.#broker;
  }

  start(): void {
    if (this.machine.isRunning) return;
    const process = this.machine.begin((event, fields) => {
      this.watcher.logged(event, fields);
    });
    this.#open(process).then(
      (running) => {
        if (!process.isRunning) return;
        this.running = running;
        this.watcher.started(running);
      },
      (error: unknown) => {
        if (!process.isRunning) return;
        this.parts.events.note("server", "not-started", messageWithCode(error));
        this.watcher.failed(error);
        this.end("killed");
        this.startLater();
      },
    );
  }

  get isClockInDoubt(): boolean {
    return this.running?.clockGuard.doubt !== undefined;
  }

  /** A person finds the clock right, and starts the server with --accept-clock. */
  acceptClock(): void {
    this.#accept = true;
    this.end("killed");
    this.start();
  }

  startLater(delayMs = restartMs): void {
    this.parts.time.after(delayMs, () => {
      this.start();
    });
  }

  end(how: "killed" | "lost its power"): void {
    if (!this.machine.isRunning) return;
    this.parts.events.note("server", how);
    const broker = this.#broker;
    this.#broker = undefined;
    this.running = undefined;
    if (how === "killed") this.machine.kill();
    else this.machine.losePower();
    broker?.die(how === "lost its power");
  }

  async #open(process: Process): Promise<RunningServer> {
    const { files, clock, random, log } = process;
    const { releaseAfter } = this.parts;
    const limits = { coding: false };
    const config = serverConfig({ home, fleets: [fleet], tls: "none", limits, releaseAfter });
    const opened = await openHome(home, {
      files,
      clock,
      random,
      log,
      indexEveryFacts: 64,
      journalBlockLevel: 4,
    });
    this.#watchKey(opened, process);
    const fleets = openFleets(opened);
    const accept = this.#accept;
    this.#accept = false;
    const newestOfFleet = (): Promise<number> => newestFactMs(files, opened.fleetFolder(fleet));
    const clockGuard = await ClockGuard.open({ home: opened, newestFactMs: newestOfFleet, accept, log });
    const repository = await fleets.get(fleet, { create: true });
    const events = eventHub(clock);
    const ingests = new FleetIngests({ config, home: opened, fleets, events, log });
    const broker = new MemoryBroker(process, (attempt) => ingests.authenticate(attempt));
    this.#broker = broker;
    clockGuard.whenDoubted(() => {
      void ingests.endSessions();
    });
    await ingests.start(broker, [fleet]);
    void fleets.failed.then(() => {
      if (!process.isRunning) return;
      this.parts.events.note("server", "journal-stopped");
      this.end("killed");
      this.startLater();
    });
    const rollouts = new RolloutRunner({
      clock,
      log,
      fleets,
      events,
      operations: {
        devices: (input) => operations.devices(input),
        evaluateOnDevice: (input) => operations.evaluateOnDevice(input),
      },
      fleetOf: (name) => ingests.get(name),
    });
    const live = liveServer({ ingests, rollouts, events, clock });
    const operations = localOperations({
      ...{ home: opened, fleets, version: "simulated", live },
      caller: { who: "simulation", through: "command" },
    });
    this.#schedule({ process, home: opened, fleets, operations, ingests });
    rollouts.start();
    return { process, broker, operations, repository, clockGuard, ingest: await ingests.get(fleet) };
  }

  /**
   * Nothing is signed while the clock is wrong and was another at the start; a clock that was behind may be set ahead.
   */
  #watchKey({ signer }: Home, process: Process): void {
    const beganMs = this.machine.wallErrorMs;
    const sign = signer.sign.bind(signer);
    signer.sign = (message) => {
      const signature = sign(message);
      const { wallErrorMs } = this.machine;
      const apartMs = wallErrorMs - beganMs;
      const isAhead = beganMs < 0 && apartMs > 0;
      if (process.isRunning && Math.min(Math.abs(apartMs), Math.abs(wallErrorMs)) > maxApartMs && !isAhead)
        this.watcher.signedWrongly(`the server signed while its clock was ${apartMs} ms off since its start`);
      return signature;
    };
  }

  #schedule({
    process: { clock, log },
    fleets,
    operations,
    ingests,
  }: {
    readonly process: Process;
    readonly home: Home;
    readonly fleets: OpenFleets;
    readonly operations: ServerOperations;
    readonly ingests: FleetIngests;
  }): void {
    startRetentionSchedule({ operations, fleets: () => fleets.names(), clock, log });
    startMergeSchedule({
      fleets: () => fleets.opened(),
      isBusy: async (name) => (await ingests.get(name)).figures.receptions > 0,
      clock,
      log,
    });
  }
}

function liveServer({
  ingests,
  rollouts,
  events,
  clock,
}: {
  readonly ingests: FleetIngests;
  readonly rollouts: RolloutRunner;
  readonly events: LiveServer["events"];
  readonly clock: Process["clock"];
}): LiveServer {
  return {
    mqttUrl: "mqtt://simulated:1883",
    httpUrl: () => undefined,
    enrolment: {
      mqtt: ["mqtt://simulated:1883"],
      http: undefined,
      ca: undefined,
      root: defaultRoot,
      takesTokens: true,
    },
    authority: undefined,
    requireClock: () => undefined,
    events,
    recentLog: new RecentEvents(clock),
    replays: { running: undefined, wake: () => undefined, stop: () => undefined },
    rollouts,
    webhooks: { stateOf: () => ({}), forget: () => undefined },
    fleet: (name) => ingests.get(name),
  };
}
