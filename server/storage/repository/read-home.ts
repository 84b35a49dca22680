/** Opens a home without its lock, to read it beside whoever writes to it. */
import { join } from "node:path";
import { readingFiles } from "../../../shared/files/reading-files.js";
import { HomeChanges } from "./home-changes.js";
import { homeOf, readRunFolder, requireHome, type Home, type HomePorts } from "./home.js";
import { keyPath, loadServerKey } from "./server-key.js";

/** A home that is only read. */
export type ReadHome = Home & Required<Pick<Home, "changes">>;

/**
 * Works on a full disk and on one that cannot be written, too. What would change it fails, as `needsToWrite` tells.
 * @throws NOT_FOUND, HOME_FORMAT_UNKNOWN, KEY_INVALID, FILE_FAILED, TIER_INVALID
 */
export async function openHomeToRead(path: string, givenPorts: HomePorts): Promise<ReadHome> {
  const files = readingFiles(givenPorts.files);
  await requireHome(files, path);
  const key = await loadServerKey(files, keyPath(path));
  const runFolder = (await readRunFolder(files, path)) ?? join(path, "run");
  return {
    ...(await homeOf(path, { ports: { ...givenPorts, files }, key, runFolder })),
    changes: new HomeChanges(files),
    lost: new Promise(() => undefined),
    close: () => Promise.resolve(),
  };
}
