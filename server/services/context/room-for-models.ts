/**
 * Checks whether a home's disk and this process's memory have space for new models. Some stays free for what must still
 * be done when no model fits any more: facts, and the collection that frees space.
 */
import { diskFull } from "./context-errors.js";
import { fullShare, memoryUse, requireMemory, shareOf } from "./memory-room.js";
import type { Home } from "../../storage/repository/home.js";

type HomeDisk = Pick<Home, "path" | "ports">;

/** Bytes that new models leave free on the disk, for the journal and for collections. */
export const reservedBytes = 64 * 1024 * 1024;

export async function hasDiskSpace({ path, ports: { files } }: HomeDisk): Promise<boolean> {
  return (await files.freeBytes(path)) >= reservedBytes;
}

/** The part of the server that has no space for new models. */
export type FullPart = "disk" | "memory";

/** The check for many callers: those that ask while one is under way share its answer. */
export function sharedRoomCheck(home: HomeDisk): () => Promise<FullPart | undefined> {
  let underWay: Promise<FullPart | undefined> | undefined;
  return () =>
    (underWay ??= whatIsFull(home).finally(() => {
      underWay = undefined;
    }));
}

async function whatIsFull(home: HomeDisk): Promise<FullPart | undefined> {
  if (!(await hasDiskSpace(home))) return "disk";
  const { memory } = home.ports;
  return memory !== undefined && shareOf(memoryUse(memory())) >= fullShare ? "memory" : undefined;
}

/**
 * Call before a model is written.
 * @param bytes of the model, where they are known
 * @throws DISK_FULL, MEMORY_FULL
 */
export async function requireRoom({ path, ports: { files, memory } }: HomeDisk, bytes = 0): Promise<void> {
  requireMemory(memory);
  const freeBytes = await files.freeBytes(path);
  if (freeBytes >= bytes + reservedBytes) return;
  const needed = bytes === 0 ? "" : `${bytes} bytes for the model, and `;
  throw diskFull(freeBytes, needed, reservedBytes, bytes);
}
