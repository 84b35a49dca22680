/** The HTTP interface as curl and other programs use it: headers, tokens, plain files, malformed requests. */
import assert from "node:assert/strict";
import { stat } from "node:fs/promises";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { connectOperations } from "../../../../../server/interface/http/client.js";
import { readHttpToken } from "../../../../../server/interface/http/token.js";
import type { ServerOperations } from "../../../../../server/interface/api/server-operations.js";
import { noiseBytes } from "../../../../helpers/noise-bytes.js";
import { startTestServer, testFleet, type TestServer } from "../../../../helpers/test-server.js";
import { ask, fileOf, imports, type Answer } from "./http-requests.js";

describe("plain HTTP", () => {
  let server: TestServer;
  let remote: ServerOperations;
  let token: string;
  before(async () => {
    server = await startTestServer();
    token = (await readHttpToken(server.home)) ?? "";
    remote = connectOperations({ url: server.handle.httpUrl, token }, 50);
  });
  after(() => server.remove());

  it("streams a recovery with its length, root and verdict ahead, byte for byte the file that was imported", async () => {
    const file = await fileOf({ w: noiseBytes(123_456, 5) });
    await remote.import(imports(file), { fleet: testFleet, name: "curl" });
    const answer = await ask(`${server.handle.httpUrl}/v1/fleets/${testFleet}/models/curl%3A1/tensors`, {
      headers: { authorization: `Bearer ${token}` },
    });
    assert.equal(answer.status, 200);
    assert.equal(answer.headers["content-length"], String(file.length));
    const { record } = await remote.model({ fleet: testFleet, model: "curl" });
    assert.equal(answer.headers["etag"], `"${record.root}"`);
    assert.equal(answer.headers["stemma-root"], record.root);
    assert.equal(answer.headers["stemma-environment"], "same");
    assert.ok(answer.body.equals(file));
  });

  it("accepts a plain safetensors file from curl", async () => {
    const file = await fileOf({ w: noiseBytes(2_000, 6) });
    const answer = await ask(`${server.handle.httpUrl}/v1/fleets/${testFleet}/import?name=bare`, {
      method: "POST",
      headers: { authorization: `Bearer ${token}`, "content-type": "application/octet-stream" },
      body: file,
    });
    assert.equal(answer.status, 200, answer.body.toString());
    assert.equal((await remote.model({ fleet: testFleet, model: "bare" })).tensorBytes, 2_000);
  });

  it("has a page to try the operations on, whose files say nothing of the server and reach no other", async () => {
    const url = server.handle.httpUrl;
    const page = await ask(`${url}/api`);
    assert.equal(page.status, 200);
    assert.match(String(page.headers["content-security-policy"]), /^default-src 'none'; script-src 'self';/);
    const files = [...page.body.toString().matchAll(/(?:src|href)="([^"]+)"/g)].map(([, path]) => path);
    assert.equal(files.length, 4);
    for (const path of files) {
      const file = await ask(`${url}${path}`);
      assert.equal(file.status, 200, path);
      assert.match(String(file.headers["content-type"]), /^text\/(css|javascript)/);
    }
    const bundle = await ask(`${url}/api/swagger-ui-bundle.js`);
    const again = await ask(`${url}/api/swagger-ui-bundle.js`, {
      headers: { "if-none-match": String(bundle.headers["etag"]) },
    });
    assert.deepEqual([again.status, again.body.length], [304, 0]);
    assert.equal((await ask(`${url}/openapi.json`)).status, 401);
  });

  it("answers probes and browsers without the token, and nothing else", async () => {
    const health = await ask(`${server.handle.httpUrl}/healthz`);
    assert.deepEqual(
      [health.status, JSON.parse(health.body.toString())],
      [200, { status: "ok", problems: [] }],
    );
    const ready = await ask(`${server.handle.httpUrl}/readyz`);
    assert.deepEqual([ready.status, JSON.parse(ready.body.toString())], [200, { status: "ready" }]);
    const page = await ask(`${server.handle.httpUrl}/`, { headers: { accept: "text/html" } });
    assert.equal(page.status, 200);
    assert.match(String(page.headers["content-type"]), /^text\/html/);
    assert.match(page.body.toString(), /A Stemma server runs here[\s\S]*STEMMA_SERVER=http:\/\//);
    for (const secret of [token, server.home, testFleet])
      assert.ok(!page.body.toString().includes(secret), "the page contains nothing about this server");
  });

  it("serves only health over TCP without the token", async () => {
    for (const headers of [
      {},
      { authorization: "Bearer wrong" },
      { authorization: `Bearer ${token}x` },
      { authorization: token },
    ]) {
      const answer = await ask(`${server.handle.httpUrl}/v1/fleets`, {
        headers: headers,
      });
      assert.equal(answer.status, 401);
      assert.equal((JSON.parse(answer.body.toString()) as { code: string }).code, "TOKEN_INVALID");
    }
    assert.equal((await ask(`${server.handle.httpUrl}/metrics`)).status, 401);
    const health = await ask(`${server.handle.httpUrl}/v1/health`);
    assert.deepEqual(
      [health.status, Object.keys(JSON.parse(health.body.toString()) as object)],
      [200, ["version"]],
    );
    assert.equal((await stat(join(server.home, "http-token"))).mode & 0o777, 0o600);
    assert.equal((await stat(server.handle.socketPath)).mode & 0o777, 0o600);
  });

  it("answers malformed requests with a client error, and keeps running", async () => {
    const headers = { authorization: `Bearer ${token}`, "content-type": "application/json" };
    const post = (path: string, body: string | Uint8Array, type = "application/json"): Promise<Answer> =>
      ask(`${server.handle.httpUrl}${path}`, {
        method: "POST",
        headers: { ...headers, "content-type": type },
        body,
      });
    const fleet = `/v1/fleets/${testFleet}`;
    for (const answer of [
      await post(`${fleet}/devices`, "{"),
      await post(`${fleet}/devices`, "[]"),
      await post(`${fleet}/devices`, JSON.stringify({ device: 5 })),
      await post(`${fleet}/devices`, JSON.stringify({ device: "x", lines: [], profile: "p" })),
      await post(`${fleet}/import`, Buffer.from([255, 255, 255, 255, 1]), "application/vnd.stemma.import"),
      await post(`${fleet}/import`, Buffer.from([9, 0, 0, 0, 123]), "application/vnd.stemma.import"),
      await post(`${fleet}/import`, Buffer.from([2, 0, 0, 0, 123, 125]), "application/vnd.stemma.import"),
      await post(`${fleet}/import`, "x", "application/octet-stream"),
      await post(`${fleet}/storage/collection`, JSON.stringify({ format: 1 })),
      await ask(`${server.handle.httpUrl}${fleet}/as-of?at=yesterday`, { headers }),
      await post(`${fleet}/devices`, JSON.stringify({ device: "y".repeat(2 * 1024 * 1024) })),
    ]) {
      assert.ok(
        answer.status === 400 || answer.status === 413,
        `${answer.status} ${answer.body.toString().slice(0, 200)}`,
      );
      assert.match(
        (JSON.parse(answer.body.toString()) as { code: string }).code,
        /^(HTTP_REQUEST_INVALID|SIZE_OVER_LIMIT)$/,
      );
    }
    assert.equal((await ask(`${server.handle.httpUrl}/nowhere`, { headers })).status, 404);
    assert.equal((await remote.health()).pid, process.pid);
  });
});
