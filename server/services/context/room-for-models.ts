/**
 * Checks whether a home's disk has space for new models. Some bytes stay free for what must still be written
 * when no model fits any more: facts, and the collection that frees space.
 */
import { StemmaError } from "../../../shared/errors.js";
import type { Home } from "../../storage/repository/home.js";

type HomeDisk = Pick<Home, "path" | "ports">;

/** Bytes that new models leave free on the disk, for the journal and for collections. */
export const reservedBytes = 64 * 1024 * 1024;

export async function hasDiskSpace({ path, ports: { files } }: HomeDisk): Promise<boolean> {
  return (await files.freeBytes(path)) >= reservedBytes;
}

/** The same check for many callers: those that ask while one is under way share its answer. */
export function sharedDiskCheck(home: HomeDisk): () => Promise<boolean> {
  let underWay: Promise<boolean> | undefined;
  return () =>
    (underWay ??= hasDiskSpace(home).finally(() => {
      underWay = undefined;
    }));
}

/**
 * Call before a model is written.
 * @param bytes of the model, where they are known
 * @throws DISK_FULL
 */
export async function requireDiskSpace({ path, ports: { files } }: HomeDisk, bytes = 0): Promise<void> {
  const freeBytes = await files.freeBytes(path);
  if (freeBytes >= bytes + reservedBytes) return;
  const needed = bytes === 0 ? "" : `${bytes} bytes for the model, and `;
  throw new StemmaError(
    "DISK_FULL",
    `The server's disk is full: it has ${freeBytes} free bytes, and a new model needs ${needed}${reservedBytes} bytes that stay free for the journal. Nothing was stored. Free some space on the server, for example with \`stemma storage gc\`, and try again.`,
    { freeBytes, bytes, reservedBytes },
  );
}
