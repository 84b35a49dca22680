// The same operations over every interface of a server (the local socket, TCP with a token, and in process)
// give the same answers.
import assert from "node:assert/strict";
import { chmod, mkdtemp, readdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { request } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Readable } from "node:stream";
import { after, before, describe, it } from "node:test";
import { startServer } from "../../../../server/main.js";
import { connectOperations } from "../../../../server/http/client.js";
import { findLocalServer } from "../../../../server/http/local-server.js";
import { readHttpToken } from "../../../../server/http/token.js";
import { openLocalOperations } from "../../../../server/operations/local-operations.js";
import type { ServerOperations } from "../../../../server/api/server-operations.js";
import { silentLog } from "../../../../shared/adapters/node-ports.js";
import { safetensorsChunks } from "../../../../shared/tensor/safetensors.js";
import { sourceOfTensor } from "../../../../shared/tensor/tensor.js";
import { noiseBytes } from "../../../helpers/noise-bytes.js";
import { startTestServer, tensorBytes, testFleet, type TestServer } from "../../../helpers/test-server.js";

async function fileOf(tensors: Readonly<Record<string, Uint8Array>>): Promise<Buffer> {
  const pieces: Uint8Array[] = [];
  const sources = Object.entries(tensors).map(([name, bytes]) => ({
    name,
    source: sourceOfTensor({ dtype: "U8" as const, shape: [bytes.length], bytes }),
  }));
  for await (const chunk of safetensorsChunks(sources)) pieces.push(Buffer.from(chunk));
  return Buffer.concat(pieces);
}
function inPieces(bytes: Uint8Array, size = 10_000): AsyncIterable<Uint8Array> {
  const count = Math.ceil(bytes.length / size);
  return Readable.from(Array.from({ length: count }, (_, at) => bytes.subarray(at * size, (at + 1) * size)));
}
const imports = (file: Buffer): { byteLength: number; chunks: AsyncIterable<Uint8Array> } => ({
  byteLength: file.length,
  chunks: inPieces(file),
});

interface Answer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly body: Buffer;
}
function ask(
  url: string,
  options: {
    readonly method?: string;
    readonly headers?: Readonly<Record<string, string>>;
    readonly body?: Uint8Array | string;
  } = {},
): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const asking = request(
      url,
      { method: options.method ?? "GET", headers: { ...options.headers } },
      (answer) => {
        const pieces: Buffer[] = [];
        answer.on("data", (piece: Buffer) => pieces.push(piece));
        answer.on("end", () => {
          resolve({ status: answer.statusCode ?? 0, headers: answer.headers, body: Buffer.concat(pieces) });
        });
      },
    );
    asking.on("error", reject);
    asking.end(options.body);
  });
}

describe("the interfaces of a server", () => {
  let server: TestServer;
  let remote: ServerOperations;
  let token: string;
  before(async () => {
    server = await startTestServer();
    token = (await readHttpToken(server.home)) ?? "";
    remote = connectOperations({ url: server.handle.httpUrl, token }, 50);
  });
  after(() => server.remove());

  it("imports, shows, compares, recovers and verifies alike through TCP and the local socket", async () => {
    const socket = connectOperations({ socketPath: server.handle.socketPath });
    const a = await fileOf({ body: noiseBytes(50_000, 1), head: noiseBytes(5_000, 2) });
    const b = await fileOf({ body: noiseBytes(50_000, 1), head: noiseBytes(5_000, 3) });
    const first = await remote.import(imports(a), {
      fleet: testFleet,
      name: "door",
      metadata: { note: "ä", accuracy: 0.5 },
      attachments: [{ name: "x.bin", bytes: noiseBytes(300, 4) }],
    });
    const second = await socket.import(imports(b), { fleet: testFleet, name: "door", base: "door:1" });
    assert.equal(first.approach, "snapshot");
    assert.deepEqual(
      [second.approach, second.changed, second.tensors, second.newTensorBytes],
      ["update", 1, 2, 5_000],
    );
    const dry = await remote.import(imports(b), {
      fleet: testFleet,
      name: "door",
      base: "door:2",
      dryRun: true,
    });
    assert.deepEqual([dry.summary, dry.unchanged, dry.changed], [undefined, true, 0]);
    assert.deepEqual(
      (await remote.models({ fleet: testFleet, name: "door" })).map(({ version }) => version),
      (await socket.models({ fleet: testFleet, name: "door" })).map(({ version }) => version),
    );
    const shown = await remote.model({ fleet: testFleet, model: "door:1" });
    assert.deepEqual(shown.metadata, { note: "ä", accuracy: 0.5 });
    assert.deepEqual(
      shown.derived.map(({ version }) => version),
      [2],
    );
    assert.deepEqual(
      (await remote.log({ fleet: testFleet, model: "door" })).map(({ version }) => version),
      [2, 1],
    );
    const diff = await socket.diff({ fleet: testFleet, a: "door:1", b: "door:2" });
    assert.deepEqual(
      diff.changes.map(({ kind, name }) => [kind, name]),
      [["changed", "head"]],
    );
    for (const operations of [remote, socket, server.handle.operations]) {
      const recovered = await tensorBytes(operations, "door:1");
      assert.deepEqual(recovered["head"], Buffer.from(noiseBytes(5_000, 2)));
      assert.equal(
        (await operations.verify({ fleet: testFleet, model: "door:2" })).root,
        second.summary?.record.root,
      );
    }
  });

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

  it("passes on errors with type and code", async () => {
    await assert.rejects(remote.model({ fleet: testFleet, model: "no-such-model" }), {
      code: "MODEL_NOT_FOUND",
    });
    await assert.rejects(remote.models({ fleet: "no-such-fleet" }), { code: "NOT_FOUND" });
    await assert.rejects(
      remote.import(imports(Buffer.from("this is no safetensors file at all")), {
        fleet: testFleet,
        name: "junk",
      }),
      { code: "SAFETENSORS_MALFORMED" },
    );
    await assert.rejects(
      remote.import(imports(await fileOf({ w: noiseBytes(10, 1) })), {
        fleet: testFleet,
        name: "child",
        base: "nothing",
      }),
      { code: "MODEL_NOT_FOUND" },
    );
    await assert.rejects(remote.command({ fleet: testFleet, device: "nobody", name: "report", body: {} }), {
      code: "DEVICE_UNKNOWN",
    });
    await assert.rejects(
      remote.enroll({ fleet: testFleet, device: "a/b", lines: ["line"], profile: "generic" }),
      { code: "NAME_INVALID" },
    );
    await assert.rejects(connectOperations({ url: "http://127.0.0.1:9" }).health(), {
      code: "SERVER_UNREACHABLE",
    });
    await assert.rejects(connectOperations({ url: "not a url" }).health(), { code: "USAGE" });
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

  it("never sends a damaged model: it gives a typed error and no byte of a body", async () => {
    const damaged = await startTestServer();
    try {
      const operations = connectOperations({ socketPath: damaged.handle.socketPath });
      const marker = Buffer.from("a mark that is easily found in a pack");
      await operations.import(imports(await fileOf({ w: Buffer.concat([marker, noiseBytes(20_000, 9)]) })), {
        fleet: testFleet,
        name: "hurt",
      });
      await damaged.handle.close();
      const packs = join(damaged.home, "fleets", testFleet, "packs");
      let hits = 0;
      for (const name of await readdir(packs, { recursive: true })) {
        const path = join(packs, name);
        if (!(await stat(path)).isFile()) continue;
        const bytes = await readFile(path);
        const at = bytes.indexOf(marker);
        if (at < 0) continue;
        bytes[at] = (bytes[at] ?? 0) ^ 1;
        await writeFile(path, bytes);
        hits++;
      }
      assert.equal(hits, 1);
      await damaged.restart();
      const again = connectOperations({ socketPath: damaged.handle.socketPath });
      for (const attempt of [
        () => again.recover({ fleet: testFleet, model: "hurt" }),
        () => again.verify({ fleet: testFleet, model: "hurt" }),
      ]) {
        await assert.rejects(attempt(), ({ code }: { code: string }) =>
          ["ROOT_MISMATCH", "OBJECT_HASH_MISMATCH", "PACK_CORRUPT"].includes(code),
        );
      }
      assert.ok((await again.check({ fleet: testFleet })).problems.length > 0);
    } finally {
      await damaged.remove();
    }
  });

  it("tags, holds, retires and collects, and refuses a collection plan that became stale", async () => {
    const { summary } = await remote.import(imports(await fileOf({ w: noiseBytes(40_000, 7) })), {
      fleet: testFleet,
      name: "short-lived",
    });
    assert.ok(summary);
    const reference = { fleet: testFleet, model: "short-lived:1" };
    assert.deepEqual((await remote.tag({ ...reference, tag: "best" })).tags, ["best"]);
    assert.equal(
      (await remote.model({ fleet: testFleet, model: "short-lived:best" })).versionId,
      summary.versionId,
    );
    await remote.hold({ ...reference, held: true, because: "an incident" });
    await assert.rejects(remote.retire({ ...reference, because: "test" }), { code: "MODEL_HELD" });
    await remote.hold({ ...reference, held: false, because: "over" });
    assert.equal((await remote.retire({ ...reference, because: "test" })).state, "retired");
    const plan = await remote.planCollection({ fleet: testFleet });
    assert.ok(plan.dead.length > 0);
    const { freedBytes } = await remote.collect({ fleet: testFleet, ...plan });
    assert.ok(freedBytes >= 40_000);
    await assert.rejects(remote.collect({ fleet: testFleet, ...plan }), { code: "PLAN_STALE" });
    await assert.rejects(remote.recover(reference), { code: "MODEL_RETIRED" });
    assert.deepEqual((await remote.check({ fleet: testFleet })).problems, []);
    assert.ok((await remote.stats({ fleet: testFleet })).packs > 0);
    assert.ok((await remote.reindex({ fleet: testFleet })).versions > 0);
  });

  it("backs up while it serves, to an absolute folder only", async () => {
    const folder = await mkdtemp(join(tmpdir(), "stemma-backup-"));
    try {
      assert.ok((await remote.backup({ fleet: testFleet, folder })).position > 0);
      await assert.rejects(remote.backup({ fleet: testFleet, folder: "relative/folder" }), { code: "USAGE" });
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
  });

  it("streams events to subscribers, and serves metrics to Prometheus", async () => {
    const stop = new AbortController();
    const seen = (async () => {
      for await (const event of remote.events(stop.signal))
        if (event.event === "offered" || event.event === "device-connected") return event;
      return undefined;
    })();
    // The stream is open once its first line has arrived; the event below is emitted repeatedly until it is
    // received.
    const { ScriptedDevice } = await import("../../../helpers/scripted-device.js");
    const enrolment = await server.enroll("listener-test");
    let session = 0;
    let device: Awaited<ReturnType<typeof ScriptedDevice.connect>> | undefined;
    let heard: Awaited<typeof seen>;
    const next = async (): Promise<void> => {
      await device?.close();
      device = await ScriptedDevice.connect(enrolment, { session: ++session, previousSession: session - 1 });
      await device.birth();
    };
    do {
      await next();
      heard = await Promise.race([
        seen,
        new Promise<undefined>((resolve) => {
          setImmediate(() => {
            resolve(undefined);
          });
        }),
      ]);
    } while (heard === undefined);
    assert.equal(heard.fleet, testFleet);
    stop.abort();
    await device?.close();
    const metrics = await ask(`${server.handle.httpUrl}/metrics`, {
      headers: { authorization: `Bearer ${token}` },
    });
    assert.match(metrics.body.toString(), /stemma_devices_online\{fleet="test-fleet"\} \d/);
    assert.match(
      metrics.body.toString(),
      /stemma_events_total\{fleet="test-fleet",event="device-connected"\} \d/,
    );
  });

  it("is found by commands through its home; a second server on that home is refused with the id of the running process", async () => {
    assert.equal((await findLocalServer(server.home))?.pid, process.pid);
    await assert.rejects(
      startServer({ home: server.home, mqttPort: 0, httpPort: 0 }, silentLog()),
      (error: { code?: string; message: string }) =>
        error.code === "HOME_LOCKED" && error.message.includes(String(process.pid)),
    );
    await assert.rejects(openLocalOperations({ home: server.home }), { code: "HOME_LOCKED" });
  });

  it("falls back to a free port where one is taken", async () => {
    const home = await mkdtemp(join(tmpdir(), "stemma-port-"));
    const taken = {
      mqttPort: Number(new URL(server.handle.mqttUrl).port),
      httpPort: Number(new URL(server.handle.httpUrl).port),
    };
    const second = await startServer({ home, ...taken }, silentLog());
    try {
      assert.notEqual(second.mqttUrl, server.handle.mqttUrl);
      assert.notEqual(second.httpUrl, server.handle.httpUrl);
    } finally {
      await second.close();
      await rm(home, { recursive: true, force: true });
    }
  });

  it("releases the home and removes its socket when it closes", async () => {
    const home = await mkdtemp(join(tmpdir(), "stemma-close-"));
    const one = await startServer({ home, fleets: ["local"], mqttPort: 0, httpPort: 0 }, silentLog());
    await one.close();
    assert.equal(await findLocalServer(home), undefined);
    // The next opening removes what the import of a killed process left.
    await writeFile(join(home, "run", "work", "import-0.safetensors"), "half a file");
    const local = await openLocalOperations({ home });
    try {
      const { summary } = await local.import(imports(await fileOf({ w: noiseBytes(100, 8) })), {
        fleet: "local",
        name: "m",
      });
      assert.equal(summary?.name, "m");
      assert.deepEqual(await readdir(join(home, "run", "work")), []);
      assert.throws(() => local.events(AbortSignal.abort()), { code: "SERVER_UNREACHABLE" });
    } finally {
      await local.close();
    }
    await chmod(home, 0o700);
    assert.ok(await readFile(join(home, "http-token"), "utf8"));
    await rm(home, { recursive: true, force: true });
  });
});
