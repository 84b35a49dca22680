/**
 * A server for one simulation: a process of its own on a temporary home, which goes with it. Folders that a killed
 * simulation left behind are removed by the next one.
 */
import { spawn } from "node:child_process";
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { StemmaError } from "../../shared/errors.js";
import type { ServerOperations } from "../api/server-operations.js";
import { connectOperations } from "../http/client.js";
import { serverFileName } from "../configuration/config-file.js";
import { findLocalServer } from "../http/local-server.js";
import { memoryOfServices } from "./memory-of-services.js";

const serverProgram = fileURLToPath(new URL("../cli/main.js", import.meta.url));
/** All devices have one address, and ask for their certificates in a short time. */
const settings = { format: 1, limits: { http: { certificateRequestsPerMinute: 60_000 } } };
const prefix = "stemma-simulation-";
const startMs = 60_000;
const lookMs = 100;

export interface SimulationServer {
  readonly operations: ServerOperations;
  readonly pid: number;
  /** Ends the server and removes its home. */
  remove(): Promise<void>;
}

/** @throws CHECK_FAILED where it does not start */
export async function startSimulationServer(fleet: string, tls: "own" | "none"): Promise<SimulationServer> {
  await removeLeftovers();
  const folder = await mkdtemp(join(tmpdir(), `${prefix}${process.pid}-`));
  const home = join(folder, "home");
  await mkdir(home);
  await writeFile(join(home, serverFileName), JSON.stringify(settings));
  const child = spawn(
    process.execPath,
    [
      serverProgram,
      "server",
      "--home",
      home,
      "--fleet",
      fleet,
      "--mqtt-port",
      "0",
      "--http-port",
      "0",
      "--tls",
      tls,
    ],
    {
      // Its standard input is a pipe from this process: where this one is killed, it ends too.
      stdio: ["pipe", "ignore", "pipe"],
      env: { ...process.env, ...memoryOfServices, STEMMA_EXIT_WITH_STDIN: "1" },
      detached: true,
    },
  );
  let lastWords = "";
  child.stderr?.setEncoding("utf8").on("data", (text: string) => {
    lastWords = (lastWords + text).slice(-2000);
  });
  const ended = new Promise<void>((resolve) => {
    child.once("close", () => {
      resolve();
    });
    child.once("error", (error) => {
      lastWords += error.message;
      resolve();
    });
  });
  const stop = async (): Promise<void> => {
    if (child.exitCode === null && child.signalCode === null) child.kill("SIGTERM");
    await Promise.race([ended, pause(startMs, undefined, { ref: false })]);
    child.kill("SIGKILL");
    await rm(folder, { recursive: true, force: true });
  };
  const deadlineMs = performance.now() + startMs;
  for (;;) {
    const running = await findLocalServer(home);
    if (running !== undefined) {
      const operations = connectOperations({ socketPath: running.socketPath });
      return {
        operations,
        pid: running.pid,
        remove: async () => {
          await operations.close();
          await stop();
        },
      };
    }
    const isOver = child.exitCode !== null || child.signalCode !== null || performance.now() > deadlineMs;
    if (isOver) {
      await stop();
      throw new StemmaError(
        "CHECK_FAILED",
        `The server of the simulation did not start. Its last words: ${lastWords.trim()}`,
      );
    }
    await Promise.race([pause(lookMs), ended]);
  }
}

/** Removes the folders of simulations whose process has ended. */
async function removeLeftovers(): Promise<void> {
  for (const name of await readdir(tmpdir())) {
    const pid = new RegExp(`^${prefix}(\\d+)-`).exec(name)?.[1];
    if (pid !== undefined && !isRunning(Number(pid)))
      await rm(join(tmpdir(), name), { recursive: true, force: true }).catch(() => undefined);
  }
}

function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
}

/** The most memory that a process of this machine held, in bytes; undefined where the system does not tell. */
export async function peakMemory(pid: number): Promise<number | undefined> {
  try {
    const kilobytes = /^VmHWM:\s+(\d+) kB$/m.exec(await readFile(`/proc/${pid}/status`, "utf8"))?.[1];
    return kilobytes === undefined ? undefined : 1024 * Number(kilobytes);
  } catch {
    return undefined;
  }
}
