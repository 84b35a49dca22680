/** Finds out which process has a home, without taking the home: for those that read it beside that process. */
import { readdir, stat } from "node:fs/promises";
import { join } from "node:path";
import { deviceOf, factsOf, readClaim } from "./claim-facts.js";
import { judgeClaim } from "./claim-verdict.js";
import { fileError, systemCode } from "./file-error.js";
import { fileSystemOf } from "./file-system-kind.js";
import { describeThisProcess } from "./home-claim.js";
import { claimSuffix, lockFolderOf, socketSuffix } from "./home-lock.js";
import { describeClaim, type OtherClaim } from "./home-locked.js";
import { SocketFolder } from "./lock-sockets.js";

/** Describes the process that has the home or may have it; undefined if none is known to. Never throws. */
export async function holderOf(home: string): Promise<string | undefined> {
  const [first] = await standingClaims(home).catch(() => []);
  return first && describeClaim(first);
}

/** Reads the claims of processes that have the home, may have it, or try to get it. @throws FILE_FAILED */
export async function standingClaims(home: string): Promise<readonly OtherClaim[]> {
  const folder = lockFolderOf(home);
  try {
    const names = (await readdir(folder)).filter((name) => name.endsWith(claimSuffix));
    return names.length === 0 ? [] : await standingOf(folder, names);
  } catch (error) {
    if (systemCode(error) === "ENOENT") return [];
    throw fileError(error, "read the lock in", folder);
  }
}

/** The claims of these names whose processes are not dead by proof. */
async function standingOf(folder: string, names: readonly string[]): Promise<readonly OtherClaim[]> {
  const sockets = new SocketFolder(folder);
  try {
    const fileSystem = await fileSystemOf(folder);
    const self = await describeThisProcess({ socket: "", device: await deviceOf(folder), renewed: false });
    const standing: OtherClaim[] = [];
    for (const name of names) {
      const path = join(folder, name);
      const read = await readClaim(path);
      if (read === undefined) continue;
      // No file is written whose time would be that of the file system's clock now; the folder's is near enough.
      const nowMs = Math.max(Date.now(), (await stat(folder)).mtimeMs);
      const socket = `${name.slice(0, -claimSuffix.length)}${socketSuffix}`;
      const facts = await factsOf(read, socket, { self, sockets, fileSystem, nowMs });
      const { holder } = read.claim;
      const verdict = judgeClaim(facts);
      if (verdict !== "dead") standing.push({ path, holder, facts, verdict, fileSystem: fileSystem.name });
    }
    return standing;
  } finally {
    sockets.close();
  }
}
