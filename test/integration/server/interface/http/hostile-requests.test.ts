// Requests that no client of Stemma sends: each is refused with a typed error, and the server goes on.
import assert from "node:assert/strict";
import { once } from "node:events";
import { request, type RequestOptions } from "node:http";
import { connect } from "node:net";
import { after, before, describe, it } from "node:test";
import { readHttpToken } from "../../../../../server/interface/http/token.js";
import { isErrorCode } from "../../../../../shared/errors.js";
import { startTestServer, testFleet, type TestServer } from "../../../../helpers/test-server.js";

describe("hostile requests", () => {
  let server: TestServer;
  let headers: Record<string, string>;
  before(async () => {
    server = await startTestServer();
    headers = { authorization: `Bearer ${(await readHttpToken(server.home)) ?? ""}` };
  });
  after(() => server.remove());

  const fleet = `/v1/fleets/${testFleet}`;
  async function refusal(path: string, init: RequestInit = {}): Promise<readonly [number, string]> {
    const answer = await fetch(`${server.handle.httpUrl}${path}`, {
      ...init,
      headers: { ...headers, ...(init.headers as Record<string, string> | undefined) },
    });
    const { code } = (await answer.json()) as { code: string };
    assert.ok(isErrorCode(code), `${path.slice(0, 80)} answers ${code}`);
    return [answer.status, code];
  }
  /** The answer to bytes on a connection. */
  async function answerTo(bytes: string): Promise<string> {
    const socket = connect(Number(new URL(server.handle.httpUrl).port), "127.0.0.1");
    let text = "";
    socket.setEncoding("utf8").on("data", (piece: string) => {
      text += piece;
    });
    socket.on("error", () => undefined);
    socket.write(bytes);
    await once(socket, "close");
    return text;
  }

  it("refuses paths that are not valid with typed errors", async () => {
    for (const path of ["/v1/fleets/%zz/versions", `${fleet}/models/${"a".repeat(600)}`])
      assert.equal((await refusal(path))[1], "HTTP_REQUEST_INVALID", path.slice(0, 60));
    for (const path of ["/v1/fleets/..%2f..%2fetc/versions", "/v1/fleets/%00/versions", "/v1/nothing"])
      assert.deepEqual(await refusal(path), [404, "NOT_FOUND"], path);
  });

  it("refuses bytes that are not HTTP, and headers without end, with typed errors", async () => {
    assert.match(await answerTo("\0\0\0 garbage\r\n\r\n"), /^HTTP\/1\.1 400 .*"HTTP_REQUEST_INVALID"/s);
    const long = await answerTo(`GET /v1/fleets?a=${"a".repeat(100_000)} HTTP/1.1\r\n\r\n`);
    assert.match(long, /^HTTP\/1\.1 431 .*"SIZE_OVER_LIMIT"/s);
  });

  it("refuses numbers out of bounds and odd conditions", async () => {
    for (const query of ["limit=-1", "limit=1e9", "limit=", "limit=1&limit=2", "offset=-1", "offset=1e99"])
      assert.deepEqual(await refusal(`${fleet}/versions?${query}`), [400, "HTTP_REQUEST_INVALID"], query);
    for (const where of ["a", "==", "%FF%FE%3D1"])
      assert.deepEqual(await refusal(`${fleet}/versions?where=${where}`), [400, "USAGE"], where);
    for (const where of ["%24where%3D1", "__proto__%3D1", "constructor%3D1", "a%00%3D1", "a.b%3D1"]) {
      const answer = await fetch(`${server.handle.httpUrl}${fleet}/versions?where=${where}`, { headers });
      assert.deepEqual(await answer.json(), { versions: [], total: 0, unreadable: [] }, where);
    }
  });

  it("refuses bodies of other types and sizes", async () => {
    const post = (body: string, type: string): RequestInit => ({
      method: "POST",
      body,
      headers: { "content-type": type },
    });
    for (const type of ["text/plain", "application/xml", "multipart/form-data", "application/json"])
      assert.equal((await refusal(`${fleet}/devices`, post('{"x":', type)))[1], "HTTP_REQUEST_INVALID", type);
    const big = JSON.stringify({ device: "a".repeat(10_000_000), lines: ["line"] });
    assert.deepEqual(await refusal(`${fleet}/devices`, post(big, "application/json")), [
      413,
      "SIZE_OVER_LIMIT",
    ]);
    assert.deepEqual(await server.handle.operations.devices({ fleet: testFleet }), []);
  });

  it("serves others, and the same address, while one address holds half requests", async (context) => {
    const limited = await startTestServer({
      httpLimits: {
        maxUnknownConnections: 12,
        maxUnknownConnectionsPerAddress: 8,
        reservedForKnownAddresses: 2,
        headDeadlineMs: 60_000,
      },
    });
    context.after(() => limited.remove());
    const port = Number(new URL(limited.handle.httpUrl).port);
    const evictions = 32;
    let closed = 0;
    await new Promise<void>((resolve) => {
      for (let count = 0; count < evictions + 8; count++) {
        const socket = connect({ port, host: "127.0.0.1", localAddress: "127.0.0.2" });
        context.after(() => socket.destroy());
        socket.on("error", () => undefined);
        socket.write("GET / HTTP/1.1\r\nHost: x\r\n");
        socket.resume().once("close", () => {
          if (++closed === evictions) resolve();
        });
      }
    });
    for (const localAddress of ["127.0.0.3", "127.0.0.2"])
      assert.equal(await statusOf({ port, host: "127.0.0.1", path: "/v1/health", localAddress }), 200);
  });
});

function statusOf(options: RequestOptions): Promise<number | undefined> {
  return new Promise((resolve, reject) => {
    request({ ...options, agent: false }, (answer) => {
      answer.resume();
      resolve(answer.statusCode);
    })
      .on("error", reject)
      .end();
  });
}
