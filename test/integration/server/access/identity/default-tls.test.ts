// What a server does without further options: TLS of its own, certificates for devices; and what is weaker, and said.
import assert from "node:assert/strict";
import type { IncomingMessage } from "node:http";
import { get } from "node:https";
import { text } from "node:stream/consumers";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { connectOperations } from "../../../../../server/interface/http/client.js";
import { readHttpToken } from "../../../../../server/interface/http/token.js";
import type { ServerOptions } from "../../../../../server/operations/configuration/config.js";
import { startServer, type ServerHandle } from "../../../../../server/main.js";
import { WaitableLog } from "../../../../helpers/agent-fixtures.js";
import { plainBroker } from "../../../../helpers/plain-broker.js";
import { runStemmaHere } from "../../../../helpers/run-stemma-here.js";

const fleet = "cars";

async function newHome(t: TestContext): Promise<string> {
  const home = await mkdtemp(join(tmpdir(), "stemma-default-"));
  t.after(() => rm(home, { recursive: true, force: true }));
  return home;
}

async function serve(
  home: string,
  work: (server: ServerHandle, log: WaitableLog) => Promise<void>,
  options: Partial<ServerOptions> = {},
): Promise<void> {
  const log = new WaitableLog();
  const server = await startServer({ fleets: [fleet], mqttPort: 0, httpPort: 0, ...options, home }, log);
  try {
    await work(server, log);
  } finally {
    await server.close();
  }
}

test("a server without further options has TLS on both ports, and gives devices no tokens", async (t) => {
  const home = await newHome(t);
  await serve(home, async (server, log) => {
    assert.match(server.mqttUrl, /^mqtts:/);
    assert.match(server.httpUrl, /^https:/);
    assert.equal(server.authorityFile, join(home, "authority.pem"));
    for (const event of ["plain-ports", "device-tokens"]) assert.equal(log.count(event), 0);
    const { operations } = server;
    await assert.rejects(operations.enroll({ fleet, device: "van", lines: ["soh"] }), {
      code: "NOT_ALLOWED",
      message: /stemma device enroll van .*--device-tokens/,
    });
    assert.deepEqual(await operations.devices({ fleet }), []);
    assert.match((await operations.invite({ fleet, device: "van", lines: ["soh"] })).http ?? "", /^https:/);
  });
});

test("programs on other machines trust the server by the file of its authority", async (t) => {
  const home = await newHome(t);
  await serve(home, async ({ httpUrl }) => {
    const token = await readHttpToken(home);
    const authority = await readFile(join(home, "authority.pem"), "utf8");
    for (const url of [httpUrl, httpUrl.replace("127.0.0.1", "localhost")]) {
      const trusting = connectOperations({ url, token, authority });
      assert.equal((await trusting.health()).home, home);
      await trusting.close();
    }
    const careful = connectOperations({ url: httpUrl, token });
    await assert.rejects(careful.health(), { code: "SERVER_UNREACHABLE", message: /STEMMA_CA=FILE/ });
    await careful.close();
  });
});

test("the page for browsers names the scheme by which it was asked", async (t) => {
  const home = await newHome(t);
  await serve(home, async ({ httpUrl }) => {
    const ca = await readFile(join(home, "authority.pem"));
    const answer = await new Promise<IncomingMessage>((resolve, reject) => {
      get(httpUrl, { ca }, resolve).on("error", reject);
    });
    assert.match(await text(answer), /STEMMA_SERVER=https:\/\/THIS-ADDRESS/);
  });
});

test("contexts keep the authority of a server", async (t) => {
  const home = await newHome(t);
  const before = { ...process.env };
  t.after(() => {
    for (const name of ["XDG_CONFIG_HOME", "STEMMA_TOKEN", "STEMMA_CONTEXT"])
      if (before[name] === undefined) delete process.env[name];
      else process.env[name] = before[name];
  });
  process.env["XDG_CONFIG_HOME"] = join(home, "config");
  await serve(join(home, "server"), async ({ httpUrl }) => {
    const ca = join(home, "server", "authority.pem");
    process.env["STEMMA_TOKEN"] = await readHttpToken(join(home, "server"));
    const add = (file: string): ReturnType<typeof runStemmaHere> =>
      runStemmaHere(["context", "add", "prod", "--at", httpUrl, "--ca", file], { home: join(home, "none") });
    assert.match((await add(join(home, "missing.pem"))).stderr, /FILE_MISSING/);
    assert.match((await add(join(home, "server", "http-token"))).stderr, /\[USAGE\]/);
    const added = await add(ca);
    assert.equal(added.status, 0, added.stderr);
    delete process.env["STEMMA_TOKEN"];
    process.env["STEMMA_CONTEXT"] = "prod";
    const { contextNamed, readContexts } = await import("../../../../../server/cli/contexts.js");
    const { server, ...known } = contextNamed(readContexts(), "prod");
    const operations = connectOperations({ url: server, ...known });
    assert.equal((await operations.fleets())[0]?.fleet, fleet);
    await operations.close();
  });
});

test("plain ports are said at every start, and so are tokens beside TLS", async (t) => {
  const home = await newHome(t);
  for (let start = 0; start < 2; start++)
    await serve(
      home,
      async (server, log) => {
        const { fields } = await log.until("plain-ports");
        assert.match(String(fields["text"]), /MQTT and HTTP are not encrypted on 127\.0\.0\.1/);
        assert.match(server.mqttUrl, /^mqtt:/);
        assert.equal(server.authorityFile, undefined);
      },
      { tls: "none" },
    );
  await serve(home, async (_, log) => void (await log.until("device-tokens")), { deviceTokens: true });
});

test("a home with devices that have tokens is not started without saying what becomes of them", async (t) => {
  const home = await newHome(t);
  await serve(
    home,
    async ({ operations }) => {
      for (const device of ["van-1", "van-2"]) await operations.enroll({ fleet, device, lines: ["soh"] });
    },
    { tls: "none" },
  );
  const refused = {
    code: "CONFIG_INVALID",
    message: /cars\/van-1, cars\/van-2.*--tls none.*--device-tokens/,
  };
  await assert.rejects(
    serve(home, () => Promise.resolve()),
    refused,
  );
  await assert.rejects(
    serve(home, () => Promise.resolve(), { tls: "own" }),
    refused,
  );
  // The refused start has let go of the home.
  await serve(home, () => Promise.resolve(), { tls: "none" });
  await serve(
    home,
    async ({ operations }) => {
      for (const device of ["van-1", "van-2"]) await operations.revoke({ fleet, device });
    },
    { deviceTokens: true },
  );
  await serve(home, ({ mqttUrl }) => Promise.resolve(assert.match(mqttUrl, /^mqtts:/)));
});

test("beside an external broker HTTP alone has TLS, and devices have tokens", async (t) => {
  const home = await newHome(t);
  const broker = await plainBroker();
  t.after(() => broker.close());
  await serve(
    home,
    async ({ operations, httpUrl, mqttUrl }, log) => {
      assert.match(httpUrl, /^https:/);
      assert.equal(mqttUrl, broker.url);
      assert.equal(log.count("broker-external"), 1);
      const enrolment = await operations.enroll({ fleet, device: "van", lines: ["soh"] });
      assert.equal(enrolment.authorities, undefined);
      await assert.rejects(operations.invite({ fleet, device: "bus", lines: ["soh"] }), {
        code: "CONFIG_INVALID",
        message: /--token/,
      });
    },
    { broker: { url: broker.url } },
  );
});
