/**
 * Composes the server: opens the home, starts broker, ingest and HTTP, and returns their addresses. It closes
 * all of it in reverse order. One process, one home.
 */
import { join } from "node:path";
import { defined } from "../shared/defined.js";
import type { StemmaError } from "../shared/errors.js";
import { writeDurably } from "../shared/files/durable-write.js";
import { urlHost } from "../shared/url-host.js";
import type { RunningBroker } from "./access/broker/broker-port.js";
import { serverConfig, type ServerOptions } from "./operations/configuration/config.js";
import { publicUrlHint, unreachableAddresses } from "./services/context/public-addresses.js";
import { clearWorkFolder } from "./services/context/work-folder.js";
import { logEvents } from "./interface/events/log-events.js";
import { rememberedLog } from "./interface/events/server-log.js";
import { runningServerFile, type RunningServer, type StartingServer } from "./interface/http/local-server.js";
import { ServerStart } from "./starting.js";
import { authorityFile, warnOfWeakPorts } from "./operations/configuration/own-tls.js";
import { brokerTls, openBroker } from "./operations/configuration/open-broker.js";
import type { ServerOperations } from "./interface/api/server-operations.js";
import { openHome, type Home } from "./storage/repository/home.js";
import { nodeHomePorts } from "./storage/repository/node-home.js";
import { ClosingSteps, openParts, type GivenParts, type Parts, type ServerLog } from "./parts.js";
import { startHttp } from "./start-http.js";
import "./loaded-at-start.js";

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
