/**
 * The server of one simulation on a temporary home, which goes with it. Folders that a killed
 * simulation left behind are removed by the next one.
 */
import { readFileSync } from "node:fs";
import { mkdir, mkdtemp, readdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { isStemmaError, StemmaError } from "../../../shared/errors.js";
import { processExists } from "../../../shared/files/process-exists.js";
import type { ServerOperations } from "../../interface/api/server-operations.js";
import { serverFileName } from "../../operations/configuration/config-file.js";
import { memoryOfServices } from "./memory-of-services.js";
import { startServerProcess } from "./server-process.js";

/** All devices have one address, and ask for their certificates in a short time. */
const settings = { format: 1, limits: { http: { certificateRequestsPerMinute: 60_000 } } };
const prefix = "stemma-simulation-";
/** The time that the server may take to start, and to end. */
const graceMs = 60_000;
/** The codes with which commands and devices report that a server is gone. */
const codesOfServerGone: ReadonlySet<string> = new Set(["SERVER_UNREACHABLE", "INTERNAL"]);
/** The time to wait for the server's last output after it was found to be gone. */
const lastWordsMs = 5000;

export interface SimulationServer {
  readonly operations: ServerOperations;
  readonly pid: number;
  /** Returns what to report where the simulation failed with this error: that the server ended, where it did. */
  blame(error: unknown): Promise<unknown>;
  /** Ends the server and removes its home. */
  remove(): Promise<void>;
}

/** @throws CHECK_FAILED where it does not start */
export async function startSimulationServer(fleet: string, tls: "own" | "none"): Promise<SimulationServer> {
  await removeLeftovers();
  const folder = await mkdtemp(join(tmpdir(), `${prefix}${process.pid}-`));
  try {
    const home = join(folder, "home");
    await mkdir(home);
    await writeFile(join(home, serverFileName), JSON.stringify(settings));
    const server = await startServerProcess(home, fleet, {
      options: ["--tls", tls],
      environment: memoryOfServices,
      startMs: graceMs,
    });
    return {
      operations: server.operations,
      pid: server.pid,
      blame: async (error) => {
        // Other errors have a cause of their own.
        if (isStemmaError(error) && !codesOfServerGone.has(error.code)) return error;
        const how = await Promise.race([server.ending, pause(lastWordsMs, undefined, { ref: false })]);
        if (how === undefined) return error;
        return new StemmaError("CHECK_FAILED", `The simulation's server ended before the simulation ${how}`, {
          cause: error,
        });
      },
      remove: async () => {
        await server.operations.close();
        await Promise.race([server.kill("SIGTERM"), pause(graceMs, undefined, { ref: false })]);
        await server.kill("SIGKILL");
        await rm(folder, { recursive: true, force: true });
      },
    };
  } catch (error) {
    await rm(folder, { recursive: true, force: true });
    throw error;
  }
}

/** Removes the folders of simulations whose process has ended. */
async function removeLeftovers(): Promise<void> {
  for (const name of await readdir(tmpdir())) {
    const pid = new RegExp(`^${prefix}(\\d+)-`).exec(name)?.[1];
    if (pid !== undefined && !processExists(Number(pid)))
      await rm(join(tmpdir(), name), { recursive: true, force: true }).catch(() => undefined);
  }
}

/** The most memory that a process of this machine held, in bytes; undefined where the system does not tell. */
export function peakMemory(pid: number): number | undefined {
  try {
    const kilobytes = /^VmHWM:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1];
    return kilobytes === undefined ? undefined : 1024 * Number(kilobytes);
  } catch {
    return undefined;
  }
}
