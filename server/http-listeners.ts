/** Opens the two addresses of the HTTP API: TCP with a token, and a socket that only this user can open. */
import { chmod, rm } from "node:fs/promises";
import type { AddressInfo } from "node:net";
import type { FastifyInstance } from "fastify";
import { StemmaError } from "../shared/errors.js";
import { urlHost } from "../shared/url-host.js";

/** Listens on the port, 0 for a free one; returns the URL. @throws PORT_TAKEN, SERVER_UNREACHABLE */
export async function listenOnTcp(
  app: FastifyInstance,
  { host, port }: { readonly host: string; readonly port: number },
): Promise<string> {
  try {
    await app.listen({ host, port });
  } catch (cause) {
    throw isTaken(cause)
      ? new StemmaError(
          "PORT_TAKEN",
          `The HTTP port ${port} on ${host} cannot be used (${(cause as NodeJS.ErrnoException).code ?? ""}): another program may listen there, or another Stemma server. Choose another with --http-port, or 0 for a free one.`,
          { cause, host, port },
        )
      : new StemmaError("SERVER_UNREACHABLE", `HTTP cannot listen on ${host}:${port}. Check the address.`, {
          cause,
          host,
          port,
        });
  }
  return `${"setSecureContext" in app.server ? "https" : "http"}://${urlHost(host)}:${portOf(app)}`;
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
