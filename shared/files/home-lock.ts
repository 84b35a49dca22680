/**
 * One writer for a home. Touches this machine directly (processes, a socket), for no file
 * port can say whether another process lives.
 *
 * Who wants the lock puts a claim of its own into `<home>/lock/`, whole at once, and then looks at all
 * claims: where another one's process lives, it withdraws. Of two that claim at the same time each sees
 * the other or is seen, so never do both pass; both may withdraw, and try again. Claims of dead
 * processes are removed on the way, so nothing that was killed keeps a home shut.
 *
 * Beside the claims lies a reserve (disk-reserve.ts): on a full disk it makes room for the claim, so that
 * what frees space can still run.
 */
import { randomBytes } from "node:crypto";
import { mkdir, readFile, readdir, readlink, rename, rm, writeFile } from "node:fs/promises";
import { createConnection, createServer, type Server } from "node:net";
import { hostname } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { StemmaError } from "../errors.js";
import { claimReserve, keepReserve } from "./disk-reserve.js";
import { fileError, systemCode } from "./file-error.js";

/** Who holds a home. */
export interface LockHolder {
  readonly pid: number;
  /**
   * Kernel's start time of the process where it can be told (Linux), so that a reused pid is not taken for
   * the holder.
   */
  readonly started: string;
  readonly host: string;
  readonly boot: string;
  readonly processNamespace: string;
  readonly command: string;
  readonly sinceMs: number;
  /** A socket that the holder listens on, in the lock folder; "" where its path would be too long. */
  readonly socket: string;
}

export interface HomeLock {
  readonly holder: LockHolder;
  release(): Promise<void>;
}

/** Longer socket paths are cut silently by some systems (FORMATS, Home). */
const maxSocketPathBytes = 99;
const claimSuffix = ".claim";
const maxClaimBytes = 64 * 1024;
const attempts = 8;

async function textOf(path: string): Promise<string> {
  try {
    return (await readFile(path, "utf8")).trim();
  } catch {
    return "";
  }
}

/**
 * Field 22 of /proc/<pid>/stat: start in clock ticks since boot; "" where the system does not tell. The name
 * in field 2 may hold spaces and brackets.
 */
async function startOf(pid: number | "self"): Promise<string> {
  const stat = await textOf(`/proc/${pid}/stat`);
  return stat.slice(stat.lastIndexOf(")") + 2).split(" ")[19] ?? "";
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
      resolve(server);
    });
  });
}

/** Whether somebody listens. A busy process need not answer: the kernel connects for it. */
function answers(path: string): Promise<boolean> {
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

function processExists(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return systemCode(error) === "EPERM";
  }
}

/** `alive`, `dead`, or `unknown` where it is another machine's. */
async function judge(
  holder: LockHolder,
  self: LockHolder,
  folder: string,
): Promise<"alive" | "dead" | "unknown"> {
  if (holder.boot !== self.boot) return holder.host === self.host ? "dead" : "unknown";
  if (holder.socket !== "") return (await answers(join(folder, holder.socket))) ? "alive" : "dead";
  if (holder.processNamespace !== self.processNamespace)
    return holder.host === self.host ? "dead" : "unknown";
  if (!processExists(holder.pid)) return "dead";
  const started = await startOf(holder.pid);
  return started === "" || started === holder.started ? "alive" : "dead";
}

function parseHolder(text: string): LockHolder | undefined {
  try {
    const value = JSON.parse(text) as Record<string, unknown>;
    const words = ["started", "host", "boot", "processNamespace", "command", "socket"].every(
      (field) => typeof value[field] === "string",
    );
    return words &&
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
        `${home} is in use by process ${holder.pid} (${holder.command}) since ${since}. Stop it first, give the command to it (--server), or use another --home.`,
        { home, holder },
      )
    : new StemmaError(
        "HOME_LOCKED",
        `${home} was taken by process ${holder.pid} on the machine ${holder.host} (${holder.command}) at ${since}; from here it cannot be told whether that still runs. If it does not, remove ${path} and try again.`,
        { home, holder },
      );
}

/** The claim of somebody else who may live, after removing the claims of the dead. */
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
    // A claim appears whole; one that cannot be read was damaged later, by a crash of the machine, and its
    // process with it.
    const state = holder === undefined ? "dead" : await judge(holder, self, folder);
    if (holder !== undefined && state !== "dead") return { holder, state, path };
    await rm(path, { force: true });
    if (holder !== undefined && holder.socket !== "") await rm(join(folder, holder.socket), { force: true });
  }
  return undefined;
}

async function describeSelf(folder: string, nonce: string): Promise<LockHolder> {
  const socket = `${nonce}.sock`;
  return {
    pid: process.pid,
    started: await startOf("self"),
    host: hostname(),
    boot: await textOf("/proc/sys/kernel/random/boot_id"),
    processNamespace: await processNamespace(),
    command: process.argv.slice(1).join(" ").slice(0, 200) || process.title,
    sinceMs: Date.now(),
    socket: Buffer.byteLength(join(folder, socket)) <= maxSocketPathBytes ? socket : "",
  };
}

/** Puts up a claim and keeps it where nobody else has one. */
async function attempt(home: string, folder: string): Promise<HomeLock> {
  const nonce = randomBytes(6).toString("hex");
  const self = await describeSelf(folder, nonce);
  const claim = `${nonce}${claimSuffix}`;
  const temporary = join(folder, `${nonce}.tmp`);
  // Listening begins before the claim shows, so that nobody finds it deaf and takes it for dead.
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
    // Who needed it leaves it to the work that is to come, and puts it back in the end.
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

/**
 * Takes the one writer's lock of a home, making the folder when missing.
 * @throws HOME_LOCKED naming the process that holds it; FILE_FAILED
 */
export async function lockHome(home: string): Promise<HomeLock> {
  const folder = join(home, "lock");
  try {
    await mkdir(folder, { recursive: true, mode: 0o700 });
  } catch (error) {
    throw fileError(error, "make the folder", folder);
  }
  for (let tried = 1; ; tried++) {
    try {
      return await attempt(home, folder);
    } catch (error) {
      // Two that claim at once may both withdraw: a holder that is gone a moment later was such a one.
      if (!(error instanceof StemmaError) || error.code !== "HOME_LOCKED" || tried === attempts) throw error;
      await delay(5 + (randomBytes(1)[0] as number) / 8);
    }
  }
}
