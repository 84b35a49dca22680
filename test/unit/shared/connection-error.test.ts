/** Errors of real sockets in words: each has a code, says what is wrong and what to do. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { get as httpGet } from "node:http";
import { get as httpsGet } from "node:https";
import { connect, createServer, type AddressInfo, type Server } from "node:net";
import { test, type TestContext } from "node:test";
import { connectionError, connectionProblem, isOutOfDescriptors } from "../../../shared/connection-error.js";
import { StemmaError } from "../../../shared/errors.js";

async function listening(t: TestContext, server: Server): Promise<number> {
  t.after(() => server.close());
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return (server.address() as AddressInfo).port;
}

const errorOf = async (emitter: NodeJS.EventEmitter): Promise<unknown> => (await once(emitter, "error"))[0];

/** A port that nothing listens on. */
async function freePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return port;
}

test("nothing listens", async () => {
  const error = connectionError("The server at x:1", await errorOf(connect(await freePort(), "127.0.0.1")));
  assert.equal(error.code, "SERVER_UNREACHABLE");
  assert.match(
    error.message,
    /^The server at x:1 cannot be reached: nothing listens there \(ECONNREFUSED\)\. Start/,
  );
});

test("a host with several addresses that refuse, and fetch, are as one that refuses", async () => {
  const port = await freePort();
  const fetched = await fetch(`http://localhost:${port}`).catch((error: unknown) => error);
  assert.match(connectionProblem(fetched).why, /nothing listens there \(ECONNREFUSED\)/);
  const refused = Object.assign(new Error("no"), { code: "ECONNREFUSED" });
  assert.match(connectionProblem(new AggregateError([refused, refused])).why, /nothing listens there/);
});

test("a name that nobody knows", async () => {
  const lookup = (
    _: string,
    __: object,
    done: (error: Error, address: string, family: number) => void,
  ): void => {
    done(Object.assign(new Error("no"), { code: "ENOTFOUND" }), "", 4);
  };
  const { why, next } = connectionProblem(
    await errorOf(connect({ host: "no-such.invalid", port: 1, lookup })),
  );
  assert.match(why, /the name of the host is not known \(ENOTFOUND\)/);
  assert.match(next, /Correct the name/);
});

test("TLS to a port without it, and HTTP to what is not HTTP", async (t) => {
  const port = await listening(
    t,
    createServer((socket) => {
      socket.on("error", () => undefined);
      socket.end("SSH-2.0-something\r\n");
    }),
  );
  const tls = connectionProblem(await errorOf(httpsGet({ port, host: "127.0.0.1" })));
  assert.match(tls.why, /does not speak TLS/);
  assert.match(tls.next, /http:\/\/ for https:\/\//);
  const plain = connectionProblem(await errorOf(httpGet({ port, host: "127.0.0.1" })));
  assert.match(plain.why, /does not answer in HTTP/);
  assert.match(plain.next, /https:\/\/ for http:\/\//);
});

for (const code of [
  "EAI_AGAIN",
  "ETIMEDOUT",
  "EHOSTUNREACH",
  "ENETUNREACH",
  "EMFILE",
  "ENFILE",
  "EACCES",
  "EPIPE",
])
  test(`${code} has words and a next step`, () => {
    const error = Object.assign(new Error("raw"), { code });
    const { why, next } = connectionProblem(error);
    assert.match(why, new RegExp(`^[a-z].*\\(${code}\\)$`));
    assert.match(next, /^[A-Z].*\.$/);
    assert.equal(isOutOfDescriptors(error), code === "EMFILE" || code === "ENFILE");
  });

test("a typed error stays, and an unknown one keeps its words", () => {
  const typed = new StemmaError("TIMED_OUT", "late");
  assert.equal(connectionError("x", typed), typed);
  assert.match(
    connectionError("The server", new Error("odd")).message,
    /^The server cannot be reached: odd\. Check/,
  );
});
