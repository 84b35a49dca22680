/**
 * The lock of a home: one writing process at a time. Uses processes and sockets of this machine directly,
 * because a file port cannot find out whether another process is alive.
 *
 * A process that wants the lock puts its claim into `<home>/lock/` by a rename, and then reads all claims. If
 * the process of another claim is alive, it withdraws its own. Of two processes that claim at the same time
 * at least one sees the other, so they never both succeed; both may withdraw and retry. Claims of dead
 * processes are removed, so a killed process does not keep a home locked.
 *
 * The folder also has a reserve of disk space (disk-reserve.ts): on a full disk it is removed so that the
 * claim can be written, and commands that free space can run. (docs/formats.md, "Home")
 */
import { randomBytes } from "node:crypto";
import { chmod, mkdir, readFile, readdir, readlink, rename, rm, writeFile } from "node:fs/promises";
import { createConnection, createServer, type Server } from "node:net";
import { hostname } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { isStemmaError, StemmaError } from "../errors.js";
import { claimReserve, keepReserve } from "./disk-reserve.js";
import { fileError, systemCode } from "./file-error.js";
import { processExists } from "./process-exists.js";
import { startOfProcess } from "./process-start.js";

/** The process that holds a home. */
export interface LockHolder {
  readonly pid: number;
  /**
   * The kernel's start time of the process (Linux; "" elsewhere), so that another process with a reused pid
   * is not mistaken for the holder.
   */
  readonly started: string;
  readonly host: string;
  readonly boot: string;
  readonly processNamespace: string;
  readonly command: string;
  readonly sinceMs: number;
  /**
   * Name of the socket in the lock folder that the holder listens on; "" where its path would be too long.
   */
  readonly socket: string;
}

export interface HomeLock {
  readonly holder: LockHolder;
  release(): Promise<void>;
}

/** Some systems silently cut longer socket paths (docs/formats.md, "Home"). */
const maxSocketPathBytes = 99;
const claimSuffix = ".claim";
const maxClaimBytes = 64 * 1024;
const maxAttempts = 8;

async function textOf(path: string): Promise<string> {
  try {
    return (await readFile(path, "utf8")).trim();
  } catch {
    return "";
  }
}

async function processNamespace(): Promise<string> {
  try {
    return await readlink("/proc/self/ns/pid");
  } catch {
    return "";
  }
}

function listen(path: string): Promise<Server> {
  return new Promise((resolve, reject) => {
    const server = createServer((socket) => {
      socket.destroy();
    });
    server.once("error", reject);
    server.listen(path, () => {
      server.unref();
      chmod(path, 0o600).then(() => {
        resolve(server);
      }, reject);
    });
  });
}

/** True if a process listens on a socket. It need not be idle: the kernel accepts the connection. */
function isListening(path: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = createConnection(path);
    const end = (alive: boolean): void => {
      socket.destroy();
      resolve(alive);
    };
    socket.once("connect", () => end(true));
    socket.once("error", (error) => end(!["ECONNREFUSED", "ENOENT"].includes(systemCode(error) ?? "")));
  });
}

/** Finds out whether a holder is alive; `unknown` where it is on another machine. */
async function holderState(
  holder: LockHolder,
  self: LockHolder,
  folder: string,
): Promise<"alive" | "dead" | "unknown"> {
  if (holder.boot !== self.boot) return holder.host === self.host ? "dead" : "unknown";
  if (holder.socket !== "") return (await isListening(join(folder, holder.socket))) ? "alive" : "dead";
  if (holder.processNamespace !== self.processNamespace)
    return holder.host === self.host ? "dead" : "unknown";
  if (!processExists(holder.pid)) return "dead";
  const started = await startOfProcess(holder.pid);
  return started === "" || started === holder.started ? "alive" : "dead";
}

function parseHolder(text: string): LockHolder | undefined {
  try {
    const value = JSON.parse(text) as Record<string, unknown>;
    const hasTexts = ["started", "host", "boot", "processNamespace", "command", "socket"].every(
      (field) => typeof value[field] === "string",
    );
    return hasTexts &&
      Number.isSafeInteger(value["pid"]) &&
      (value["pid"] as number) > 0 &&
      typeof value["sinceMs"] === "number" &&
      !(value["socket"] as string).includes("/")
      ? (value as unknown as LockHolder)
      : undefined;
  } catch {
    return undefined;
  }
}

async function readClaim(path: string): Promise<LockHolder | undefined | "gone"> {
  try {
    const bytes = await readFile(path);
    return bytes.length > maxClaimBytes ? undefined : parseHolder(bytes.toString("utf8"));
  } catch (error) {
    if (systemCode(error) === "ENOENT") return "gone";
    throw fileError(error, "read the lock", path);
  }
}

function locked(home: string, holder: LockHolder, state: "alive" | "unknown", path: string): StemmaError {
  const since = new Date(holder.sinceMs).toISOString();
  return state === "alive"
    ? new StemmaError(
        "HOME_LOCKED",
        `${home} is in use by process ${holder.pid} (${holder.command}) since ${since}. Stop it first, send the command to it (--server), or use another --home.`,
        { home, holder },
      )
    : new StemmaError(
        "HOME_LOCKED",
        `${home} was taken by process ${holder.pid} on the machine ${holder.host} (${holder.command}) at ${since}. Whether that process still runs cannot be checked from here. If it does not, remove ${path} and try again.`,
        { home, holder },
      );
}

/** True if a process listens on the socket that belongs to a claim by its name, whatever its content is. */
async function isListeningFor(folder: string, claim: string): Promise<boolean> {
  const socket = join(folder, `${claim.slice(0, -claimSuffix.length)}.sock`);
  return Buffer.byteLength(socket) <= maxSocketPathBytes && (await isListening(socket));
}

/** Stands for the process of a claim that cannot be read. */
function unreadableHolder(self: LockHolder): LockHolder {
  return { ...self, pid: 0, command: "unknown: its claim cannot be read", sinceMs: 0 };
}

/** A claim of another process that is or may be alive. Removes the claims of dead processes. */
async function otherHolder(
  folder: string,
  own: string,
  self: LockHolder,
): Promise<
  { readonly holder: LockHolder; readonly state: "alive" | "unknown"; readonly path: string } | undefined
> {
  for (const name of await readdir(folder)) {
    if (!name.endsWith(claimSuffix) || name === own) continue;
    const path = join(folder, name);
    const holder = await readClaim(path);
    if (holder === "gone") continue;
    // A claim appears by a rename, complete. One that cannot be parsed, or whose process seems dead, was left by
    // a crash, or its bytes were damaged since: then its process still listens on the socket named like it.
    const state = holder === undefined ? "dead" : await holderState(holder, self, folder);
    if (holder !== undefined && state !== "dead") return { holder, state, path };
    if (await isListeningFor(folder, name))
      return { holder: holder ?? unreadableHolder(self), state: "alive", path };
    await rm(path, { force: true });
    if (holder !== undefined && holder.socket !== "") await rm(join(folder, holder.socket), { force: true });
  }
  return undefined;
}

async function describeSelf(folder: string, nonce: string): Promise<LockHolder> {
  const socket = `${nonce}.sock`;
  return {
    pid: process.pid,
    started: await startOfProcess("self"),
    host: hostname(),
    boot: await textOf("/proc/sys/kernel/random/boot_id"),
    processNamespace: await processNamespace(),
    command: process.argv.slice(1).join(" ").slice(0, 200) || process.title,
    sinceMs: Date.now(),
    socket: Buffer.byteLength(join(folder, socket)) <= maxSocketPathBytes ? socket : "",
  };
}

/** Makes a claim, and keeps it if no other live process has one. */
async function tryLock(home: string, folder: string): Promise<HomeLock> {
  const nonce = randomBytes(6).toString("hex");
  const self = await describeSelf(folder, nonce);
  const claim = `${nonce}${claimSuffix}`;
  const temporary = join(folder, `${nonce}.tmp`);
  // Listen before the claim appears, so that this process is never mistaken for dead.
  const server =
    self.socket === ""
      ? undefined
      : await listen(join(folder, self.socket)).catch((error: unknown) => {
          throw fileError(error, "listen on", join(folder, self.socket));
        });
  const release = async (): Promise<void> => {
    await rm(join(folder, claim), { force: true });
    await rm(temporary, { force: true });
    if (server !== undefined)
      await new Promise((resolve) => {
        server.close(resolve);
      });
  };
  const write = (): Promise<void> => writeFile(temporary, JSON.stringify(self), { mode: 0o600 });
  let claimedReserve = false;
  try {
    await write().catch(async (error: unknown) => {
      claimedReserve = systemCode(error) === "ENOSPC" && (await claimReserve(folder));
      if (!claimedReserve) throw error;
      await write();
    });
    await rename(temporary, join(folder, claim));
    const other = await otherHolder(folder, claim, self);
    if (other !== undefined) throw locked(home, other.holder, other.state, other.path);
    // A process that needed the reserve leaves its space to the work that follows, and restores it on
    // release.
    if (!claimedReserve) await keepReserve(folder);
    return {
      holder: self,
      release: async () => {
        await keepReserve(folder);
        await release();
      },
    };
  } catch (error) {
    await release();
    throw fileError(error, "take the lock in", folder);
  }
}

/** The folder in a home with the claims and the reserve. */
export function lockFolderOf(home: string): string {
  return join(home, "lock");
}

/**
 * Takes the lock of a home, making the folder when missing.
 * @throws HOME_LOCKED naming the process that holds it; FILE_FAILED
 */
export async function lockHome(home: string): Promise<HomeLock> {
  const folder = lockFolderOf(home);
  try {
    await mkdir(folder, { recursive: true, mode: 0o700 });
  } catch (error) {
    throw fileError(error, "make the folder", folder);
  }
  for (let tried = 1; ; tried++) {
    try {
      return await tryLock(home, folder);
    } catch (error) {
      // Two processes that claim at the same time may both withdraw, so the holder may be gone a moment
      // later.
      if (!isStemmaError(error, "HOME_LOCKED") || tried === maxAttempts) throw error;
      await delay(5 + (randomBytes(1)[0] as number) / 8);
    }
  }
}
