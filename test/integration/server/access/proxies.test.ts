// A proxy that the environment names: commands, enrolment, data by a URL and webhooks go through it, and nothing else.
import assert from "node:assert/strict";
import { once } from "node:events";
import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { createServer, request, type Server } from "node:http";
import { connect, type AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { connectOperations } from "../../../../server/interface/http/client.js";
import { readHttpToken } from "../../../../server/interface/http/token.js";
import { startServer, type ServerHandle } from "../../../../server/main.js";
import { placeData } from "../../../../server/services/data/place-data.js";
import { postFacts } from "../../../../server/services/webhooks/post-facts.js";
import { WaitableLog } from "../../../helpers/agent-fixtures.js";
import { runAgentHere } from "../../../helpers/run-stemma-here.js";

const fleet = "cars";
const names = ["HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY", "ALL_PROXY"];
type Named = Readonly<Record<string, string>>;

/** Sets the variables of a test, and no other that names a proxy. */
function useProxies(t: TestContext, named: Named): void {
  for (const name of names.flatMap((each) => [each, each.toLowerCase()])) {
    const before = process.env[name];
    t.after(() => {
      if (before === undefined) delete process.env[name];
      else process.env[name] = before;
    });
    const value = named[name];
    if (value === undefined) delete process.env[name];
    else process.env[name] = value;
  }
}

interface Proxy {
  readonly url: string;
  /** What it was asked for, with the user and password. */
  readonly asked: string[];
}

async function listening(t: TestContext, server: Server): Promise<string> {
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

/** @param status the answer to CONNECT */
async function proxy(t: TestContext, status = 200): Promise<Proxy> {
  const asked: string[] = [];
  const note = (what = "", header: string | undefined): number =>
    asked.push(`${what} ${Buffer.from(header?.slice(6) ?? "", "base64").toString()}`.trim());
  const server = createServer((incoming, answer) => {
    note(incoming.url, incoming.headers["proxy-authorization"]);
    incoming.pipe(
      request(incoming.url ?? "", { method: incoming.method, headers: incoming.headers }, (from) => {
        answer.writeHead(from.statusCode ?? 0, from.headers);
        from.pipe(answer);
      }),
    );
  });
  server.on("connect", (incoming, client) => {
    note(incoming.url, incoming.headers["proxy-authorization"]);
    if (status !== 200) {
      client.end(`HTTP/1.1 ${status} No\r\ncontent-length: 0\r\n\r\n`);
      return;
    }
    const { hostname, port } = new URL(`http://${incoming.url}`);
    const upstream = connect(Number(port), hostname, () => {
      client.write("HTTP/1.1 200 OK\r\n\r\n");
      client.pipe(upstream).pipe(client);
    });
    for (const [one, other] of [
      [client, upstream],
      [upstream, client],
    ] as const)
      one.on("error", () => other.destroy()).on("close", () => other.destroy());
  });
  return { url: await listening(t, server), asked };
}

async function newFolder(t: TestContext): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "stemma-proxies-"));
  t.after(() => rm(folder, { recursive: true, force: true }));
  return folder;
}

async function serve(t: TestContext): Promise<ServerHandle & { readonly folder: string }> {
  const folder = await newFolder(t);
  const home = join(folder, "home");
  const server = await startServer({ fleets: [fleet], mqttPort: 0, httpPort: 0, home }, new WaitableLog());
  t.after(() => server.close());
  return { ...server, folder };
}

const hostOf = (url: string): string => new URL(url).host;

async function health({
  httpUrl,
  folder,
}: {
  readonly httpUrl: string;
  readonly folder: string;
}): Promise<void> {
  const home = join(folder, "home");
  const [token, authority] = [await readHttpToken(home), await readFile(join(home, "authority.pem"), "utf8")];
  const operations = connectOperations({ url: httpUrl, token, authority });
  try {
    assert.equal((await operations.health()).home, home);
    await operations.fleets({});
  } finally {
    await operations.close();
  }
}

test("a command reaches its server through the proxy, whose certificate is judged as without it", async (t) => {
  useProxies(t, {});
  const server = await serve(t);
  const { url, asked } = await proxy(t);
  useProxies(t, { HTTPS_PROXY: url.replace("//", "//ann:p%40ss@") });
  await health(server);
  assert.deepEqual(asked, [`${hostOf(server.httpUrl)} ann:p@ss`]);
  const careful = connectOperations({ url: server.httpUrl, token: "x" });
  await assert.rejects(careful.health(), { code: "SERVER_UNREACHABLE", message: /STEMMA_CA=FILE/ });
  await careful.close();
  useProxies(t, { HTTPS_PROXY: url, NO_PROXY: "127.0.0.1" });
  await health(server);
  assert.equal(asked.length, 2, "a host in NO_PROXY is reached directly");
});

test("a proxy that refuses, is not there or cannot be used is named, without its password", async (t) => {
  useProxies(t, {});
  const server = await serve(t);
  const refused = async (HTTPS_PROXY: string, code: string, message: RegExp): Promise<void> => {
    useProxies(t, { HTTPS_PROXY });
    await assert.rejects(health(server), (error: Error & { readonly code?: string }) => {
      assert.equal(error.code, code);
      assert.match(error.message, message);
      assert.doesNotMatch(error.message, /secret/);
      return true;
    });
  };
  const withPassword = (url: string): string => url.replace("//", "//ann:secret@");
  await refused(
    withPassword((await proxy(t, 407)).url),
    "SERVER_UNREACHABLE",
    /The proxy .* answered 407 .*USER/,
  );
  await refused(withPassword((await proxy(t, 403)).url), "SERVER_UNREACHABLE", /answered 403 .*NO_PROXY/);
  await refused(
    "http://ann:secret@127.0.0.1:1",
    "SERVER_UNREACHABLE",
    /The proxy http:\/\/127.0.0.1:1 \(HTTPS_PROXY or ALL_PROXY\)/,
  );
  await refused("http://ann:secret%zz@127.0.0.1:1", "USAGE", /HTTPS_PROXY .*%25/);
  await refused("socks5://ann:secret@127.0.0.1:1", "USAGE", /HTTPS_PROXY .*http:\/\/HOST:PORT/);
});

test("a device enrols through the proxy", async (t) => {
  useProxies(t, {});
  const server = await serve(t);
  const { url, asked } = await proxy(t);
  const invitation = join(server.folder, "van.json");
  await writeFile(
    invitation,
    JSON.stringify(await server.operations.invite({ fleet, device: "van", lines: ["soh"] })),
  );
  useProxies(t, { HTTPS_PROXY: url });
  const enrolled = await runAgentHere(["enroll", invitation, "--home", join(server.folder, "agent")]);
  assert.equal(enrolled.status, 0, enrolled.stderr);
  assert.deepEqual(asked, [hostOf(server.httpUrl)]);
});

test("data by a URL and webhooks go through the proxy", async (t) => {
  const folder = await newFolder(t);
  const origin = createServer((incoming, answer) => {
    incoming.resume().on("end", () => answer.end("a,y\n1,2\n"));
  });
  const address = await listening(t, origin);
  const { url, asked } = await proxy(t);
  useProxies(t, { HTTP_PROXY: url });
  await mkdir(join(folder, "work"));
  const placed = await placeData({ kind: "csv", location: `${address}/t.csv` }, join(folder, "work"));
  assert.equal(await readFile(placed.location, "utf8"), "a,y\n1,2\n");
  await placed.release();
  const posted = await postFacts(`${address}/hook`, {}, "{}", new AbortController().signal);
  assert.deepEqual(posted, { isDelivered: true });
  assert.ok(asked.length >= 1, "it was asked");
  const before = asked.length;
  useProxies(t, {});
  assert.deepEqual(await postFacts(`${address}/hook`, {}, "{}", new AbortController().signal), {
    isDelivered: true,
  });
  assert.equal(asked.length, before);
});
