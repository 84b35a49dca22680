/**
 * Composes the agent: ports of this machine, settings, home and lock, local sockets, then the agent itself.
 * Also implements `stemma agent run`: signals, log, exit status.
 */
import { arch, release, type } from "node:os";
import { join, resolve } from "node:path";
import { watchDescriptors } from "../shared/adapters/descriptor-watch.js";
import { nodeClock, nodeRandom } from "../shared/adapters/node-ports.js";
import { limitHeapGrowth } from "../shared/adapters/heap-growth.js";
import { programVersion } from "../shared/adapters/program-version.js";
import { tellServiceManager } from "../shared/adapters/service-manager.js";
import { openLog } from "../shared/adapters/log.js";
import type { LogForm, LogLevel } from "../shared/adapters/log-forms.js";
import { messageOf } from "../shared/error-text.js";
import { exitStatus, isStemmaError, type StemmaError } from "../shared/errors.js";
import { describeClaim } from "../shared/files/home-locked.js";
import { lockHome, type HomeLock } from "../shared/files/home-lock.js";
import { lockedFiles } from "../shared/files/locked-files.js";
import { nodeFiles } from "../shared/files/node-files.js";
import type { Clock, Files, Log, Random } from "../shared/ports.js";
import type { Hash } from "../shared/tensor/tensor.js";
import { evaluateInChild } from "../shared/train/evaluate-in-child.js";
import { trainInChild } from "../shared/train/train-in-child.js";
import { loadEnrolment, type Enrolment } from "../shared/trust/enrolment.js";
import type { DeviceKey } from "../shared/trust/keys.js";
import { Agent } from "./agent.js";
import type { AgentParts } from "./agent-parts.js";
import { controlHandler, modelsHandler, samplesHandler } from "./control/local-sockets.js";
import { JsonLineServer } from "./control/json-line-server.js";
import { deviceKeyOf } from "./identity/device-key.js";
import { checkOwnerCertificate, OwnerCertificate } from "./identity/owner-certificate.js";
import { openProgramKey } from "./identity/program-key.js";
import { hooksOf } from "./settings/hooks.js";
import { recordedFiles } from "../shared/programs/command-settings.js";
import { checkCommand, checkSettingsFile, ownerOfSettings } from "../shared/programs/trusted-command.js";
import { makeRunFolder, openAgentHome, writeRunFile, type RunFile } from "./home/agent-home.js";
import { RecentEvents, recentLog } from "../shared/adapters/recent-log.js";
import { builtInRecipes, checkRecipes, type CheckRecipe } from "./settings/check-recipes.js";
import { loadConfig, parseConfig, type AgentConfig } from "./settings/config.js";
import { loadProfile, parseProfile, profileOfDevice, type Profile } from "./settings/profile.js";
import { ServedSettings } from "./settings/served-settings.js";
import type { SavedFile, SaveFileRequest } from "./saving/save-file.js";
import type { AgentStatus } from "./status.js";
import type { StopAsked } from "./control/stop-asked.js";
import type { Trained } from "./trainer/save-result.js";
import type { TrainingRequest } from "./trainer/training-job.js";

export interface AgentOptions {
  /** The agent's own folder; created when missing. One agent per folder. */
  readonly home: string;
  /** Enrolment file; `<home>/enrolment.json` when absent. */
  readonly enrolment?: string | undefined;
  /** Settings file, or its parsed content; `<home>/agent.json` when absent, defaults without that file. */
  readonly config?: string | Readonly<Record<string, unknown>> | undefined;
  /** Profile by name, absolute path or content; else the one in the settings, else the enrolment's. */
  readonly profile?: string | Readonly<Record<string, unknown>> | undefined;
  /** Another log than the one on standard error. It gets every event, unless the server has set a level. */
  readonly log?: Log | undefined;
  readonly logForm?: LogForm | undefined;
  /** The level on standard error while the server has set none; that of the settings when absent. */
  readonly logLevel?: LogLevel | undefined;
  /** Takes the home over from a process that has not renewed its claim; a person has made sure that it ended. */
  readonly takeOver?: boolean | undefined;
}

/** Ports that a test or another host supplies instead of those of this machine. */
export interface AgentPorts {
  readonly files: Files;
  readonly clock: Clock;
  readonly random: Random;
  readonly train: typeof trainInChild;
  readonly evaluate: typeof evaluateInChild;
  readonly checkRecipe: CheckRecipe;
}

export interface AgentHandle {
  /**
   * Local sockets: `control` for the owner, `samples` and `models` for the device's software
   * (control/local-sockets.ts).
   */
  readonly sockets: { readonly control: string; readonly samples: string; readonly models: string };
  readonly log: Log;
  status(): Promise<AgentStatus>;
  /** Fine-tunes a line now; resolves with the new model, durable in the outbox. */
  train(line: string, request?: TrainingRequest): Promise<Trained>;
  activate(line: string, versionId: Hash): Promise<void>;
  takeSamples(
    line: string,
    samples: readonly unknown[],
    batch?: string,
  ): Promise<{ readonly accepted: number; readonly alreadyThere: number }>;
  /**
   * Resolves when the agent cannot go on: its disk failed to keep something, or another process has its home
   * (HOME_TAKEN). Close it and start again.
   */
  readonly failed: Promise<StemmaError>;
  /** Resolves when a command has asked the agent to end, and it may be closed. */
  readonly stopAsked: Promise<StopAsked>;
  /** Saves a model that another program trained as the next version of a line. */
  save(line: string, request: SaveFileRequest): Promise<SavedFile>;
  close(): Promise<void>;
}

/** Longest request on a local socket: a batch of samples. */
const maxLineBytes = 16 * 1024 * 1024;
const maxConnections = 64;

interface Settings {
  readonly enrolment: Enrolment;
  readonly enrolmentPath: string;
  readonly config: AgentConfig;
  readonly profile: Profile;
  /** The files that the settings were read from, for the run file. */
  readonly sources: Pick<RunFile, "enrolment" | "config" | "profile">;
  /** Absolute path of agent.json, where there may be one; undefined: the settings were given as an object. */
  readonly configFile: string | undefined;
  /** User id that owns agent.json; without that file, that of this process. */
  readonly commandOwner: number | undefined;
}

/**
 * Starts an agent. It runs whether or not its server can be reached.
 * @throws ENROLMENT_INVALID, CONFIG_INVALID, PROFILE_INVALID naming the field; HOME_LOCKED when another agent
 * has the home; OUTBOX_CORRUPT
 */
export async function startAgent(
  options: AgentOptions,
  ports: Partial<AgentPorts> = {},
): Promise<AgentHandle> {
  const home = resolve(options.home);
  const files = ports.files ?? nodeFiles();
  const settings = await readSettings(files, home, options);
  checkRecipes(settings.config, ports.checkRecipe ?? (await builtInRecipes()));
  await checkPrograms(settings);
  await openAgentHome(files, home, settings.enrolment);
  const lock = await lockHome(home, options);
  try {
    const log = await openAgentLog(options, { files, home, clock: ports.clock ?? nodeClock(), settings });
    sayTakenOver(lock, home, log.log);
    const allPorts = {
      files: lockedFiles(files, lock),
      clock: ports.clock ?? nodeClock(),
      random: ports.random ?? nodeRandom(),
      train: ports.train ?? trainInChild,
      evaluate: ports.evaluate ?? evaluateInChild,
    };
    const handle = await startInHome(home, settings, allPorts, log);
    return {
      ...handle,
      failed: Promise.race([handle.failed, lock.lost]),
      close: async () => {
        await handle.close();
        await lock.release();
      },
    };
  } catch (error) {
    await lock.release();
    throw error;
  }
}

function sayTakenOver({ takenOver }: HomeLock, home: string, log: Log): void {
  for (const claim of takenOver)
    log.warn("home-taken-over", { text: `took ${home} over from ${describeClaim(claim)}` });
}

async function readSettings(files: Files, home: string, options: AgentOptions): Promise<Settings> {
  const enrolmentPath = resolve(options.enrolment ?? join(home, "enrolment.json"));
  const enrolment = await loadEnrolment(files, enrolmentPath);
  const config =
    typeof options.config === "object"
      ? parseConfig(options.config, "(given)")
      : await loadConfig(files, home, options.config);
  const ofClass =
    typeof options.profile === "object"
      ? parseProfile(options.profile, "(given)")
      : await loadProfile(files, options.profile ?? config.profile ?? enrolment.profile);
  const profile = profileOfDevice(ofClass, config);
  const configFile =
    typeof options.config === "object" ? undefined : resolve(options.config ?? join(home, "agent.json"));
  const pathOf = (path: unknown): string | undefined =>
    typeof path === "string" ? resolve(path) : undefined;
  return {
    enrolment,
    enrolmentPath,
    config,
    profile,
    sources: {
      enrolment: pathOf(options.enrolment),
      config: pathOf(options.config),
      profile: typeof options.profile === "string" ? options.profile : undefined,
    },
    configFile,
    commandOwner: await ownerOfSettings(configFile),
  };
}

/** @throws CONFIG_INVALID where others than the owner of agent.json could change what its lines' programs are */
async function checkPrograms({ config, commandOwner, configFile }: Settings): Promise<void> {
  const programs = Object.entries(config.lines).flatMap(([line, { trainer, measure, hooks }]) => [
    ...(trainer === undefined
      ? []
      : [
          {
            field: `lines.${line}.trainer.exec`,
            program: { exec: [...trainer.exec, ...recordedFiles(trainer)] },
          },
        ]),
    ...(measure === undefined ? [] : [{ field: `lines.${line}.measure.exec`, program: measure }]),
    ...hooksOf(hooks).map(({ name, hook }) => ({ field: `lines.${line}.hooks.${name}.exec`, program: hook })),
  ]);
  if (programs.length > 0 && configFile !== undefined) await checkSettingsFile(configFile, commandOwner);
  for (const { field, program } of programs) await checkCommand(program, { field, owner: commandOwner });
}

/** The log, with what the server has set of it and of the rest; the agent's home must be open. */
interface AgentLog {
  readonly log: Log;
  readonly recent: RecentEvents;
  readonly served: ServedSettings;
}

async function openAgentLog(
  { log, logForm = "plain", logLevel }: Pick<AgentOptions, "log" | "logForm" | "logLevel">,
  {
    files,
    home,
    clock,
    settings,
  }: {
    readonly files: Files;
    readonly home: string;
    readonly clock: Clock;
    readonly settings: Pick<Settings, "config">;
  },
): Promise<AgentLog> {
  const served = await ServedSettings.open(files, home);
  const recent = new RecentEvents(clock);
  const base = log ?? openLog({ form: logForm, level: "debug" });
  const own = logLevel ?? (log === undefined ? settings.config.log.level : "debug");
  const level = (): LogLevel => served.logLevel ?? own;
  return { log: recentLog(base, recent, level), recent, served };
}

/** Starts the agent and its sockets in a home that this process has locked. */
async function startInHome(
  home: string,
  settings: Settings,
  ports: Omit<AgentPorts, "checkRecipe">,
  opened: AgentLog,
): Promise<AgentHandle> {
  const { files, clock } = ports;
  const { log } = opened;
  const runFolder = await makeRunFolder(home);
  const sockets = {
    control: join(runFolder, "control.sock"),
    samples: join(runFolder, "samples.sock"),
    models: join(runFolder, "models.sock"),
  };
  const { promise: failed, resolve: onFatal } = withResolver<StemmaError>();
  const { promise: stopAsked, resolve: onStopAsked } = withResolver<StopAsked>();
  const stopped = new AbortController();
  const deviceKey = await openDeviceKey(home, settings, ports, stopped.signal);
  const ownerCertificate = ownerCertificateOf(settings, files, log);
  const agent = await Agent.open(
    partsOf(home, settings, ports, {
      ...opened,
      deviceKey,
      ownerCertificate,
      onFatal,
      onStopAsked,
    }),
  );
  const servers: JsonLineServer[] = [];
  const descriptors = watchDescriptors({ clock, log });
  const close = async (): Promise<void> => {
    descriptors.close();
    for (const server of servers) await server.close();
    stopped.abort();
    await agent.stop();
  };
  try {
    for (const [name, mode, handler] of handlersOf(agent))
      servers.push(
        await JsonLineServer.listen(
          { maxLineBytes, maxConnections, log, path: sockets[name], mode },
          handler,
        ),
      );
    await writeRunFile(files, home, {
      pid: process.pid,
      ...sockets,
      startedAtMs: clock.now(),
      ...settings.sources,
    });
    await agent.start();
  } catch (error) {
    await close();
    throw error;
  }
  return {
    sockets,
    log,
    failed,
    stopAsked,
    status: () => agent.status(),
    train: (line, request) => agent.train(line, request),
    activate: (line, versionId) => agent.activate(line, versionId),
    takeSamples: (line, samples, batch) => agent.takeSamples(line, samples, batch),
    save: (line, request) => agent.save(line, request),
    close,
  };
}

/** Makes a promise, and the function that resolves it. */
function withResolver<Value>() {
  let resolve: (value: Value) => void = () => undefined;
  const promise = new Promise<Value>((resolvePromise) => {
    resolve = resolvePromise;
  });
  return { promise, resolve };
}

/** Each local socket's name, mode and handler. */
const handlersOf = (agent: Agent) =>
  [
    ["control", 0o600, controlHandler(agent)],
    ["samples", 0o660, samplesHandler(agent)],
    ["models", 0o660, modelsHandler(agent)],
  ] as const;

/** @throws CONFIG_INVALID */
async function openDeviceKey(
  home: string,
  { enrolment, config, configFile, commandOwner }: Settings,
  { files, clock }: Pick<AgentPorts, "files" | "clock">,
  signal: AbortSignal,
): Promise<DeviceKey> {
  const { deviceKey: settings } = config;
  const parts = { home, files, clock, configFile, owner: commandOwner, signal };
  return deviceKeyOf(enrolment, settings && (await openProgramKey({ ...parts, settings })));
}

/** @throws CONFIG_INVALID */
function ownerCertificateOf(
  { enrolment, config }: Settings,
  files: Files,
  log: Log,
): OwnerCertificate | undefined {
  const { certificate: settings } = config;
  checkOwnerCertificate(enrolment, settings !== undefined);
  return settings && new OwnerCertificate({ files, settings, log });
}

/** Composes the parts of an agent in a home that this process has locked. */
function partsOf(
  home: string,
  { enrolment, enrolmentPath, config, profile, commandOwner }: Settings,
  ports: Omit<AgentPorts, "checkRecipe">,
  given: Pick<
    AgentParts,
    "log" | "recent" | "served" | "onFatal" | "onStopAsked" | "deviceKey" | "ownerCertificate"
  >,
): AgentParts {
  return {
    enrolment,
    enrolmentPath,
    config,
    profile,
    commandOwner,
    ...ports,
    ...given,
    home,
    version: programVersion(),
    runtime: `Node ${process.version}, ${type()} ${release()} ${arch()}`,
    utcOffsetMinutes: () => -new Date(ports.clock.now()).getTimezoneOffset(),
  };
}

/**
 * Saves a model in the home of an agent that does not run. The agent reports it after its next start.
 * @throws HOME_LOCKED where an agent runs; what readSettings and FileSaver.save throw; LINE_UNKNOWN
 */
export async function saveWithoutAgent(
  options: AgentOptions,
  line: string,
  request: SaveFileRequest,
): Promise<SavedFile> {
  const home = resolve(options.home);
  const files = nodeFiles();
  const settings = await readSettings(files, home, options);
  await openAgentHome(files, home, settings.enrolment);
  const lock = await lockHome(home, options);
  try {
    const opened = await openAgentLog(options, { files, home, clock: nodeClock(), settings });
    sayTakenOver(lock, home, opened.log);
    const ports = {
      files: lockedFiles(files, lock),
      clock: nodeClock(),
      random: nodeRandom(),
      train: trainInChild,
      evaluate: evaluateInChild,
    };
    const deviceKey = await openDeviceKey(home, settings, ports, new AbortController().signal);
    const ownerCertificate = ownerCertificateOf(settings, files, opened.log);
    const agent = await Agent.open(
      partsOf(home, settings, ports, { ...opened, deviceKey, ownerCertificate, onFatal: () => undefined }),
    );
    try {
      return await agent.save(line, request);
    } finally {
      await agent.stop();
    }
  } finally {
    await lock.release();
  }
}

/** Runs an agent until a signal ends it; resolves with the exit status. */
export async function runAgent(options: Omit<AgentOptions, "log">): Promise<number> {
  const stopped = new Promise<string>((resolveSignal) => {
    for (const signal of ["SIGINT", "SIGTERM"] as const)
      process.once(signal, () => {
        resolveSignal(signal);
      });
    // Stays: a second one must not cut off what the first one lets end.
    process.on("SIGHUP", () => {
      resolveSignal("SIGHUP");
    });
  });
  limitHeapGrowth();
  const handle = await startAgent(options);
  const { log } = handle;
  const manager = tellServiceManager();
  const end = await Promise.race([stopped, handle.failed, handle.stopAsked]);
  if (typeof end === "string")
    log.info("stopping", {
      signal: end,
      text: `${end}: finishing writes and transfers that must be complete`,
    });
  else if ("isForUpdate" in end) log.info("stopping", { text: "finishing writes that must be complete" });
  else
    log.error(end.code === "HOME_TAKEN" ? "home-taken" : "disk-failed", {
      code: end.code,
      text: `${end.message} The agent ends; the service that runs it has to start it again.`,
    });
  manager.stopping();
  // A second signal ends the process immediately.
  for (const signal of ["SIGINT", "SIGTERM"] as const)
    process.once(signal, () => {
      process.exit(exitStatus.failed);
    });
  try {
    await handle.close();
    // SIGINT and SIGTERM ask it to stop. After a SIGHUP, which nobody may have meant so, a service starts it again.
    if (end === "SIGHUP") return exitStatus.interrupted;
    if (typeof end === "string") return exitStatus.done;
    if ("isForUpdate" in end) return end.isForUpdate ? exitStatus.replaced : exitStatus.done;
    return exitStatus.failed;
  } catch (error) {
    log.error("stop-failed", {
      text: messageOf(error),
      code: isStemmaError(error) ? error.code : undefined,
    });
    return exitStatus.failed;
  }
}
