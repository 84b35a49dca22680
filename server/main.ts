/**
 * Composes the server: opens the home, starts broker, ingest and HTTP, and returns their addresses. It closes
 * all of it in reverse order. One process, one home.
 */
import { rm } from "node:fs/promises";
import { join } from "node:path";
import { defined } from "../shared/defined.js";
import type { StemmaError } from "../shared/errors.js";
import type { Caller } from "../shared/journal/caller.js";
import { watchDescriptors } from "../shared/adapters/descriptor-watch.js";
import { currentUser } from "../shared/adapters/current-user.js";
import { programVersion } from "../shared/adapters/program-version.js";
import { writeDurably } from "../shared/files/durable-write.js";
import type { Log } from "../shared/ports.js";
import type { RecentEvents } from "../shared/adapters/recent-log.js";
import type { OpenedLog } from "../shared/adapters/log.js";
import { urlHost } from "../shared/url-host.js";
import type { ServerTls } from "./access/identity/server-tls.js";
import type { RunningBroker } from "./access/broker/broker-port.js";
import { serverConfig, type ServerConfig, type ServerOptions } from "./operations/configuration/config.js";
import type { LiveServer } from "./services/context/operations-context.js";
import { refuseMisspeltFleet } from "./services/context/expected-names.js";
import { openFleets, type OpenFleets } from "./services/context/open-fleets.js";
import { hasDiskSpace } from "./services/context/room-for-models.js";
import { publicUrlHint, unreachableAddresses } from "./services/context/public-addresses.js";
import { clearWorkFolder } from "./services/context/work-folder.js";
import { eventHub, type EventHub } from "./interface/events/event-hub.js";
import { logEvents } from "./interface/events/log-events.js";
import type { Grant } from "./interface/api/rights.js";
import { rememberedLog } from "./interface/events/server-log.js";
import { FleetIngests } from "./fleet-ingests.js";
import { createArchiveJobs } from "./interface/http/archive-jobs.js";
import { buildHttpApp, type HttpParts } from "./interface/http/app.js";
import { runningServerFile, type RunningServer, type StartingServer } from "./interface/http/local-server.js";
import type { ServerProblem } from "./interface/http/routes/service.js";
import { ensureHttpToken } from "./interface/http/token.js";
import { tokenReader } from "./interface/http/tokens.js";
import { createEnumerationJobs, createTrainJobs } from "./interface/http/train-jobs.js";
import { listenOnSocket, listenOnTcp } from "./http-listeners.js";
import { ServerStart } from "./starting.js";
import { serverMetrics } from "./metrics.js";
import {
  authorityFile,
  openOwnTls,
  refuseTokenDevices,
  warnOfWeakPorts,
} from "./operations/configuration/own-tls.js";
import { openNamesAtBroker } from "./operations/configuration/broker-names.js";
import { MemoryWatch } from "./operations/configuration/memory-watch.js";
import { readMemory } from "./storage/repository/node-memory.js";
import { ClockGuard } from "./operations/configuration/clock-guard.js";
import { brokerTls, openBroker, readEnrolmentCa } from "./operations/configuration/open-broker.js";
import { localOperations } from "./operations/local-operations.js";
import type { ServerOperations } from "./interface/api/server-operations.js";
import { startMergeSchedule } from "./operations/stores/merge-schedule.js";
import { cutOffEnded } from "./operations/devices/authority-operations.js";
import { startAuthorityChecks } from "./operations/devices/authority-checks.js";
import { renewWhenDue } from "./operations/devices/renew-certificate.js";
import { startRetentionSchedule } from "./operations/stores/retention-schedule.js";
import type { ClaimReplays } from "./fleet/ingest/uploads/claims.js";
import { ClaimRules } from "./learning/replay/claim-rules.js";
import { rebuildVersion } from "./learning/replay/rebuild-on-demand.js";
import { ReplayRunner } from "./learning/replay/replay-runner.js";
import { openHome, type Home } from "./storage/repository/home.js";
import { newestFactMs } from "./storage/repository/newest-fact.js";
import { nodeHomePorts } from "./storage/repository/node-home.js";
import { RolloutRunner } from "./fleet/rollout/rollout-runner.js";
import { journalOfFleet } from "./services/webhooks/next-delivery.js";
import { postFacts } from "./services/webhooks/post-facts.js";
import "./loaded-at-start.js";
import { WebhookRunner } from "./services/webhooks/webhook-runner.js";

export interface ServerHandle {
  readonly mqttUrl: string;
  readonly httpUrl: string;
  readonly socketPath: string;
  readonly home: string;
  /** The certificate of the server's own authority; undefined: it uses none. */
  readonly authorityFile: string | undefined;
  /** The same operations that HTTP serves. */
  readonly operations: ServerOperations;
  /** Resolves when the server has to stop: a journal or object store takes nothing more, or another has the home. */
  readonly failed: Promise<StemmaError>;
  close(): Promise<void>;
}

/** A log, which may count the lines that it could not write. */
export type ServerLog = Log & Partial<Pick<OpenedLog, "droppedLines">>;

interface GivenParts {
  readonly config: ServerConfig;
  readonly home: Home;
  readonly log: ServerLog;
  /** The newest lines of the log. */
  readonly recent: RecentEvents;
  readonly starting: ServerStart;
}

/** The parts that the steps of the start share. */
interface Parts extends GivenParts {
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

/**
 * @param signal ends a start that takes long; one that has started is closed
 * @throws HOME_LOCKED (names the holder), CONFIG_INVALID, PORT_TAKEN, FILE_MISSING, SERVER_UNREACHABLE, the signal's
 * reason
 */
export async function startServer(
  options: ServerOptions,
  base: ServerLog,
  signal?: AbortSignal,
): Promise<ServerHandle> {
  const config = serverConfig(options);
  const ports = nodeHomePorts(base, options);
  const starting = new ServerStart({ clock: ports.clock, log: base, signal });
  const home = await openHome(config.home, { ...ports, onOpening: starting.onOpening });
  const { recent, ...remembered } = rememberedLog(base, home.ports.clock);
  const { droppedLines } = base;
  const log = { ...remembered.log, ...defined({ droppedLines }) };
  const closing = new ClosingSteps();
  closing.add(() => home.close());
  try {
    await publishStarting(home, starting, closing);
    return await start({ config, home, log, recent, starting }, closing);
  } catch (error) {
    await closing.run();
    throw error;
  }
}

/** Closes the parts of the server in reverse order, as they were opened. */
class ClosingSteps {
  readonly #steps: (() => Promise<void>)[] = [];
  add(...steps: readonly (() => Promise<void>)[]): void {
    this.#steps.push(...steps);
  }
  /** Runs the steps once, the last one first. */
  async run(): Promise<void> {
    for (const step of this.#steps.splice(0).reverse()) await step();
  }
}

async function start(given: GivenParts, closing: ClosingSteps): Promise<ServerHandle> {
  const { config, home, log } = given;
  await clearWorkFolder(home);
  const parts = await openParts(given, closing);
  void logEvents(parts.events.listen(parts.stopping.signal), log);
  const broker = await startBroker(parts);
  const { operations, httpUrl } = await startHttp(parts, broker);
  const running: RunningServer = {
    pid: process.pid,
    socketPath: home.socketPath,
    mqttUrl: broker.url,
    httpUrl,
    startedAtMs: home.ports.clock.now(),
    fleets: await parts.fleets.names(),
  };
  await writeRunFile(home, running);
  closing.add(async () => {
    parts.stopping.abort();
    return Promise.resolve();
  });
  const { mqttUrl, socketPath, fleets } = running;
  log.info("server-started", { mqttUrl, httpUrl, home: home.path, fleets });
  warnOfWeakPorts(config, log);
  warnOfAddresses(parts, mqttUrl);
  return {
    mqttUrl,
    httpUrl,
    socketPath,
    home: home.path,
    authorityFile: parts.tls && join(home.path, authorityFile),
    operations,
    failed: Promise.race([parts.fleets.failed, home.lost]),
    close: () => closing.run(),
  };
}

/** A server that listens for other machines is meant for their devices, which need an address of it. */
function warnOfAddresses({ config, log }: Parts, mqttUrl: string): void {
  if (unreachableAddresses([`mqtt://${urlHost(config.host)}`])[0]?.includes("no address") !== true) return;
  const unreachable = unreachableAddresses(config.enrolment.mqttUrls ?? [mqttUrl]);
  if (unreachable.length > 0)
    log.warn("enrolment-address", {
      text: `new enrolment files name an address that devices cannot use (${unreachable.join("; ")}): ${publicUrlHint}`,
    });
}

async function openParts(given: GivenParts, closing: ClosingSteps): Promise<Parts> {
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

/** Opens the broker and attaches an ingest per fleet to it. */
async function startBroker({
  config,
  home,
  log,
  fleets,
  ingests,
  tls,
  closing,
}: Parts): Promise<RunningBroker> {
  const broker = await openBroker({
    config,
    tls: await brokerTls(config, tls),
    clock: home.ports.clock,
    log,
    signer: home.signer,
    authenticate: (attempt) => ingests.authenticate(attempt),
    admit: (report) => ingests.admit(report),
  });
  closing.add(
    () => broker.close(),
    () => ingests.close(),
  );
  await ingests.start(broker, await fleets.names());
  return broker;
}

/** The operations as a caller uses them, by the request of this id; without a caller, as a rule of the server does. */
type OperationsAs = (caller?: Caller, request?: string, grant?: Grant) => ServerOperations;

/** Starts the HTTP API over the operations, on TCP and on the home's socket. */
async function startHttp(
  parts: Parts,
  broker: RunningBroker,
): Promise<{ readonly operations: ServerOperations; readonly httpUrl: string }> {
  const { config, home, fleets, ingests } = parts;
  const listening: { url?: string } = {};
  const runners = {
    rollouts: rolloutRunner(parts, () => operationsAs()),
    webhooks: webhookRunner(parts),
  };
  const live = await liveServer(parts, broker, { ...runners, httpUrl: () => listening.url });
  const operationsAs: OperationsAs = (caller, request, grant) =>
    localOperations({
      home,
      fleets,
      version: programVersion(),
      live,
      caller,
      request,
      grant,
      recipeConfinement: () => Promise.resolve(config.recipeConfinement),
      trainingLimits: () => Promise.resolve(config.trainingLimits),
      isHub: () => Promise.resolve(config.isHub),
      maxUnfinishedBytes: config.maxUnfinishedBytes,
      rolloutApproval: () => Promise.resolve(config.rolloutApproval),
    });
  ingests.renewWith((request) => operationsAs().certify({ request }));
  const operations = operationsAs({ who: currentUser(), through: "command" });
  startSchedules(parts, operationsAs);
  startRunners(parts, runners);
  startCertificateChecks(parts, live, operationsAs);
  const httpUrl = await listen(parts, httpPartsOf(parts, broker, operationsAs), (url) => {
    listening.url = url;
  });
  return { operations, httpUrl };
}

/** @param operations called when it is used: the operations need the runner, too */
function rolloutRunner(
  { home, log, fleets, events, ingests }: Parts,
  operations: () => ServerOperations,
): RolloutRunner {
  return new RolloutRunner({
    clock: home.ports.clock,
    log: log.child({ part: "rollouts" }),
    fleets,
    events,
    operations: {
      devices: async (input) => operations().devices(input),
      evaluateOnDevice: async (input) => operations().evaluateOnDevice(input),
    },
    fleetOf: (fleet) => ingests.get(fleet),
  });
}

function webhookRunner({ home, log, fleets }: Parts): WebhookRunner {
  return new WebhookRunner({
    ...home.ports,
    home: home.path,
    signer: home.signer,
    log: log.child({ part: "webhooks" }),
    post: postFacts,
    journalOf: async (fleet) => journalOfFleet(await fleets.get(fleet)),
  });
}

/** Returns the parts of the running server that operations can use. */
async function liveServer(
  { config, recent, events, fleets, ingests, replays, tls, clockGuard }: Parts,
  broker: RunningBroker,
  runners: Pick<LiveServer, "rollouts" | "webhooks" | "httpUrl">,
): Promise<LiveServer> {
  const { mqttUrls = [broker.url], httpUrl } = config.enrolment;
  return {
    mqttUrl: broker.url,
    enrolment: {
      mqtt: mqttUrls,
      http: httpUrl,
      ca: await readEnrolmentCa(config),
      // Devices judge the certificate of an external broker as `ca` says, and that of this server's HTTPS by these.
      authorities: config.givesCertificates ? tls && [tls.authority.certificate] : undefined,
      root: config.rootTopic,
      takesTokens: config.deviceTokens,
    },
    authority: tls?.authority,
    namesAtBroker: await openNamesAtBroker(config, fleets),
    requireClock: () => {
      clockGuard.requireTrusted();
    },
    events,
    replays,
    ...runners,
    recentLog: recent,
    fleet: (fleet: string) => ingests.get(fleet),
  };
}

function startSchedules(parts: Parts, operationsAs: OperationsAs): void {
  const { config, home, log, fleets, closing } = parts;
  if (config.retention) {
    const schedule = startRetentionSchedule({
      operations: operationsAs(),
      fleets: () => fleets.names(),
      clock: home.ports.clock,
      log: log.child({ part: "retention" }),
    });
    closing.add(() => schedule.close());
  }
  startMerging(parts);
}

function startRunners(
  { replays, closing }: Parts,
  { rollouts, webhooks }: { readonly rollouts: RolloutRunner; readonly webhooks: WebhookRunner },
): void {
  closing.add(
    () => replays.close(),
    () => rollouts.close(),
    () => webhooks.close(),
  );
  replays.wake();
  rollouts.start();
  webhooks.start();
}

/** Looks whether certificates of owners' authorities ended, and renews those of devices by commands. */
function startCertificateChecks(parts: Parts, live: LiveServer, operationsAs: OperationsAs): void {
  const { home, log, fleets, events, closing, stopping } = parts;
  const { clock } = home.ports;
  const checks = startAuthorityChecks({
    cutOffEnded: (onCutOff) => cutOffEnded({ home, fleets, live }, onCutOff),
    warnings: async () =>
      (
        await Promise.all((await fleets.names()).map((fleet) => operationsAs().authorities({ fleet })))
      ).flatMap((authorities) => authorities.flatMap((each) => each.warnings)),
    clock,
    log: log.child({ part: "authorities" }),
  });
  closing.add(() => checks.close());
  void renewWhenDue({ events, operations: operationsAs(), clock, log }, stopping.signal);
}

/** Returns the parts that both HTTP servers serve. */
function httpPartsOf(
  { home, log, events, ingests, clockGuard, memory, closing, stopping }: Parts,
  broker: RunningBroker,
  operationsAs: OperationsAs,
): HttpParts {
  const jobs = createTrainJobs(operationsAs, home.ports.clock);
  const enumerationJobs = createEnumerationJobs(operationsAs, home.ports.clock);
  const archiveJobs = createArchiveJobs(operationsAs, home.ports.clock);
  closing.add(
    () => jobs.close(),
    () => enumerationJobs.close(),
    () => archiveJobs.close(),
  );
  const descriptors = watchDescriptors({ clock: home.ports.clock, log });
  closing.add(() => Promise.resolve(descriptors.close()));
  const metrics = serverMetrics(
    {
      events,
      broker: () => broker.stats(),
      fleets: () => ingests.all(),
      refusedConnections: () => ingests.refusedConnections(),
      freeDiskBytes: () => home.ports.files.freeBytes(home.path),
      droppedLogLines: () => log.droppedLines?.() ?? 0,
      secondsWithoutDescriptors: () => descriptors.seconds,
      memory: () => ({ ...memory.use, fullAtMs: memory.fullAtMs }),
      problems: () => problemsOf(home, { clockGuard, memory }),
      log: log.child({ part: "metrics" }),
    },
    stopping.signal,
  );
  return {
    operationsAs,
    jobs,
    enumerationJobs,
    archiveJobs,
    metrics,
    problems: () => problemsOf(home, { clockGuard, memory }),
    log: log.child({ part: "http" }),
    stopping: stopping.signal,
  };
}

/** @param onListening told the URL of the port before the socket listens */
async function listen(
  { config, home, tls, starting, closing }: Parts,
  parts: HttpParts,
  onListening: (url: string) => void,
): Promise<string> {
  const token = await ensureHttpToken(home.path, home.ports.random);
  const tcp = buildHttpApp(parts, {
    access: { tokens: tokenReader(home.ports, home.path, token) },
    limits: config.httpLimits,
    tls,
  });
  await starting.end();
  const url = await listenOnTcp(tcp, { host: config.host, port: config.httpPort });
  onListening(url);
  closing.add(() => tcp.close());
  const local = buildHttpApp(parts, { access: "trusted" });
  await listenOnSocket(local, home.socketPath);
  closing.add(async () => {
    await local.close();
    await rm(home.socketPath, { force: true });
  });
  return url;
}

function startMerging({ fleets, ingests, home, log, closing }: Parts): void {
  const merging = startMergeSchedule({
    fleets: () => fleets.opened(),
    isBusy: async (fleet) => (await ingests.get(fleet)).figures.receptions > 0,
    clock: home.ports.clock,
    log: log.child({ part: "merging" }),
  });
  closing.add(() => merging.close());
}

/** The time that /healthz waits for a tier. */
const maxTierAnswerMs = 2000;

/** Finds the problems that keep the server from doing all of its work. */
async function problemsOf(
  home: Home,
  { clockGuard, memory }: Pick<Parts, "clockGuard" | "memory">,
): Promise<readonly ServerProblem[]> {
  return [...clockGuard.problems, ...problemsOfMemory(memory), ...(await problemsOfStorage(home))];
}

/** The problem without figures: it is answered without a token. */
function problemsOfMemory({ problem }: MemoryWatch): readonly ServerProblem[] {
  if (problem === undefined) return [];
  const { code } = problem;
  const message =
    code === "MEMORY_FULL"
      ? "The server's memory is full: models are refused, and devices try again. Its log says what to do."
      : "The server's memory will be full soon, and models are refused then. Its log says when, and what to do.";
  return [{ code, message }];
}

async function problemsOfStorage(home: Home): Promise<readonly ServerProblem[]> {
  const tiers = (await home.tiers.unreachable(maxTierAnswerMs)).map(({ tier }) => ({
    // Answered without a token: neither the folder nor the cause.
    code: "TIER_UNREACHABLE",
    message: `The storage tier ${tier} cannot be reached: complete recoveries of old versions fail, and nothing is lost. \`stemma storage tier list\` states why.`,
  }));
  if (await hasDiskSpace(home)) return tiers;
  const message =
    "The server's disk is full: models are refused, and devices try again. Free some space, for example with `stemma storage gc`.";
  return [{ code: "DISK_FULL", message }, ...tiers];
}

/** Writes the file by which commands on this machine wait for this server while it starts. */
async function publishStarting(home: Home, starting: ServerStart, closing: ClosingSteps): Promise<void> {
  closing.add(() => home.ports.files.remove(join(home.runFolder, runningServerFile)));
  closing.add(() => starting.end());
  await starting.publish((state) => writeRunFile(home, state));
}

/** Writes the file by which commands on this machine find this server, or wait for it. */
async function writeRunFile(home: Home, content: RunningServer | StartingServer): Promise<void> {
  const path = join(home.runFolder, runningServerFile);
  await writeDurably(home.ports.files, path, Buffer.from(`${JSON.stringify(content)}\n`));
}
