/**
 * The lock of a home: one writing process at a time. Uses processes and sockets of this machine directly,
 * because a file port cannot find out whether another process is alive.
 *
 * A process that wants the lock puts its claim into `<home>/lock/` by a rename, and then reads all claims. A
 * claim whose process is dead by proof (claim-verdict.ts) is removed, so a killed process does not keep a home
 * locked; where there is another one, it withdraws its own. Of two processes that claim at the same time at
 * least one sees the other, so they never both succeed; both may withdraw and retry.
 *
 * The folder also has a reserve of disk space (disk-reserve.ts): on a full disk it is removed so that the
 * claim can be written, and commands that free space can run. (docs/formats.md, "Home")
 */
import { randomBytes } from "node:crypto";
import { mkdir, open, readdir, rename, rm, rmdir, stat } from "node:fs/promises";
import type { Server } from "node:net";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { isStemmaError, type StemmaError } from "../errors.js";
import { deviceOf, factsOf, readClaim, type Asking } from "./claim-facts.js";
import { judgeClaim } from "./claim-verdict.js";
import { claimReserve, keepReserve } from "./disk-reserve.js";
import { fileError, systemCode } from "./file-error.js";
import { fileSystemOf, type FileSystemKind } from "./file-system-kind.js";
import { describeThisProcess, encodeClaim, type LockHolder } from "./home-claim.js";
import { HomeLease } from "./home-lease.js";
import { homeLocked, type OtherClaim } from "./home-locked.js";
import { SocketFolder } from "./lock-sockets.js";

export type { LockHolder } from "./home-claim.js";

export interface HomeLock {
  readonly holder: LockHolder;
  /** Claims that were taken over, because their leases were over and `takeOver` was set. */
  readonly takenOver: readonly OtherClaim[];
  /** Resolves when this process's claim was found to be gone. */
  readonly lost: Promise<StemmaError>;
  /**
   * Checks that the home is still this process's; to be called before each write that others rely on.
   * @throws HOME_TAKEN; FILE_FAILED where that cannot be seen
   */
  assertHeld(): Promise<void>;
  release(): Promise<void>;
}

export interface LockOptions {
  /** Takes over claims whose leases are over; a person has made sure that their processes have ended. */
  readonly takeOver?: boolean | undefined;
  /** The file system to assume; that of the folder when absent. */
  readonly fileSystem?: FileSystemKind | undefined;
}

export const claimSuffix = ".claim";
export const socketSuffix = ".sock";
const maxAttempts = 8;

/** The claims of other processes that may be alive, and those that were taken over. */
interface Others {
  readonly standing: OtherClaim | undefined;
  readonly takenOver: readonly OtherClaim[];
}

/** Reads the claims of other processes. Removes those of dead processes, and those that are taken over. */
async function otherClaims(folder: string, own: string, asking: Asking, takeOver: boolean): Promise<Others> {
  const takenOver: OtherClaim[] = [];
  for (const name of await readdir(folder)) {
    if (!name.endsWith(claimSuffix) || name === own) continue;
    const path = join(folder, name);
    const read = await readClaim(path);
    if (read === undefined) continue;
    const socket = `${name.slice(0, -claimSuffix.length)}${socketSuffix}`;
    const facts = await factsOf(read, socket, asking);
    const { holder } = read.claim;
    const verdict = judgeClaim(facts);
    const other = { path, holder, facts, verdict, fileSystem: asking.fileSystem.name };
    const isTakenOver = verdict === "lease-over" && takeOver;
    if (verdict !== "dead" && !isTakenOver) return { standing: other, takenOver };
    if (isTakenOver) takenOver.push(other);
    await rm(path, { force: true });
    for (const left of new Set([socket, holder?.socket ?? ""]))
      if (left !== "") await rm(join(folder, left), { force: true });
  }
  return { standing: undefined, takenOver };
}

/** Writes a claim durably, so that a power cut leaves all of it or nothing. */
async function writeClaim(path: string, holder: LockHolder): Promise<void> {
  const file = await open(path, "w", 0o600);
  try {
    await file.writeFile(encodeClaim(holder));
    await file.sync();
  } finally {
    await file.close();
  }
}

/** Writes a claim, from the reserve on a full disk. Returns whether it took the reserve. */
async function writeClaimOrUseReserve(folder: string, path: string, holder: LockHolder): Promise<boolean> {
  try {
    await writeClaim(path, holder);
    return false;
  } catch (error) {
    if (systemCode(error) !== "ENOSPC" || !(await claimReserve(folder))) throw error;
    await writeClaim(path, holder);
    return true;
  }
}

/** The files and the socket of this process's claim. */
class OwnClaim {
  readonly name: string;
  readonly socket: string;
  readonly path: string;
  readonly temporary: string;
  readonly sockets: SocketFolder;
  #server: Server | undefined;
  #isRemoved = false;

  constructor(folder: string) {
    const nonce = randomBytes(6).toString("hex");
    this.name = `${nonce}${claimSuffix}`;
    this.socket = `${nonce}${socketSuffix}`;
    this.path = join(folder, this.name);
    this.temporary = join(folder, `${nonce}.tmp`);
    this.sockets = new SocketFolder(folder);
  }

  /** Listens before the claim appears, so that this process is never mistaken for dead. */
  async listen(): Promise<string> {
    this.#server = await this.sockets.listen(this.socket);
    return this.#server === undefined ? "" : this.socket;
  }

  async remove(): Promise<void> {
    if (this.#isRemoved) return;
    this.#isRemoved = true;
    await rm(this.path, { force: true });
    await rm(this.temporary, { force: true });
    // Closing removes the socket by its path through the folder.
    await new Promise<void>((resolve) => {
      if (this.#server === undefined) resolve();
      else
        this.#server.close(() => {
          resolve();
        });
    });
    this.sockets.close();
  }
}

/** Makes a claim, and keeps it if no other process that may live has one. */
async function tryLock(home: string, fileSystem: FileSystemKind, takeOver: boolean): Promise<HomeLock> {
  const folder = lockFolderOf(home);
  const own = new OwnClaim(folder);
  try {
    const renewed = fileSystem.kind !== "local";
    const socket = await own.listen();
    const self = await describeThisProcess({ socket, device: await deviceOf(folder), renewed });
    const claimedReserve = await writeClaimOrUseReserve(folder, own.temporary, self);
    await rename(own.temporary, own.path);
    const nowMs = (await stat(own.path)).mtimeMs;
    const asking = { self, sockets: own.sockets, fileSystem, nowMs };
    const { standing, takenOver } = await otherClaims(folder, own.name, asking, takeOver);
    if (standing !== undefined) throw homeLocked(home, standing);
    // A process that needed the reserve leaves its space to the work that follows, and restores it on
    // release.
    if (!claimedReserve) await keepReserve(folder);
    const lease = new HomeLease(home, own.path, renewed);
    return {
      holder: self,
      takenOver,
      lost: lease.lost,
      assertHeld: () => lease.assertHeld(),
      release: async () => {
        lease.end();
        await keepReserve(folder);
        await own.remove();
      },
    };
  } catch (error) {
    await own.remove();
    throw fileError(error, "take the lock in", folder);
  }
}

/** The folder in a home with the claims and the reserve. */
export function lockFolderOf(home: string): string {
  return join(home, "lock");
}

/** Removes the lock's folder once nobody claims it, where a home keeps none. */
export async function leaveLock(home: string): Promise<void> {
  const folder = lockFolderOf(home);
  // While another process has a claim, the folder is not empty.
  if ((await readdir(folder)).some((name) => name.endsWith(claimSuffix))) return;
  await claimReserve(folder);
  await rmdir(folder).catch(() => undefined);
}

/**
 * Takes the lock of a home, making the folder when missing.
 * @throws HOME_LOCKED naming the process that holds it or may hold it; FILE_FAILED
 */
export async function lockHome(home: string, options: LockOptions = {}): Promise<HomeLock> {
  const { takeOver = false } = options;
  const folder = lockFolderOf(home);
  try {
    await mkdir(folder, { recursive: true, mode: 0o700 });
  } catch (error) {
    throw fileError(error, "make the folder", folder);
  }
  const fileSystem = options.fileSystem ?? (await fileSystemOf(folder));
  for (let tried = 1; ; tried++) {
    try {
      return await tryLock(home, fileSystem, takeOver);
    } catch (error) {
      // Two processes that claim at the same time may both withdraw, so the holder may be gone a moment
      // later.
      if (!isStemmaError(error, "HOME_LOCKED") || tried === maxAttempts) throw error;
      await delay(5 + (randomBytes(1)[0] as number) / 8);
    }
  }
}
