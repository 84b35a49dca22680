/**
 * Sockets in the lock folder. The kernel finds the listener by the socket's file, so a holder answers across
 * process namespaces. Paths go through the opened folder, /proc/self/fd/N/NAME: a socket's path has at most 107
 * bytes, and a home's may be longer.
 */
import { closeSync, openSync } from "node:fs";
import { lstat } from "node:fs/promises";
import { createConnection, createServer, type Server } from "node:net";
import { join } from "node:path";
import { systemCode } from "./file-error.js";
import { listenLocally } from "./listen-locally.js";

/** Some systems silently cut longer socket paths. */
const maxSocketPathBytes = 99;

/** An opened folder whose sockets have short paths. */
export class SocketFolder {
  readonly #folder: string;
  readonly #descriptor: number;

  constructor(folder: string) {
    this.#folder = folder;
    this.#descriptor = openSync(folder, "r");
  }

  /** The path by which a socket is used; undefined where each one is too long. */
  async #pathOf(name: string): Promise<string | undefined> {
    const direct = join(this.#folder, name);
    if (Buffer.byteLength(direct) <= maxSocketPathBytes) return direct;
    const opened = `/proc/self/fd/${this.#descriptor}`;
    const isThere = await lstat(opened).then(
      () => true,
      () => false,
    );
    return isThere ? `${opened}/${name}` : undefined;
  }

  /**
   * Listens on a new socket; undefined where this file system or its path allows none.
   * @throws the system's error where the disk is full or there are no descriptors
   */
  async listen(name: string): Promise<Server | undefined> {
    const path = await this.#pathOf(name);
    if (path === undefined) return undefined;
    try {
      return await listenOn(path);
    } catch (error) {
      if (["ENOSPC", "EDQUOT", "EMFILE", "ENFILE", "EROFS"].includes(systemCode(error) ?? "")) throw error;
      return undefined;
    }
  }

  /** Asks whether a process listens. It need not be idle: the kernel accepts the connection. */
  async ask(name: string): Promise<"answers" | "refuses" | "absent" | "unknown"> {
    const found = await lstat(join(this.#folder, name)).catch((error: unknown) => systemCode(error) ?? "");
    if (found === "ENOENT") return "absent";
    if (typeof found === "string") return "unknown";
    // A file or a link in the socket's place would refuse as well, whoever lives.
    if (!found.isSocket()) return found.isFile() ? "absent" : "unknown";
    const path = await this.#pathOf(name);
    return path === undefined ? "unknown" : await connectTo(path);
  }

  close(): void {
    closeSync(this.#descriptor);
  }
}

async function listenOn(path: string): Promise<Server> {
  const server = createServer((socket) => {
    socket.destroy();
  });
  await listenLocally(server, path, 0o600);
  return server.unref();
}

function connectTo(path: string): Promise<"answers" | "refuses" | "absent" | "unknown"> {
  return new Promise((resolve) => {
    const socket = createConnection(path);
    socket.once("connect", () => {
      socket.destroy();
      resolve("answers");
    });
    socket.once("error", (error) => {
      socket.destroy();
      const code = systemCode(error);
      // EAGAIN: the listener's queue is full.
      resolve(
        code === "EAGAIN"
          ? "answers"
          : code === "ECONNREFUSED"
            ? "refuses"
            : code === "ENOENT"
              ? "absent"
              : "unknown",
      );
    });
  });
}
