// Requests on a kept connection that the server closes at that moment: they are sent again where the server cannot have
// got them, or where that changes nothing.
import assert from "node:assert/strict";
import { createServer, type Server } from "node:http";
import { mkdtemp, rm } from "node:fs/promises";
import type { Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, it } from "node:test";
import { connect, type Connection } from "../../../../../server/interface/http/request.js";
import { pollUntil } from "../../../../helpers/poll-until.js";
import { isStemmaError } from "../../../../../shared/errors.js";

const folder = await mkdtemp(join(tmpdir(), "stemma-kept-"));
const servers: Server[] = [];
/** A kept connection that nothing uses is closed before. */
const longerThanKeptMs = 3_500;
after(async () => {
  for (const server of servers) server.close();
  await rm(folder, { recursive: true });
});

interface Served {
  readonly requests: string[];
  readonly connection: Connection;
  /** Closes the server's end of the connection that was used last. */
  readonly closeLast: () => void;
}

/** A server that notes its requests, answers `answered` of them, and closes the connections of later ones. */
async function serve(answered: number, answerMs = 0): Promise<Served> {
  const requests: string[] = [];
  const socketPath = join(folder, `${servers.length}.sock`);
  let last: Socket | undefined;
  const server = createServer((request, response) => {
    last = request.socket;
    request.resume().on("end", () => {
      requests.push(`${request.method ?? ""} ${request.url ?? ""}`);
      if (requests.length > answered) request.socket.destroy();
      else if (answerMs > 0) setTimeout(() => response.end("{}"), answerMs);
      else response.end("{}");
    });
  });
  servers.push(server);
  await new Promise<void>((resolve) => {
    server.listen(socketPath, resolve);
  });
  return { requests, connection: connect({ socketPath }), closeLast: () => last?.destroy() };
}

for (const method of ["GET", "POST"] as const)
  it(`sends a ${method} again where the connection was closed before it was written`, async () => {
    const { requests, connection, closeLast } = await serve(2);
    await connection.sendForJson({ path: "/1" });
    closeLast();
    // In the same turn: this process has not seen yet that the connection is closed.
    await connection.sendForJson({ method, path: "/2", ...(method === "POST" && { json: {} }) });
    assert.deepEqual(requests, ["GET /1", `${method} /2`]);
    await connection.close();
  });

it("does not send again what may have changed something", async () => {
  const { requests, connection } = await serve(1);
  await connection.sendForJson({ path: "/1" });
  await assert.rejects(connection.sendForJson({ method: "POST", path: "/2", json: {} }), (error) =>
    isStemmaError(error, "SERVER_UNREACHABLE"),
  );
  assert.deepEqual(requests, ["GET /1", "POST /2"]);
  await connection.close();
});

it("waits for an answer as long as the request says, on a new connection and on a kept one", async () => {
  const { connection } = await serve(3, longerThanKeptMs);
  await connection.sendForJson({ path: "/1" });
  await connection.sendForJson({ path: "/2" });
  await assert.rejects(connection.sendForJson({ path: "/3", timeoutMs: 200 }), (error) =>
    isStemmaError(error, "TIMED_OUT"),
  );
  await connection.close();
});

it("closes a kept connection before the server does", async () => {
  const { connection } = await serve(1);
  await connection.sendForJson({ path: "/1" });
  const open = (): Promise<number> =>
    new Promise((resolve, reject) => {
      servers.at(-1)?.getConnections((error, count) => {
        if (error) reject(error);
        else resolve(count);
      });
    });
  assert.equal(await open(), 1);
  await pollUntil("the connection is closed", async () => (await open()) === 0);
});
