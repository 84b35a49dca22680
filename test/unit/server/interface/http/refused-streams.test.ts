// After a stream that the server refused before it had read it, the next request takes another connection: the server
// closes that one.
import assert from "node:assert/strict";
import { createServer } from "node:http";
import { mkdtemp, rm } from "node:fs/promises";
import type { Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { it } from "node:test";
import { connect } from "../../../../../server/interface/http/request.js";

async function* stream(): AsyncGenerator<Uint8Array> {
  yield await Promise.resolve(new Uint8Array(1000));
}

it("a request after a refused stream does not fail with the connection that the server closes", async (t) => {
  const folder = await mkdtemp(join(tmpdir(), "stemma-refused-"));
  const socketPath = join(folder, "server.sock");
  let refused: Socket | undefined;
  const server = createServer((request, response) => {
    if (request.url === "/stream") {
      refused = request.socket;
      response.writeHead(507, { "content-type": "application/json" });
      response.end(JSON.stringify({ code: "DISK_FULL", message: "The disk is full." }));
    } else if (request.socket === refused) refused.destroy();
    else request.resume().on("end", () => response.end("{}"));
  });
  await new Promise<void>((resolve) => server.listen(socketPath, resolve));
  const connection = connect({ socketPath });
  t.after(async () => {
    await connection.close();
    server.close();
    await rm(folder, { recursive: true });
  });
  const body = { contentType: "application/octet-stream", chunks: stream() };
  await assert.rejects(connection.sendForJson({ method: "POST", path: "/stream", body }), {
    code: "DISK_FULL",
  });
  await connection.sendForJson({ method: "POST", path: "/next", json: {} });
});
