/**
 * Tokens that are scoped to fleets, that end, and of the role releaser, over HTTP. Every request that a run of all
 * operations makes on one fleet is sent again with tokens of another: they get nothing of the first and change nothing.
 */
import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import fc from "fast-check";
import type { OperationDefinition } from "../../../../../server/interface/api/operation.js";
import { operationTable } from "../../../../../server/interface/api/operation-table.js";
import { rightsOfRole, roles, type Role } from "../../../../../server/interface/api/rights.js";
import type { ServerOperations } from "../../../../../server/interface/api/server-operations.js";
import { connectOperations } from "../../../../../server/interface/http/client.js";
import { tokenReader } from "../../../../../server/interface/http/tokens.js";
import { splitInput } from "../../../../../server/interface/http/write-input.js";
import { nodeFiles } from "../../../../../shared/files/node-files.js";
import { startTestServer, testFleet as other, type TestServer } from "../../../../helpers/test-server.js";
import { steps } from "./operation-steps.js";
import type { OperationName } from "./steps/step.js";

const mine = "mine";
const operations: Readonly<Record<string, OperationDefinition>> = operationTable;

/** One request: of a step, or one of the routes that belong to no operation. */
interface Asked {
  readonly name: OperationName | null;
  readonly method: string;
  readonly path: string;
  readonly body?: object;
}

/** The request of an operation, as the client would send it. */
function askedOf(name: OperationName, input: object): Asked {
  const definition = operations[name] as OperationDefinition;
  const { path, body } = splitInput(definition, input);
  return { name, method: definition.method, path, ...(definition.method === "GET" ? {} : { body }) };
}

const others: readonly Asked[] = [
  { name: null, method: "GET", path: "/metrics" },
  { name: null, method: "GET", path: "/openapi.json" },
  { name: null, method: "GET", path: `/v1/fleets/${other}/train` },
  { name: null, method: "GET", path: `/v1/events?fleet=${other}` },
  { name: null, method: "GET", path: `/v1/fleets/%74est-fleet/models` },
  { name: null, method: "GET", path: `/v1/fleets/${other}/models?fleet=${mine}` },
  { name: null, method: "HEAD", path: `/v1/fleets/${other}/devices` },
  { name: null, method: "DELETE", path: `/v1/fleets/${other}/train/none` },
];

describe("scoped tokens", () => {
  let server: TestServer;
  let folder: string;
  let admin: ServerOperations;
  /** The requests of the steps. */
  const asked: Asked[] = [...others];
  const tokens = new Map<Role, string>();
  /** Texts that only the other fleet has. */
  const secrets = new Set<string>();

  /** Operations that note what they are asked. */
  const noting = (operationsOf: ServerOperations): ServerOperations =>
    new Proxy(operationsOf, {
      get:
        (target, name: OperationName) =>
        async (first: object = {}, second?: object) => {
          asked.push(askedOf(name, name === "import" ? { ...second, name: "tiny" } : first));
          return (target[name] as (...args: unknown[]) => unknown)(first, second);
        },
    });

  const send = async (
    { method, path, body }: Asked,
    token: string,
  ): Promise<{ readonly status: number; readonly text: string }> => {
    const stop = new AbortController();
    const answer = await fetch(`${server.handle.httpUrl}${path}`, {
      method,
      signal: stop.signal,
      headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    if (answer.headers.get("content-type")?.startsWith("text/event-stream") === true && answer.ok) {
      // It goes on: what has come until something of the token's own fleet comes is what it gets.
      stop.abort();
      return { status: answer.status, text: "" };
    }
    return { status: answer.status, text: await answer.text() };
  };
  /** Facts of the other fleet that somebody caused over TCP: the steps used the socket. */
  const caused = async (): Promise<readonly unknown[]> =>
    (await admin.journal({ fleet: other, limit: 1000 })).facts.filter(({ by }) =>
      JSON.stringify(by ?? null).includes('"http"'),
    );

  before(async () => {
    server = await startTestServer({ fleets: [other, mine] });
    folder = await mkdtemp(join(tmpdir(), "stemma-scoped-"));
    admin = connectOperations({ socketPath: server.handle.socketPath }, 20);
    const remote = noting(admin);
    for (const { ask, name } of steps(join(folder, "backup-")))
      await ask(name === "events" ? admin : remote).catch(() => undefined);
    // Other words and hashes, such as those of the engine, may be the same in every fleet.
    const ownOf = (value: unknown, key = ""): void => {
      if (typeof value === "string" && /^(versionId|publicKey)$/.test(key)) secrets.add(value);
      else if (typeof value === "object" && value !== null)
        for (const [name, member] of Object.entries(value)) ownOf(member, name);
    };
    secrets.add(other);
    ownOf([await admin.models({ fleet: other, all: true }), await admin.devices({ fleet: other })]);
    ownOf(await admin.journal({ fleet: other, limit: 1000 }));
    const { head } = await admin.journalHead({ fleet: other });
    for (const secret of [head.chain, head.root]) secrets.add(secret);
    secrets.delete((await admin.health()).publicKey ?? "");
    for (const role of roles)
      tokens.set(role, (await admin.addToken({ name: `my-${role}`, role, fleets: [mine] })).token);
  });
  after(async () => {
    await admin.close();
    await server.remove();
    await rm(folder, { recursive: true, force: true });
  });

  it("were tried on every operation", () => {
    const names = new Set(asked.map(({ name }) => name));
    const missing = Object.keys(operationTable).filter((name) => !names.has(name as OperationName));
    assert.deepEqual(missing.sort(), ["events"]);
    assert.ok(secrets.size > 5);
  });

  it("get nothing of another fleet and change nothing there, whatever they ask", async () => {
    const tokensBefore = (await admin.tokens()).length;
    await fc.assert(
      fc.asyncProperty(
        fc.constantFrom(...asked),
        fc.constantFrom(...roles),
        // On their own fleet, the same requests find nothing of the other.
        fc.boolean(),
        async (request, role, isOnOwn) => {
          const text = JSON.stringify(request);
          const sent = isOnOwn
            ? (JSON.parse(
                text
                  .replaceAll(`/fleets/${other}`, `/fleets/${mine}`)
                  .replaceAll(`"fleet":"${other}"`, `"fleet":"${mine}"`),
              ) as Asked)
            : request;
          const answer = await send(sent, tokens.get(role) ?? "");
          const known = JSON.stringify(sent);
          // The id of a version follows from its story, which is in the request.
          const found = [...secrets].filter(
            (secret) =>
              answer.text.includes(secret) &&
              !known.includes(secret) &&
              sent.name !== "replayStory" &&
              sent.name !== "replayChangedStory",
          );
          assert.deepEqual(found, [], `${role} ${sent.method} ${sent.path}: ${answer.text.slice(0, 500)}`);
          const definition = sent.name === null ? undefined : operations[sent.name];
          if (definition === undefined || definition.right === null) return;
          const isRefused = answer.text.includes('"NOT_ALLOWED"') && answer.status === 403;
          const isOthers = definition.scoped === "refused" || sent.path.includes(`/fleets/${other}`);
          if (isOthers || !rightsOfRole[role].has(definition.right))
            assert.ok(isRefused, `${role} is not refused ${sent.method} ${sent.path}: ${answer.status}`);
        },
      ),
      {
        numRuns: 4 * asked.length,
        examples: asked.map((each): [Asked, Role, boolean] => [each, "admin", false]),
      },
    );
    assert.deepEqual(await caused(), []);
    assert.equal((await admin.tokens()).length, tokensBefore);
    assert.deepEqual((await admin.health()).fleets, [mine, other]);
  });

  it("are shown their own fleets, figures and events alone", async () => {
    const token = tokens.get("viewer") ?? "";
    const own = connectOperations({ url: server.handle.httpUrl, token });
    const stop = new AbortController();
    try {
      assert.deepEqual(
        (await own.fleets()).map(({ fleet }) => fleet),
        [mine],
      );
      assert.deepEqual((await own.health()).fleets, [mine]);
      const metrics = (await send({ name: null, method: "GET", path: "/metrics" }, token)).text;
      const figures = metrics.split("\n").filter((line) => line !== "" && !line.startsWith("#"));
      assert.ok(figures.some((line) => line.startsWith(`stemma_journal_facts{fleet="${mine}"}`)));
      assert.deepEqual(
        figures.filter((line) => !line.includes(`fleet="${mine}"`)),
        [],
      );
      const first = own.events(stop.signal)[Symbol.asyncIterator]().next();
      // Events before the stream has begun are not sent, so both fleets have some until one came.
      const timer = setInterval(() => {
        for (const fleet of [other, mine]) void admin.applyRetention({ fleet, collect: false });
      }, 50);
      const event = await first.finally(() => {
        clearInterval(timer);
      });
      assert.equal((event.value as { readonly fleet: string }).fleet, mine);
    } finally {
      stop.abort();
      await own.close();
    }
  });

  it("name fleets that are there", async () => {
    await assert.rejects(admin.addToken({ name: "typo", role: "viewer", fleets: ["mien"] }), {
      code: "NOT_FOUND",
    });
  });

  it("name no file of the server's machine, where other fleets' data are", async () => {
    const own = connectOperations({ url: server.handle.httpUrl, token: tokens.get("operator") ?? "" });
    try {
      for (const input of [
        { kind: "csv", location: "/etc/passwd" },
        { kind: "sql", location: "file://../../x.sqlite", parameters: { query: "SELECT 1" } },
      ])
        await assert.rejects(own.addDataset({ fleet: mine, name: "d", ...input }), { code: "NOT_ALLOWED" });
    } finally {
      await own.close();
    }
  });

  it("end the event stream that they opened, once they are removed", async () => {
    const { token } = await admin.addToken({ name: "watching", role: "viewer" });
    const own = connectOperations({ url: server.handle.httpUrl, token });
    const timer = setInterval(() => void admin.applyRetention({ fleet: mine, collect: false }), 50);
    let events = 0;
    try {
      for await (const _ of own.events(new AbortController().signal))
        if (++events === 1) await admin.removeToken({ name: "watching" });
    } finally {
      clearInterval(timer);
      await own.close();
    }
    assert.ok(events > 0);
  });

  it("are refused from their end on, and tell of it", async () => {
    const { token, expiresAtMs = 0 } = await admin.addToken({
      name: "short",
      role: "viewer",
      validMs: 60_000,
    });
    const listed = (await admin.tokens()).find(({ name }) => name === "short");
    assert.equal(listed?.expiresAtMs, expiresAtMs);
    const at = (now: number) =>
      tokenReader({ files: nodeFiles(), clock: { now: () => now } }, server.home, "own").find(
        `Bearer ${token}`,
      );
    assert.equal((await at(expiresAtMs - 1))?.who, "short");
    await assert.rejects(at(expiresAtMs), { code: "TOKEN_EXPIRED" });
  });
});
