/** The parts that the steps of a server's start share: how they are opened and closed. */
import { programVersion } from "../shared/adapters/program-version.js";
import type { Log } from "../shared/ports.js";
import type { RecentEvents } from "../shared/adapters/recent-log.js";
import type { OpenedLog } from "../shared/adapters/log.js";
import type { ServerTls } from "./access/identity/server-tls.js";
import type { ServerConfig } from "./operations/configuration/config.js";
import { refuseMisspeltFleet } from "./services/context/expected-names.js";
import { openFleets, type OpenFleets } from "./services/context/open-fleets.js";
import { eventHub, type EventHub } from "./interface/events/event-hub.js";
import { FleetIngests } from "./fleet-ingests.js";
import type { ServerStart } from "./starting.js";
import { openOwnTls, refuseTokenDevices } from "./operations/configuration/own-tls.js";
import { MemoryWatch } from "./operations/configuration/memory-watch.js";
import { readMemory } from "./storage/repository/node-memory.js";
import { ClockGuard } from "./operations/configuration/clock-guard.js";
import type { ClaimReplays } from "./fleet/ingest/uploads/claims.js";
import { ClaimRules } from "./learning/replay/claim-rules.js";
import { rebuildVersion } from "./learning/replay/rebuild-on-demand.js";
import { ReplayRunner } from "./learning/replay/replay-runner.js";
import type { Home } from "./storage/repository/home.js";
import { newestFactMs } from "./storage/repository/newest-fact.js";

/** A log, which may count the lines that it could not write. */
export type ServerLog = Log & Partial<Pick<OpenedLog, "droppedLines">>;

/** The parts with which a start begins. */
export interface GivenParts {
  readonly config: ServerConfig;
  readonly home: Home;
  readonly log: ServerLog;
  /** The newest lines of the log. */
  readonly recent: RecentEvents;
  readonly starting: ServerStart;
}

/** The parts that the steps of the start share. */
export interface Parts extends GivenParts {
  readonly fleets: OpenFleets;
  readonly events: EventHub;
  readonly ingests: FleetIngests;
  readonly replays: ReplayRunner;
  /** The TLS with the server's own authority; undefined: without TLS, or with files. */
  readonly tls: ServerTls | undefined;
  readonly clockGuard: ClockGuard;
  readonly memory: MemoryWatch;
  readonly closing: ClosingSteps;
  /** Aborted first when the server closes: ends event streams and counting. */
  readonly stopping: AbortController;
}

/** Closes the parts of the server in reverse order, as they were opened. */
export class ClosingSteps {
  readonly #steps: (() => Promise<void>)[] = [];
  add(...steps: readonly (() => Promise<void>)[]): void {
    this.#steps.push(...steps);
  }
  /** Runs the steps once, the last one first. */
  async run(): Promise<void> {
    for (const step of this.#steps.splice(0).reverse()) await step();
  }
}

/** Opens what the steps of the start share, and the configured fleets. */
export async function openParts(given: GivenParts, closing: ClosingSteps): Promise<Parts> {
  const { config, home, log, starting } = given;
  const fleets = openFleets(home, rebuildVersion);
  closing.add(() => fleets.close());
  const clockGuard = await openClockGuard(given);
  const memory = new MemoryWatch({
    clock: home.ports.clock,
    log: log.child({ part: "memory" }),
    read: home.ports.memory ?? readMemory,
  });
  closing.add(
    () => Promise.resolve(clockGuard.close()),
    () => Promise.resolve(memory.close()),
  );
  const known = await fleets.names();
  for (const fleet of config.fleets) refuseMisspeltFleet(fleet, known);
  const tls = config.tls === "own" ? await openOwnTls(config, home, { log, clockGuard }) : undefined;
  if (tls !== undefined) closing.add(() => Promise.resolve(tls.close()));
  // Nobody knows a port yet that the system chooses.
  if (config.httpPort !== 0) await starting.listen({ ...config, tls });
  for (const fleet of config.fleets) await fleets.get(fleet, { create: true, force: true });
  await refuseTokenDevices(config, fleets);
  const events = eventHub(home.ports.clock);
  const rules = new ClaimRules({ ...config.limits, training: config.trainingLimits }, home.ports.clock);
  const replays = new ReplayRunner({
    home,
    fleets,
    events,
    rules,
    version: programVersion(),
    recipeConfinement: () => Promise.resolve(config.recipeConfinement),
    trainingLimits: () => Promise.resolve(config.trainingLimits),
    log: log.child({ part: "replays" }),
    fleetOf: (fleet) => ingests.get(fleet),
  });
  const claimReplays: ClaimReplays = {
    whyNot: (repository, offer) => rules.whyNot(repository, offer),
    wake: () => {
      replays.wake();
    },
  };
  const ingests: FleetIngests = new FleetIngests({
    config,
    home,
    fleets,
    events,
    log,
    claimReplays,
    certificates: tls?.judge,
  });
  clockGuard.whenDoubted(() => {
    void ingests.endSessions();
  });
  const stopping = new AbortController();
  return { ...given, fleets, events, ingests, replays, tls, clockGuard, memory, closing, stopping };
}

function openClockGuard({ config, home, log }: GivenParts): Promise<ClockGuard> {
  const newestOfFleets = async (): Promise<number> => {
    let newestMs = 0;
    for (const fleet of await home.fleets())
      newestMs = Math.max(newestMs, await newestFactMs(home.ports.files, home.fleetFolder(fleet)));
    return newestMs;
  };
  return ClockGuard.open({ home, newestFactMs: newestOfFleets, accept: config.acceptClock, log });
}
