/**
 * Calls every operation of the table on a home in this process and on a server over HTTP, in the same
 * sequence. Both give the same answers; each fits the table's schema and has no member that the schema lacks. Every
 * fact that an operation appends names its caller, over every way into the store, and over HTTP its request.
 */
import assert from "node:assert/strict";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { operationTable } from "../../../../../server/interface/api/operation-table.js";
import type { ListedFact } from "../../../../../server/interface/api/stores/journal-schemas.js";
import type { ServerOperations } from "../../../../../server/interface/api/server-operations.js";
import { connectOperations } from "../../../../../server/interface/http/client.js";
import { readHttpToken } from "../../../../../server/interface/http/token.js";
import { openLocalOperations } from "../../../../../server/operations/local-operations.js";
import { openNodeHome } from "../../../../../server/storage/repository/node-home.js";
import { currentUser } from "../../../../../shared/adapters/current-user.js";
import { isStemmaError } from "../../../../../shared/errors.js";
import { hashToken } from "../../../../../shared/trust/token.js";
import { startTestServer, testFleet as fleet, type TestServer } from "../../../../helpers/test-server.js";
import { steps } from "./operation-steps.js";
import { tiny, type OperationName } from "./steps/step.js";

/** Operations whose answers differ between homes: only the members are compared. */
const ownValues: ReadonlySet<OperationName> = new Set([
  "enroll",
  // The records have the time of their save.
  "describeBundle",
  "addresses",
  "addTier",
  "tiers",
  "planTier",
  // A server replays what is queued at once.
  "replays",
]);
/** Operations of which the steps return only a part of the answer. */
const partial: ReadonlySet<OperationName> = new Set([
  "health",
  "planStorage",
  "applyStorage",
  "planCollection",
  "collect",
  "backup",
  "train",
  "replayChanged",
  "story",
  "rebaseEngine",
  "replayStory",
  "replayChangedStory",
  "journal",
  "addToken",
  "redact",
]);

/**
 * An answer as JSON, with constants for what differs between two homes: times, measured rates, and ids that
 * depend on them.
 */
function comparable(name: OperationName, answer: unknown): unknown {
  const ids = new Map<string, string>();
  const plain = (value: unknown, key = ""): unknown => {
    if (typeof value === "number" && /(Ms|Us|Bytes)$|^position|^behind|^bytes|^packBytes/.test(key))
      return "number";
    if (typeof value === "string") {
      // A server reads versions back and releases them in the background.
      if (/^by$|By$/.test(key)) return "caller";
      if (key === "state" && ["recorded", "stored", "released"].includes(value)) return "kept";
      if (key === "publicKey" || key === "message") return "text";
      return value.replace(/[0-9a-f]{12,64}/g, (id) => {
        if (!ids.has(id)) ids.set(id, `id ${ids.size}`);
        return ids.get(id) ?? "";
      });
    }
    if (Array.isArray(value)) return value.map((each) => plain(each, key));
    if (/^by$|By$/.test(key)) return "caller";
    if (typeof value === "object" && value !== null)
      return Object.fromEntries(
        Object.entries(value)
          // Only what goes through a server has the id of a request.
          .filter(([member]) => member !== "request")
          .map(([member, each]) => [member, plain(each, member)]),
      );
    return value;
  };
  const json: unknown = answer === undefined ? undefined : JSON.parse(JSON.stringify(answer));
  return ownValues.has(name) ? Object.keys(json as object).filter((key) => key !== "http") : plain(json);
}

/** The types of facts that the steps append. */
const factsOfOperations = [
  "assigned",
  "authority-added",
  "authority-list",
  "authority-removed",
  "backup",
  "data",
  "device-erased",
  "device-removed",
  "drop-policy",
  "engine-approved",
  "enrolled",
  "evaluated",
  "held",
  "labelled",
  "listed",
  "published",
  "quarantined",
  "query",
  "recipe-approved",
  "recipe-revoked",
  "recorded",
  "redacted",
  "retention",
  "retired",
  "revoked",
  "rollout",
  "rollout-phase",
  "settings",
  "succeeded",
  "tagged",
  "unheld",
  "unquarantined",
  "webhook",
];

/** Facts that the server itself appends in the background: it reads versions back and releases them. */
const ownFacts: readonly string[] = ["stored", "released"];

/** The facts from a position on that a caller must have caused, and the length of the journal. */
async function causedSince(
  operations: ServerOperations,
  from: number,
): Promise<{ readonly length: number; readonly caused: readonly ListedFact[] }> {
  const { length, facts } = await operations.journal({ fleet, from, limit: 1000 });
  return { length, caused: facts.filter(({ type }) => !ownFacts.includes(type)) };
}

/** @throws if the answer has a member that the table does not declare, or lacks one that it does */
function checkAgainstTable(name: OperationName, answer: unknown): void {
  const definition = operationTable[name];
  if (definition.kind === "job" || partial.has(name)) return;
  const json: unknown = answer === undefined ? undefined : JSON.parse(JSON.stringify(answer));
  assert.deepEqual(definition.output.parse(json), json, `${name} answers what the table declares`);
}

describe("every operation", () => {
  let server: TestServer;
  let home: string;
  let backups: string;
  let local: ServerOperations;
  let remote: ServerOperations;
  before(async () => {
    server = await startTestServer();
    home = await mkdtemp(join(tmpdir(), "stemma-local-"));
    backups = await mkdtemp(join(tmpdir(), "stemma-backups-"));
    // As the test's server: plain ports, and devices with tokens.
    await writeFile(join(home, "server.json"), JSON.stringify({ format: 1, listen: { tls: "none" } }));
    await (await openNodeHome(home)).close();
    local = await openLocalOperations({ home });
    remote = connectOperations({ socketPath: server.handle.socketPath, user: "ann@workshop" }, 20);
    await server.handle.operations.fleets();
  });
  after(async () => {
    await remote.close();
    await local.close();
    await server.remove();
    for (const folder of [home, backups]) await rm(folder, { recursive: true, force: true });
  });

  it("gives the same answers in this process and over HTTP", async () => {
    const asked = new Set<OperationName>(["events"]);
    const causedTypes = new Set<string>();
    const lengths = [0, 0];
    const callers = [
      { who: currentUser(), through: "command" },
      { who: "ann@workshop", through: "socket" },
    ];
    // The server's fleet exists from its start; the home's begins with an import.
    const [first, ...others] = steps(join(backups, "backup-"));
    assert.equal(first?.name, "fleets");
    assert.deepEqual([await local.fleets(), (await remote.fleets()).length], [[], 1]);
    asked.add("fleets");
    for (const { name, shows, ask, fails } of others) {
      asked.add(name);
      const label = shows === undefined ? name : `${name}: ${shows}`;
      const answers = [];
      for (const operations of [local, remote]) {
        try {
          const answer = await ask(operations);
          checkAgainstTable(name, answer);
          answers.push(comparable(name, answer));
        } catch (error) {
          if (!isStemmaError(error) || error.code !== fails) throw error;
          answers.push({ fails: error.code });
        }
      }
      assert.deepEqual(answers[1], answers[0], label);
      if (fails !== undefined) assert.deepEqual(answers[0], { fails }, label);
      for (const [at, operations] of [local, remote].entries()) {
        if ((await operations.fleets()).length === 0) continue;
        const { length, caused } = await causedSince(operations, lengths[at] ?? 0);
        lengths[at] = length;
        for (const { type, by, request } of caused) {
          assert.deepEqual(by, callers[at], `${label} appends ${type}`);
          assert.equal(typeof request, at === 0 ? "undefined" : "string", `${label} appends ${type}`);
          causedTypes.add(type);
        }
      }
    }
    assert.deepEqual([...causedTypes].sort(), factsOfOperations);
    assert.deepEqual([...asked].sort(), Object.keys(operationTable).sort(), "an operation is not asked here");
  });

  it("names the token and what its bearer claims, over TCP", async () => {
    const token = await readHttpToken(server.handle.home);
    const http = connectOperations({ url: server.handle.httpUrl, token, user: "bob\u0000\u2028ß" });
    try {
      const { length } = await http.journal({ fleet, limit: 1 });
      await http.tag({ ...tiny, tag: "tcp" });
      const { caused } = await causedSince(http, length);
      assert.deepEqual(
        caused.map(({ by }) => by),
        [{ who: "http-token", role: "admin", through: "http", claims: "bobß" }],
      );
    } finally {
      await http.close();
    }
  });

  it("lets a token do what its role allows, and nothing any more once it is removed", async () => {
    const url = server.handle.httpUrl;
    const tokens = await Promise.all(
      (["viewer", "operator"] as const).map((role) => remote.addToken({ name: `the-${role}`, role })),
    );
    const [viewer, operator] = tokens.map(({ token }) => connectOperations({ url, token }));
    if (viewer === undefined || operator === undefined) throw new Error("no tokens");
    try {
      assert.ok((await viewer.engines({ fleet })).length >= 0);
      await assert.rejects(viewer.tag({ ...tiny, tag: "x" }), { code: "NOT_ALLOWED" });
      const { length } = await operator.journal({ fleet, limit: 1 });
      await operator.tag({ ...tiny, tag: "x" });
      assert.deepEqual((await causedSince(operator, length)).caused[0]?.["by"], {
        who: "the-operator",
        through: "http",
        role: "operator",
      });
      for (const refused of [
        () => operator.approveEngine({ fleet, archive: "AAAA" }),
        () => operator.approveRecipe({ fleet, bundle: "AAAA" }),
        () => operator.revokeRecipe({ fleet, recipe: "my-recipe" }),
        () => operator.removeEngine({ fleet, engine: "0123456789" }),
        () => operator.backup({ fleet, folder: "/tmp/none", plainKey: true }),
        () => operator.addToken({ name: "more", role: "admin" }),
        () => operator.tokens(),
      ])
        await assert.rejects(refused, { code: "NOT_ALLOWED" });
      await remote.removeToken({ name: "the-viewer" });
      await assert.rejects(viewer.engines({ fleet }), { code: "TOKEN_INVALID" });
    } finally {
      await Promise.all([viewer.close(), operator.close()]);
    }
  });

  it("answers no hash of a device's token", async () => {
    for (const operations of [local, remote]) {
      const enrolment = await operations.enroll({ fleet, device: "secretive", lines: ["pack"] });
      const token = String((enrolment as { readonly token?: unknown }).token);
      const answers = [
        await operations.journal({ fleet, limit: 1000 }),
        await operations.device({ fleet, device: "secretive" }),
        await operations.devices({ fleet }),
      ];
      for (const answer of answers.map((each) => JSON.stringify(each))) {
        assert.match(answer, /secretive/);
        for (const secret of ["tokenHash", token, hashToken(token)]) assert.ok(!answer.includes(secret));
      }
    }
  });

  it("keeps the parameters of registered datasets, over HTTP too", async () => {
    const [{ parameters } = { parameters: {} }] = await remote.datasets({ fleet });
    assert.deepEqual(parameters, { vehicle: 2 });
  });

  it("refuses input that violates the table's schemas, naming the member", async () => {
    await assert.rejects(remote.listModels({ fleet, limit: 0 }), {
      code: "HTTP_REQUEST_INVALID",
      message: /limit/,
    });
  });
});
