/**
 * The same operations over every interface of a server (the local socket, TCP with a token, and in process)
 * give the same answers.
 */
import assert from "node:assert/strict";
import { mkdtemp, readFile, realpath, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { importContentType } from "../../../../../server/interface/api/models/model-definitions.js";
import { encodeImportOptions } from "../../../../../server/interface/http/import-frame.js";
import { connectOperations } from "../../../../../server/interface/http/client.js";
import { readHttpToken } from "../../../../../server/interface/http/token.js";
import type { ServerOperations } from "../../../../../server/interface/api/server-operations.js";
import { shardedModel, vectorFolder } from "../../../../helpers/foreign-models.js";
import { noiseBytes } from "../../../../helpers/noise-bytes.js";
import { startTestServer, tensorBytes, testFleet, type TestServer } from "../../../../helpers/test-server.js";
import { ask, fileOf, imports } from "./http-requests.js";

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
    const file = await remote.attachment({ fleet: testFleet, model: "door", file: "x.bin" });
    assert.deepEqual(Buffer.from(file.base64, "base64"), Buffer.from(noiseBytes(300, 4)));
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

  it("reads a file of this machine in place over the local socket, streams one it cannot find, refuses a path over TCP", async () => {
    const socket = connectOperations({ socketPath: server.handle.socketPath });
    const bytes = await fileOf({ body: noiseBytes(50_000, 11) });
    const path = join(server.home, "..", `in-place-${process.pid}.safetensors`);
    await writeFile(path, bytes);
    const { mtimeMs: modifiedMs, size } = await stat(path);
    const localFile = { path: await realpath(path), size, modifiedMs };
    let streamed = 0;
    const chunks = (async function* () {
      streamed++;
      yield* imports(bytes).chunks;
    })();
    const stream = { byteLength: size, chunks, localFile };
    try {
      await socket.import(stream, { fleet: testFleet, name: "in-place" });
      assert.equal(streamed, 0);
      const elsewhere = { ...localFile, path: "/no/such/file" };
      await socket.import({ ...stream, localFile: elsewhere }, { fleet: testFleet, name: "in-place" });
      assert.equal(streamed, 1);
      const over = await remote.import(
        { ...imports(bytes), localFile },
        { fleet: testFleet, name: "in-place" },
      );
      assert.equal(over.summary?.version, 3);
      const frame = encodeImportOptions({ fleet: testFleet, name: "theft" }, localFile);
      const refused = await ask(`${server.handle.httpUrl}/v1/fleets/${testFleet}/import`, {
        method: "POST",
        headers: { authorization: `Bearer ${token}`, "content-type": importContentType },
        body: frame,
      });
      assert.equal((JSON.parse(refused.body.toString()) as { code: string }).code, "NOT_ALLOWED");
    } finally {
      await rm(path);
      await socket.close();
    }
  });

  it("passes on errors with type and code", async () => {
    await assert.rejects(remote.model({ fleet: testFleet, model: "no-such-model" }), {
      code: "MODEL_NOT_FOUND",
    });
    await assert.rejects(remote.models({ fleet: "no-such-fleet" }), { code: "NOT_FOUND" });
    await assert.rejects(
      remote.import(imports(Buffer.from("this is not a safetensors file")), {
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

  it("reads a PyTorch file that is sent alone, and refuses one that names others", async () => {
    const [torch, plain] = await Promise.all(
      ["state.pt", "state.safetensors"].map((name) => readFile(new URL(name, vectorFolder))),
    );
    const saved = await remote.import(imports(torch!), { fleet: testFleet, name: "from-torch" });
    const same = await remote.import(imports(plain!), { fleet: testFleet, name: "from-safetensors" });
    assert.equal(saved.summary?.record.root, same.summary?.record.root);
    assert.deepEqual(
      same.likelyBases?.map(({ name, version }) => [name, version]),
      [["from-torch", 1]],
    );
    const { main, files } = shardedModel();
    await assert.rejects(
      remote.import(imports(Buffer.from(files[main]!)), { fleet: testFleet, name: "index" }),
      { code: "MODEL_FILE_MALFORMED", message: /were not sent with it/ },
    );
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
      assert.ok((await remote.backup({ fleet: testFleet, folder, plainKey: true })).position > 0);
      await assert.rejects(remote.backup({ fleet: testFleet, folder: "relative/folder", plainKey: true }), {
        code: "USAGE",
      });
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
    const { ScriptedDevice } = await import("../../../../helpers/scripted-device.js");
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
});
