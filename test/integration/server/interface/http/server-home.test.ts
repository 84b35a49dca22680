/** A server and its home: one server at a time, free ports, a clean close, and damage that it never sends. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { chmod, mkdtemp, readdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { startServer } from "../../../../../server/main.js";
import { connectOperations } from "../../../../../server/interface/http/client.js";
import { findLocalServer, runningServerFile } from "../../../../../server/interface/http/local-server.js";
import { openNodeHome } from "../../../../../server/storage/repository/node-home.js";
import { openLocalOperations } from "../../../../../server/operations/local-operations.js";
import { silentLog } from "../../../../../shared/adapters/node-ports.js";
import { noiseBytes } from "../../../../helpers/noise-bytes.js";
import { startTestServer, testFleet, type TestServer } from "../../../../helpers/test-server.js";
import { fileOf, imports } from "./http-requests.js";

describe("a server and its home", () => {
  let server: TestServer;
  before(async () => {
    server = await startTestServer();
  });
  after(() => server.remove());

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

  it("is found by commands through its home; a second server on that home is refused with the id of the running process", async () => {
    assert.equal((await findLocalServer(server.home))?.pid, process.pid);
    await assert.rejects(
      startServer({ home: server.home, mqttPort: 0, httpPort: 0 }, silentLog()),
      (error: { code?: string; message: string }) =>
        error.code === "HOME_LOCKED" && error.message.includes(String(process.pid)),
    );
    await assert.rejects(openLocalOperations({ home: server.home }), { code: "HOME_LOCKED" });
  });

  it("is found while it is busy, and not any more once nothing listens", async () => {
    const home = await mkdtemp(join(tmpdir(), "stemma-busy-"));
    const held = await openNodeHome(home);
    // Accepts connections and answers nothing, as a server does that parses.
    const busy = createServer(() => undefined).listen(held.socketPath);
    await once(busy, "listening");
    const running = { pid: process.pid, socketPath: held.socketPath };
    await writeFile(join(held.runFolder, runningServerFile), JSON.stringify(running));
    assert.equal((await findLocalServer(home, 50))?.pid, process.pid);
    busy.close();
    assert.equal(await findLocalServer(home, 50), undefined);
    await held.close();
    await rm(home, { recursive: true, force: true });
  });

  it("refuses a port that is taken, and leaves the home free", async () => {
    const home = await mkdtemp(join(tmpdir(), "stemma-port-"));
    const portOf = (url: string): number => Number(new URL(url).port);
    try {
      for (const taken of [
        { mqttPort: portOf(server.handle.mqttUrl), httpPort: 0 },
        { mqttPort: 0, httpPort: portOf(server.handle.httpUrl) },
      ])
        await assert.rejects(startServer({ home, ...taken }, silentLog()), { code: "PORT_TAKEN" });
      const second = await startServer({ home, mqttPort: 0, httpPort: 0 }, silentLog());
      await second.close();
    } finally {
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
