/** Homes on this machine's disk, as servers and commands open them. */
import { uptime } from "node:os";
import { nodeClock, nodeRandom } from "../../../shared/adapters/node-ports.js";
import { defined } from "../../../shared/defined.js";
import { claimReserve, keepReserve } from "../../../shared/files/disk-reserve.js";
import { describeClaim } from "../../../shared/files/home-locked.js";
import { lockFolderOf, lockHome, type LockOptions } from "../../../shared/files/home-lock.js";
import { lockedFiles } from "../../../shared/files/locked-files.js";
import { openNodeFileNow } from "../../../shared/files/open-now.js";
import { regularFiles } from "../../../shared/files/regular-files.js";
import { captureNodeEnvironment } from "../../../shared/model/node-environment.js";
import type { Log } from "../../../shared/ports.js";
import { programVersion } from "../../../shared/adapters/program-version.js";
import { openHome, type Home, type HomePorts } from "./home.js";
import { readMemory } from "./node-memory.js";
import { openHomeToRead, type ReadHome } from "./read-home.js";

export function nodeHomePorts(log?: Log, options: LockOptions = {}): HomePorts {
  return {
    files: { ...regularFiles(), openNow: openNodeFileNow },
    clock: nodeClock(),
    sinceBootMs: () => uptime() * 1000,
    random: nodeRandom(),
    memory: readMemory,
    lock: async (path) => {
      const lock = await lockHome(path, options);
      for (const claim of lock.takenOver)
        log?.warn("home-taken-over", { text: `took ${path} over from ${describeClaim(claim)}` });
      return {
        lost: lock.lost,
        lockedFiles: (files) => lockedFiles(files, lock),
        release: () => lock.release(),
      };
    },
    reserve: {
      claim: (home) => claimReserve(lockFolderOf(home)),
      keep: (home) => keepReserve(lockFolderOf(home)),
    },
    // Backend "none", because this process does not train; a training process records its own environment.
    environment: captureNodeEnvironment({ backend: "none", stemma: programVersion() }),
    ...defined({ log }),
  };
}

/** @throws HOME_LOCKED, HOME_FORMAT_UNKNOWN */
export async function openNodeHome(path: string, log?: Log, options: LockOptions = {}): Promise<Home> {
  return await openHome(path, nodeHomePorts(log, options));
}

/** @throws NOT_FOUND, HOME_FORMAT_UNKNOWN, KEY_INVALID, FILE_FAILED */
export async function openNodeHomeToRead(path: string): Promise<ReadHome> {
  return await openHomeToRead(path, nodeHomePorts());
}
