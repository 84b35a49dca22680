/** Opens a local socket whose file nobody else can open, from the moment that it is there. */
import { chmod } from "node:fs/promises";
import type { Server } from "node:net";

/**
 * Listens on `path`. The file gets its permission when the system makes it, which `listen` does before it returns; the
 * umask is the process's own again before anything else runs.
 * @param mode of the socket's file, such as 0o600
 * @throws the system's error
 */
export async function listenLocally(server: Server, path: string, mode: number): Promise<void> {
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    const before = process.umask(0o777 & ~mode);
    try {
      server.listen(path, resolve);
    } finally {
      process.umask(before);
    }
  });
  await chmod(path, mode);
}
