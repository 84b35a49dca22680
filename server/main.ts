/**
 * The server's composition root: opens the home, starts broker, ingest and HTTP, says where they are,
 * and closes all of it in order. One process, one home.
 */
import { chmod, readFile, rm } from "node:fs/promises";
import { join } from "node:path";
import type { AddressInfo } from "node:net";
import type { FastifyInstance } from "fastify";
import { isStemmaError, StemmaError } from "../shared/errors.js";
import { writeDurably } from "../shared/files/durable-write.js";
import type { Log } from "../shared/ports.js";
import { WindowBudget } from "../shared/wire/transfer/window-budget.js";
import type { BrokerEvent, DeviceIdentity, Refused } from "./broker/broker-port.js";
import { startBroker, type BrokerOptions, type RunningBroker } from "./broker/start-broker.js";
import { serverConfig, type ServerConfig, type ServerOptions } from "./config.js";
import { eventHub, type EventHub } from "./events/event-hub.js";
import { archiveJobs } from "./http/archive-jobs.js";
import { buildHttpApp } from "./http/app.js";
import { runningServerFile, type RunningServer } from "./http/client.js";
import { ensureHttpToken } from "./http/token.js";
import { trainJobs } from "./http/train-jobs.js";
import { FleetIngest } from "./ingest/fleet-ingest.js";
import { serverMetrics } from "./metrics.js";
import { localOperations } from "./operations/local-operations.js";
import { openFleets, type OpenFleets } from "./context/open-fleets.js";
import type { ServerOperations } from "./operations/operations.js";
import { startRetentionSchedule } from "./operations/retention-schedule.js";
import { clearWorkFolder } from "./context/work-folder.js";
import { programVersion } from "../shared/adapters/program-version.js";
import type { Home } from "./repository/home.js";
import { openNodeHome } from "./repository/node-home.js";

export interface ServerHandle {
  readonly mqttUrl: string;
  readonly httpUrl: string;
  readonly socketPath: string;
  readonly home: string;
  /** The same operations that HTTP serves. */
  readonly operations: ServerOperations;
  /** Resolves when the server has to stop by itself: its journal refuses further facts. */
  readonly failed: Promise<StemmaError>;
  close(): Promise<void>;
}

/** @throws HOME_LOCKED (says who holds it), CONFIG_INVALID, PORT_TAKEN, FILE_MISSING (TLS files) */
export async function startServer(options: ServerOptions, log: Log): Promise<ServerHandle> {
  const config = serverConfig(options);
  const tls = config.tls === undefined ? undefined : await readTls(config.tls);
  const home = await openNodeHome(config.home, log);
  const closing: (() => Promise<void>)[] = [() => home.close()];
  const closeAll = async (): Promise<void> => {
    for (const close of closing.splice(0).reverse()) await close();
  };
  try {
    return await compose(config, tls, home, log, closing, closeAll);
  } catch (error) {
    await closeAll();
    throw error;
  }
}

interface Tls {
  readonly cert: string;
  readonly key: string;
  readonly ca: string;
}
async function readTls({ certFile, keyFile, caFile }: NonNullable<ServerOptions["tls"]>): Promise<Tls> {
  const read = async (path: string): Promise<string> =>
    readFile(path, "utf8").catch((cause: unknown) => {
      throw new StemmaError(
        "FILE_MISSING",
        `The TLS file ${path} cannot be read. Check the path and its rights.`,
        { cause, path },
      );
    });
  const [cert, key] = await Promise.all([read(certFile), read(keyFile)]);
  return { cert, key, ca: caFile === undefined ? cert : await read(caFile) };
}

async function compose(
  config: ServerConfig,
  tls: Tls | undefined,
  home: Home,
  log: Log,
  closing: (() => Promise<void>)[],
  close: () => Promise<void>,
): Promise<ServerHandle> {
  const { clock, random, files } = home.ports;
  await clearWorkFolder(home);
  const stopping = new AbortController();
  const events = eventHub(clock);
  const fleets = openFleets(home);
  closing.push(() => fleets.close());
  for (const fleet of config.fleets) await fleets.get(fleet, { create: true });
  const ingests = new FleetIngests(config, home, fleets, events, log);
  const broker = await startBrokerNear(
    config.mqttPort,
    {
      root: config.rootTopic,
      clock,
      log: log.child({ part: "broker" }),
      host: config.host,
      ...(tls === undefined ? {} : { tls: { cert: tls.cert, key: tls.key } }),
      authenticate: (attempt) => ingests.authenticate(attempt),
    },
    log,
  );
  closing.push(() => broker.close());
  closing.push(() => ingests.close());
  await ingests.start(broker, await fleets.names());
  const token = await ensureHttpToken(home.path, random);
  const metrics = serverMetrics(events, stopping.signal, {
    broker: () => broker.stats(),
    fleets: () => ingests.all(),
  });
  const live = {
    mqttUrl: broker.url,
    httpUrl: "",
    rootTopic: config.rootTopic,
    ...(tls === undefined ? {} : { ca: tls.ca }),
    events,
    fleet: (fleet: string) => ingests.get(fleet),
  };
  const operations = localOperations({ home, fleets, version: programVersion(), live });
  if (config.retention) {
    const schedule = startRetentionSchedule({
      operations,
      fleets: () => fleets.names(),
      clock,
      log: log.child({ part: "retention" }),
    });
    closing.push(() => schedule.close());
  }
  const jobs = trainJobs(operations, clock);
  const archiving = archiveJobs(operations, clock);
  closing.push(
    () => jobs.close(),
    () => archiving.close(),
  );
  const parts = {
    operations,
    jobs,
    archiveJobs: archiving,
    metrics,
    log: log.child({ part: "http" }),
    stopping: stopping.signal,
  };
  const tcp = buildHttpApp(parts, { token });
  live.httpUrl = await listenNear(tcp, config.host, config.httpPort, log);
  closing.push(() => tcp.close());
  const local = buildHttpApp(parts, "trusted");
  await listenOnSocket(local, home.socketPath);
  closing.push(async () => {
    await local.close();
    await rm(home.socketPath, { force: true });
  });
  const running: RunningServer = {
    pid: process.pid,
    socketPath: home.socketPath,
    mqttUrl: broker.url,
    httpUrl: live.httpUrl,
    startedAtMs: clock.now(),
    fleets: await fleets.names(),
  };
  const runningPath = join(home.runFolder, runningServerFile);
  await writeDurably(files, runningPath, Buffer.from(`${JSON.stringify(running)}\n`));
  closing.push(() => files.remove(runningPath));
  closing.push(async () => {
    stopping.abort();
  });
  log.info("server-started", {
    mqttUrl: broker.url,
    httpUrl: live.httpUrl,
    home: home.path,
    fleets: running.fleets,
  });
  return {
    mqttUrl: broker.url,
    httpUrl: live.httpUrl,
    socketPath: home.socketPath,
    home: home.path,
    operations,
    failed: ingests.failed,
    close,
  };
}

/** One ingest a fleet, started when the fleet is first there; the broker's messages find theirs. */
class FleetIngests {
  readonly #ingests = new Map<string, Promise<FleetIngest>>();
  readonly #started = new Map<string, FleetIngest>();
  readonly #budget: WindowBudget;
  #broker: RunningBroker | undefined;
  #fail: (error: StemmaError) => void = () => undefined;
  readonly failed: Promise<StemmaError>;

  constructor(
    private readonly config: ServerConfig,
    private readonly home: Home,
    private readonly fleets: OpenFleets,
    private readonly events: EventHub,
    private readonly log: Log,
  ) {
    this.#budget = new WindowBudget(config.limits.windowBytes);
    this.failed = new Promise((resolve) => {
      this.#fail = resolve;
    });
  }

  async start(broker: RunningBroker, names: readonly string[]): Promise<void> {
    this.#broker = broker;
    broker.onMessage(async (message) => {
      await this.#started.get(message.identity.fleet)?.handle(message);
    });
    broker.onEvent((event) => {
      if (event.type === "connected")
        this.#started.get(event.identity.fleet)?.connected(event.identity.device);
      else if (event.type === "disconnected")
        void this.#started.get(event.identity.fleet)?.disconnected(event.identity.device);
      else this.#tellGuard(event);
    });
    for (const fleet of names) await this.get(fleet);
  }

  /** What the broker's guards did to a device that is known. */
  #tellGuard(event: BrokerEvent): void {
    const identity = "identity" in event ? event.identity : undefined;
    if (identity === undefined) return;
    const what =
      event.type === "frame-refused"
        ? event.reason
        : event.type === "topic-refused"
          ? `${event.what} on ${event.topic}`
          : event.type === "frozen"
            ? `${event.bytes} bytes wait`
            : "";
    this.events.emit({ event: "guard", ...identity, message: `${event.type}: ${what}` });
  }

  all(): readonly {
    readonly fleet: string;
    readonly onlineCount: number;
    readonly figures: FleetIngest["figures"];
  }[] {
    return [...this.#started].map(([fleet, ingest]) => ({
      fleet,
      onlineCount: ingest.onlineCount,
      figures: ingest.figures,
    }));
  }

  /** @throws NOT_FOUND */
  get(fleet: string): Promise<FleetIngest> {
    const present = this.#ingests.get(fleet);
    if (present !== undefined) return present;
    const starting = this.#start(fleet);
    this.#ingests.set(fleet, starting);
    starting.catch(() => this.#ingests.delete(fleet));
    return starting;
  }

  async #start(fleet: string): Promise<FleetIngest> {
    const broker = this.#broker;
    if (broker === undefined) throw new StemmaError("INTERNAL", "The broker is not there yet.");
    const { config, home, events, log } = this;
    const { clock, random, files } = home.ports;
    const ingest = await FleetIngest.start({
      root: config.rootTopic,
      repository: await this.fleets.get(fleet),
      signer: home.signer,
      broker,
      clock,
      random,
      files,
      log: log.child({ part: "ingest", fleet }),
      events,
      limits: config.limits,
      budget: this.#budget,
      spoolFolder: join(home.fleetFolder(fleet), "spool"),
      releasePolicy: config.releaseAfter,
      serverVersion: programVersion(),
      onFatal: (error) => {
        this.#fail(error);
      },
    });
    this.#started.set(fleet, ingest);
    return ingest;
  }

  /** The client id names fleet and device; the credentials decide. */
  async authenticate(
    attempt: Parameters<BrokerOptions["authenticate"]>[0],
  ): Promise<DeviceIdentity | Refused> {
    const ingest = this.#started.get(attempt.clientId.split(":")[0] ?? "");
    return ingest === undefined ? { refused: "unknown fleet" } : ingest.admission.authenticate(attempt);
  }

  async close(): Promise<void> {
    for (const ingest of this.#started.values()) await ingest.close();
  }
}

/** On the port asked for, or on a free one where it is taken. */
async function startBrokerNear(port: number, options: BrokerOptions, log: Log): Promise<RunningBroker> {
  try {
    return await startBroker({ ...options, port });
  } catch (error) {
    if (port === 0 || !isStemmaError(error, "PORT_TAKEN")) throw error;
    const broker = await startBroker({ ...options, port: 0 });
    log.warn("port-taken", {
      asked: port,
      used: broker.port,
      text: `MQTT port ${port} is taken; listening on ${broker.port} instead`,
    });
    return broker;
  }
}

async function listenNear(app: FastifyInstance, host: string, port: number, log: Log): Promise<string> {
  const taken = (error: unknown): boolean =>
    ["EADDRINUSE", "EACCES"].includes((error as NodeJS.ErrnoException).code ?? "");
  try {
    await app.listen({ host, port });
  } catch (error) {
    if (!taken(error) || port === 0)
      throw new StemmaError(
        "SERVER_UNREACHABLE",
        `HTTP cannot listen on ${host}:${port}. Check the address.`,
        { cause: error, host, port },
      );
    await app.listen({ host, port: 0 });
    log.warn("port-taken", {
      asked: port,
      used: (app.server.address() as AddressInfo).port,
      text: `HTTP port ${port} is taken; listening on ${(app.server.address() as AddressInfo).port} instead`,
    });
  }
  const { port: used } = app.server.address() as AddressInfo;
  return `http://${host.includes(":") ? `[${host}]` : host}:${used}`;
}

/** The home's lock is held, so a socket that lies there is a dead server's. */
async function listenOnSocket(app: FastifyInstance, path: string): Promise<void> {
  await rm(path, { force: true });
  const before = process.umask(0o177);
  try {
    await app.listen({ path });
  } finally {
    process.umask(before);
  }
  await chmod(path, 0o600);
}
