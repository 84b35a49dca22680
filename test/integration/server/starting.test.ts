import assert from "node:assert/strict";
import { mkdtemp, readdir, rm } from "node:fs/promises";
import { createServer, type AddressInfo } from "node:net";
import { once } from "node:events";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, describe, it } from "node:test";
import { defaultHttpLimits } from "../../../server/interface/http/http-limits.js";
import type { StartingServer } from "../../../server/interface/http/local-server.js";
import { startServer } from "../../../server/main.js";
import { runServer } from "../../../server/run-server.js";
import { ServerStart } from "../../../server/starting.js";
import { nextTurn } from "../../../shared/concurrency/in-steps.js";
import { silentLog } from "../../../shared/adapters/node-ports.js";
import type { LogFields } from "../../../shared/ports.js";
import { manualClock } from "../../helpers/manual-clock.js";

describe("a server that starts", () => {
  const homes: string[] = [];
  after(async () => {
    for (const home of homes) await rm(home, { recursive: true, force: true });
  });

  const listening = { host: "127.0.0.1", httpPort: 0, httpLimits: defaultHttpLimits, tls: undefined };

  it("answers on its port that it lives, that it is not ready, and how far it is", async () => {
    const start = new ServerStart({ clock: manualClock(), log: silentLog() });
    const url = await start.listen(listening);
    try {
      const ready = await fetch(`${url}/readyz`);
      assert.deepEqual([ready.status, ready.headers.get("retry-after")], [503, "10"]);
      assert.deepEqual(await ready.json(), { status: "starting" });
      start.onOpening({ fleet: "secret-name" });
      assert.match(await (await fetch(`${url}/healthz`)).text(), /it reads what its fleets have stored/);
      start.onOpening({ fleet: "secret-name", packs: { read: 320, all: 27_499 } });
      assert.match(await (await fetch(`${url}/healthz`)).text(), /it has looked at 320 of 27499 pack files/);
      start.onOpening({ fleet: "secret-name", facts: { read: 4000, all: 150_000 } });
      const healthy = await fetch(`${url}/healthz`);
      assert.equal(healthy.status, 200);
      const text = await healthy.text();
      assert.match(text, /"degraded".*it has read 4000 of the 150000 facts of a fleet/);
      assert.doesNotMatch(text, /secret-name/, "who has no token learns no names");
      const refused = await fetch(`${url}/v1/fleets/secret-name/models`, { method: "POST", body: "{" });
      assert.equal(refused.status, 503);
      assert.equal(((await refused.json()) as { code: string }).code, "SERVER_UNREACHABLE");
    } finally {
      await start.end();
    }
    await assert.rejects(fetch(`${url}/readyz`), "the port is free for the server that has started");
  });

  it("tells commands of its machine and the log now and then how far it is, and nothing after its end", async () => {
    const clock = manualClock();
    const logged: unknown[] = [];
    const log = { info: (event: string, fields?: LogFields) => logged.push([event, fields?.["text"]]) };
    const start = new ServerStart({ clock, log });
    const told: (number | undefined)[] = [];
    const note = ({ opening }: StartingServer): Promise<void> => {
      told.push(opening?.facts?.read);
      return told.length === 2 ? Promise.reject(new Error("disk full")) : Promise.resolve();
    };
    await start.publish(note);
    for (let read = 1; read <= 12; read++) {
      clock.advance(1000);
      start.onOpening({ fleet: "a", facts: { read, all: 12 } });
      await nextTurn();
    }
    await start.end();
    clock.advance(60_000);
    start.onOpening({ fleet: "a", facts: { read: 12, all: 12 } });
    assert.deepEqual(told, [undefined, 5, 10]);
    assert.deepEqual(logged, [
      ["opening", "it has read 5 of the 12 facts of a fleet"],
      ["opening", "it has read 10 of the 12 facts of a fleet"],
    ]);
  });

  it("stops where it is told to while it opens a fleet, and lets go of the home", async () => {
    const home = await mkdtemp(join(tmpdir(), "stemma-starting-"));
    homes.push(home);
    const options = { home, fleets: ["fleet"], mqttPort: 0, httpPort: 0, tls: "none" as const };
    const stop = new AbortController();
    stop.abort(new Error("Ctrl-C"));
    await assert.rejects(startServer(options, silentLog(), stop.signal), { message: "Ctrl-C" });
    await runServer({ ...options, log: { level: "error", form: "plain" } }, stop.signal, () => {
      assert.fail("it has not started");
    });
    await (await startServer(options, silentLog())).close();
  });

  it("finds that its port is taken before it opens a fleet", async () => {
    const other = createServer().listen(0, "127.0.0.1");
    await once(other, "listening");
    const home = await mkdtemp(join(tmpdir(), "stemma-starting-"));
    homes.push(home);
    const { port } = other.address() as AddressInfo;
    const options = { home, fleets: ["fleet"], mqttPort: 0, httpPort: port, tls: "none" as const };
    await assert.rejects(startServer(options, silentLog()), { code: "PORT_TAKEN" });
    assert.ok(!(await readdir(home)).includes("fleets"), "no fleet was begun");
    other.close();
    await once(other, "close");
    const server = await startServer(options, silentLog());
    try {
      assert.equal((await fetch(`${server.httpUrl}/readyz`)).status, 200);
      assert.equal(new URL(server.httpUrl).port, String(port), "the same port answers once it has started");
    } finally {
      await server.close();
    }
  });
});
