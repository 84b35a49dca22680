/**
 * Composition root of the agent: ports of this machine, files of its home, doors, then the agent. Also
 * what `stemma agent run` does around it: signals, log, exit status.
 */
import { readFile } from "node:fs/promises";
import { arch, release, type } from "node:os";
import { join, resolve } from "node:path";
import { nodeClock, nodeRandom } from "../shared/adapters/node-ports.js";
import { exitStatus, isStemmaError, type StemmaError } from "../shared/errors.js";
import { lockHome } from "../shared/files/home-lock.js";
import { nodeFiles } from "../shared/files/node-files.js";
import type { Clock, Files, Log, Random } from "../shared/ports.js";
import { trainInChild } from "../shared/train/train-in-child.js";
import { loadEnrolment } from "../shared/trust/enrolment.js";
import { makeRunFolder, openAgentHome, writeRunFile } from "./agent-home.js";
import { agentLog, type LogForm } from "./agent-log.js";
import { Agent } from "./agent.js";
import { loadConfig, parseConfig } from "./config.js";
import { controlDoor, samplesDoor } from "./control/doors.js";
import { JsonLineServer } from "./control/json-line-server.js";
import { loadProfile, parseProfile } from "./profile.js";
import type { AgentStatus } from "./status.js";
import type { Trained, TrainingRequest } from "./trainer/trainer.js";
import type { Hash } from "../shared/tensor/tensor.js";

export interface AgentOptions {
  /** The agent's own folder; made when missing. One agent a folder. */
  readonly home: string;
  /** Enrolment file; `<home>/enrolment.json` when absent. */
  readonly enrolment?: string;
  /**
   * Settings file; `<home>/agent.json` when absent, and defaults without one. An object is taken as it is.
   */
  readonly config?: string | Readonly<Record<string, unknown>>;
  /** Profile by name, absolute path or value; else the settings' one, else the enrolment's. */
  readonly profile?: string | Readonly<Record<string, unknown>>;
  readonly log?: Log;
}

/** What a test or another host puts in place of this machine's own. */
export interface AgentPorts {
  readonly files: Files;
  readonly clock: Clock;
  readonly random: Random;
  readonly train: typeof trainInChild;
}

export interface AgentHandle {
  /** Local sockets: `control` for the owner, `samples` for the device's software (control/doors.ts). */
  readonly sockets: { readonly control: string; readonly samples: string };
  status(): Promise<AgentStatus>;
  /** Fine-tunes a line now; resolves with the new model, durable in the outbox. */
  train(line: string, request?: TrainingRequest): Promise<Trained>;
  activate(line: string, versionId: Hash): Promise<void>;
  takeSamples(
    line: string,
    samples: readonly unknown[],
    batch?: string,
  ): Promise<{ readonly accepted: number; readonly alreadyThere: number }>;
  /** Resolves when the agent cannot go on: its disk failed to keep something. Close it and start again. */
  readonly failed: Promise<StemmaError>;
  close(): Promise<void>;
}

/** Longest request on a local socket: a batch of samples. */
const maxLineBytes = { control: 16 * 1024 * 1024, samples: 16 * 1024 * 1024 };
const maxConnections = 64;

/**
 * Starts an agent. It runs whether or not its server can be reached.
 * @throws ENROLMENT_INVALID, CONFIG_INVALID, PROFILE_INVALID naming the field; HOME_LOCKED when another agent
 * has the home; OUTBOX_CORRUPT
 */
export async function startAgent(
  options: AgentOptions,
  ports: Partial<AgentPorts> = {},
): Promise<AgentHandle> {
  const files = ports.files ?? nodeFiles();
  const clock = ports.clock ?? nodeClock();
  const random = ports.random ?? nodeRandom();
  const log = options.log ?? agentLog("plain", false);
  const home = resolve(options.home);
  const enrolment = await loadEnrolment(files, resolve(options.enrolment ?? join(home, "enrolment.json")));
  const config =
    typeof options.config === "object"
      ? parseConfig(options.config, "(given)")
      : await loadConfig(files, home, options.config);
  const profile =
    typeof options.profile === "object"
      ? parseProfile(options.profile, "(given)")
      : await loadProfile(files, options.profile ?? config.profile ?? enrolment.profile);
  await openAgentHome(files, home, enrolment);
  const lock = await lockHome(home);
  const doors: JsonLineServer[] = [];
  let fail: (error: StemmaError) => void = () => undefined;
  const failed = new Promise<StemmaError>((resolveFailed) => {
    fail = resolveFailed;
  });
  try {
    const agent = await Agent.open({
      home,
      version: await programVersion(),
      enrolment,
      config,
      profile,
      files,
      clock,
      random,
      log,
      train: ports.train ?? trainInChild,
      onFatal: fail,
      runtime: `Node ${process.version}, ${type()} ${release()} ${arch()}`,
      utcOffsetMinutes: () => -new Date(clock.now()).getTimezoneOffset(),
    });
    const runFolder = await makeRunFolder(home);
    const sockets = { control: join(runFolder, "control.sock"), samples: join(runFolder, "samples.sock") };
    const close = async (): Promise<void> => {
      for (const door of doors) await door.close();
      await agent.stop();
      await lock.release();
    };
    try {
      doors.push(
        await JsonLineServer.listen(
          { path: sockets.control, mode: 0o600, maxLineBytes: maxLineBytes.control, maxConnections, log },
          controlDoor(agent),
        ),
      );
      doors.push(
        await JsonLineServer.listen(
          { path: sockets.samples, mode: 0o660, maxLineBytes: maxLineBytes.samples, maxConnections, log },
          samplesDoor(agent),
        ),
      );
      await writeRunFile(files, home, { pid: process.pid, ...sockets, startedAtMs: clock.now() });
      await agent.start();
    } catch (error) {
      for (const door of doors.splice(0)) await door.close();
      await agent.stop();
      throw error;
    }
    return {
      sockets,
      failed,
      status: () => agent.status(),
      train: (line, request) => agent.train(line, request),
      activate: (line, versionId) => agent.activate(line, versionId),
      takeSamples: async (line, samples, batch) => await agent.takeSamples(line, samples, batch),
      close,
    };
  } catch (error) {
    await lock.release();
    throw error;
  }
}

export interface RunOptions extends Omit<AgentOptions, "log"> {
  readonly logForm: LogForm;
  readonly verbose: boolean;
}

/** Runs an agent until a signal ends it; resolves with the exit status. */
export async function runAgent({ logForm, verbose, ...options }: RunOptions): Promise<number> {
  const log = agentLog(logForm, verbose);
  const stopped = new Promise<string>((resolveSignal) => {
    for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const)
      process.once(signal, () => {
        resolveSignal(signal);
      });
  });
  const handle = await startAgent({ ...options, log });
  const end = await Promise.race([stopped, handle.failed]);
  if (typeof end === "string")
    log.info("stopping", { signal: end, text: `${end}: finishing what must not be torn` });
  else
    log.error("disk-failed", {
      code: end.code,
      text: `${end.message} The agent ends; whoever keeps it running starts it again.`,
    });
  // A second signal does not wait.
  for (const again of ["SIGINT", "SIGTERM"] as const)
    process.once(again, () => {
      process.exit(exitStatus.failed);
    });
  try {
    await handle.close();
    return typeof end === "string" ? exitStatus.done : exitStatus.failed;
  } catch (error) {
    log.error("stop-failed", {
      text: (error as Error).message,
      ...(isStemmaError(error) && { code: error.code }),
    });
    return exitStatus.failed;
  }
}

async function programVersion(): Promise<string> {
  const text = await readFile(new URL("../../package.json", import.meta.url), "utf8");
  return String((JSON.parse(text) as { version: unknown }).version);
}
