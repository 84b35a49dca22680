/** Finds out the facts about another process's claim, for claim-verdict.ts. What cannot be seen is `unknown`. */
import { open, readlink, stat } from "node:fs/promises";
import { systemCode, fileError } from "./file-error.js";
import type { ClaimFacts } from "./claim-verdict.js";
import type { FileSystemKind } from "./file-system-kind.js";
import { decodeClaim, type ClaimContent, type LockHolder } from "./home-claim.js";
import type { SocketFolder } from "./lock-sockets.js";
import { processExists } from "./process-exists.js";
import { startOfProcess } from "./process-start.js";

/** The claim of another process, as it was read. */
export interface ReadClaim {
  readonly claim: ClaimContent;
  /** Time of its last renewal, by the file system's clock. */
  readonly modifiedMs: number;
}

/**
 * Reads a claim; undefined if it is gone. The file is opened first, since a network file system then asks its server
 * for the time of the last renewal.
 * @throws FILE_FAILED
 */
export async function readClaim(path: string): Promise<ReadClaim | undefined> {
  try {
    const file = await open(path, "r");
    try {
      const { mtimeMs } = await file.stat();
      return { claim: decodeClaim(await file.readFile()), modifiedMs: mtimeMs };
    } finally {
      await file.close();
    }
  } catch (error) {
    if (["ENOENT", "ESTALE"].includes(systemCode(error) ?? "")) return undefined;
    throw fileError(error, "read the lock", path);
  }
}

/** The process that asks, and the folder in which it does. */
export interface Asking {
  readonly self: LockHolder;
  readonly sockets: Pick<SocketFolder, "ask">;
  readonly fileSystem: FileSystemKind;
  /** The time now, by the file system's clock. */
  readonly nowMs: number;
}

/** @param socketOfClaim the socket that belongs to the claim by its name, whatever its content is */
export async function factsOf(
  { claim: { content, holder }, modifiedMs }: ReadClaim,
  socketOfClaim: string,
  { self, sockets, fileSystem, nowMs }: Asking,
): Promise<ClaimFacts> {
  const boot = compare(holder?.boot, self.boot);
  const namespace = compare(holder?.processNamespace, self.processNamespace);
  const own = await sockets.ask(socketOfClaim);
  const named =
    holder === undefined || holder.socket === "" || holder.socket === socketOfClaim
      ? own
      : await sockets.ask(holder.socket);
  return {
    content,
    boot,
    machine: compare(holder?.machine, self.machine),
    namespace,
    socket: own === "answers" ? own : named,
    process:
      holder !== undefined && boot === "same" && namespace === "same"
        ? await processOf(holder, self)
        : "unknown",
    files: fileSystem.kind,
    mount: compare(holder?.device, self.device),
    renewed: holder?.renewed ?? false,
    ageMs: nowMs - modifiedMs,
  };
}

function compare(one: string | undefined, other: string | undefined): "same" | "other" | "unknown" {
  if (one === undefined || other === undefined || one === "" || other === "") return "unknown";
  return one === other ? "same" : "other";
}

/** Looks at a process of this process's own namespace. */
async function processOf(holder: LockHolder, self: LockHolder): Promise<ClaimFacts["process"]> {
  if (!processExists(holder.pid)) return "gone";
  // A /proc of another namespace shows another process by this number.
  const isOwnProc = (await readlink("/proc/self").catch(() => "")) === String(process.pid);
  const started = isOwnProc ? await startOfProcess(holder.pid) : "";
  if (started === "" || holder.started === "") return "unknown";
  if (started === holder.started) return "alive";
  const isCountedAlike = (holder.timeNamespace ?? "") === (self.timeNamespace ?? "");
  return isCountedAlike ? "replaced" : "unknown";
}

/** The device number of a folder, which tells mounts of one boot apart. */
export async function deviceOf(folder: string): Promise<string> {
  return await stat(folder, { bigint: true }).then(
    ({ dev }) => String(dev),
    () => "",
  );
}
