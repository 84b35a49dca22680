/**
 * Starts the HTTP API over the operations, on TCP and on the home's socket, and what runs beside it: rollouts,
 * webhooks, schedules, and checks of certificates.
 */
import { rm } from "node:fs/promises";
import type { Caller } from "../shared/journal/caller.js";
import { watchDescriptors } from "../shared/adapters/descriptor-watch.js";
import { currentUser } from "../shared/adapters/current-user.js";
import { programVersion } from "../shared/adapters/program-version.js";
import type { RunningBroker } from "./access/broker/broker-port.js";
import type { LiveServer } from "./services/context/operations-context.js";
import type { Grant } from "./interface/api/rights.js";
import { createArchiveJobs } from "./interface/http/archive-jobs.js";
import { buildHttpApp, type HttpParts } from "./interface/http/app.js";
import { ensureHttpToken } from "./interface/http/token.js";
import { tokenReader } from "./interface/http/tokens.js";
import { createEnumerationJobs, createTrainJobs } from "./interface/http/train-jobs.js";
import { listenOnSocket, listenOnTcp } from "./http-listeners.js";
import { serverMetrics } from "./metrics.js";
import { openNamesAtBroker } from "./operations/configuration/broker-names.js";
import { readEnrolmentCa } from "./operations/configuration/open-broker.js";
import { localOperations } from "./operations/local-operations.js";
import type { ServerOperations } from "./interface/api/server-operations.js";
import { startMergeSchedule } from "./operations/stores/merge-schedule.js";
import { cutOffEnded } from "./operations/devices/authority-operations.js";
import { startAuthorityChecks } from "./operations/devices/authority-checks.js";
import { renewWhenDue } from "./operations/devices/renew-certificate.js";
import { startRetentionSchedule } from "./operations/stores/retention-schedule.js";
import { RolloutRunner } from "./fleet/rollout/rollout-runner.js";
import { journalOfFleet } from "./services/webhooks/next-delivery.js";
import { postFacts } from "./services/webhooks/post-facts.js";
import { WebhookRunner } from "./services/webhooks/webhook-runner.js";
import type { Parts } from "./parts.js";
import { problemsOf } from "./problems.js";

/** The operations as a caller uses them, by the request of this id; without a caller, as a rule of the server does. */
type OperationsAs = (caller?: Caller, request?: string, grant?: Grant) => ServerOperations;

/** Starts the HTTP API over the operations, on TCP and on the home's socket. */
export async function startHttp(
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
