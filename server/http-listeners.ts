/** The two addresses of the HTTP API: TCP with a token, and a socket that only this user can open. */
import { chmod, rm } from "node:fs/promises";
import type { AddressInfo } from "node:net";
import type { FastifyInstance } from "fastify";
import { StemmaError } from "../shared/errors.js";
import type { Log } from "../shared/ports.js";
import { urlHost } from "../shared/url-host.js";

/** Listens on the port, or on a free one where it is taken; returns the URL. @throws SERVER_UNREACHABLE */
export async function listenOnTcp(
  app: FastifyInstance,
  { host, port, log }: { readonly host: string; readonly port: number; readonly log: Log },
): Promise<string> {
  try {
    await app.listen({ host, port });
  } catch (error) {
    if (!isTaken(error) || port === 0)
      throw new StemmaError(
        "SERVER_UNREACHABLE",
        `HTTP cannot listen on ${host}:${port}. Check the address.`,
        { cause: error, host, port },
      );
    await app.listen({ host, port: 0 });
    const used = portOf(app);
    log.warn("port-taken", {
      asked: port,
      used,
      text: `HTTP port ${port} is taken; listening on ${used} instead`,
    });
  }
  return `http://${urlHost(host)}:${portOf(app)}`;
}

/**
 * Listens on a local socket. This process holds the home's lock, so a file at that path was left by a server
 * that has ended.
 */
export async function listenOnSocket(app: FastifyInstance, path: string): Promise<void> {
  await rm(path, { force: true });
  const before = process.umask(0o177);
  try {
    await app.listen({ path });
  } finally {
    process.umask(before);
  }
  await chmod(path, 0o600);
}

function isTaken(error: unknown): boolean {
  return ["EADDRINUSE", "EACCES"].includes((error as NodeJS.ErrnoException).code ?? "");
}

function portOf(app: FastifyInstance): number {
  return (app.server.address() as AddressInfo).port;
}
