/** One id through the agent's log, the server's log and the journal: of a report, an order, a request and a command. */
import assert from "node:assert/strict";
import { it } from "node:test";
import { connectOperations } from "../../../server/interface/http/client.js";
import { readHttpToken } from "../../../server/interface/http/token.js";
import { isOfVersion, startAgentTestEnvironment, testLine } from "../../helpers/agent-test-environment.js";
import { testFleet } from "../../helpers/test-server.js";
import { ask, type Answer } from "../server/interface/http/http-requests.js";

it("finds a report, an order and a request by one id, on the server and on the device", async (t) => {
  const { server, startAgent } = await startAgentTestEnvironment(t);
  const { operations, httpUrl } = server.handle;
  const { log } = await startAgent();
  const { versionId: base } = await operations.model({ fleet: testFleet, model: "base" });
  await log.until("activated", 1, isOfVersion(base));
  const token = (await readHttpToken(server.home)) ?? "";
  const post = (path: string, body: object, id: string): Promise<Answer> =>
    ask(`${httpUrl}/v1/fleets/${testFleet}/${path}`, {
      method: "POST",
      headers: { authorization: `Bearer ${token}`, "content-type": "application/json", "x-request-id": id },
      body: JSON.stringify(body),
    });

  // A command: its request is in the server's log, in the agent's, and in what the training logs.
  const asked = await post("devices/v1/train", { line: testLine }, "night-run.7");
  assert.deepEqual([asked.status, asked.headers["x-request-id"]], [200, "night-run.7"]);
  const { fields: trained } = await log.until("trained", 1, ({ request }) => request === "night-run.7");
  const report = String(trained["versionId"]);
  await log.until("released", 1, ({ versionId }) => versionId === report);
  const command = await operations.trace({ fleet: testFleet, id: "night-run.7" });
  assert.deepEqual(
    [command.kind, command.log.map(({ event }) => event)],
    ["request", ["command", "http-request"]],
  );
  const remote = connectOperations({ url: httpUrl, token }, 50);
  const page = await remote.deviceLogs({ fleet: testFleet, device: "v1", about: "night-run.7" });
  assert.deepEqual(page.events.map(({ event }) => event).sort(), ["command", "trained", "training"]);

  // A report: journal and server name its version id, as the agent does.
  const traced = await operations.trace({ fleet: testFleet, id: report });
  assert.deepEqual([traced.kind, traced.device, traced.next], ["version", "v1", null]);
  assert.equal(traced.facts[0]?.type, "recorded");
  const events = traced.log.map(({ event }) => event);
  for (const event of ["announced", "wanted", "recorded", "stored", "released"])
    assert.ok(events.includes(event), `${event} is not in ${events.join(", ")}`);
  assert.ok(log.events.some(({ event, fields }) => event === "announced" && fields["versionId"] === report));

  // An order: what one device was offered, fetched and runs.
  const order = await operations.trace({ fleet: testFleet, id: "base", device: "v1" });
  const steps = ["assigned", "given", "activated"];
  assert.deepEqual(
    order.facts.map(({ type }) => type).filter((type) => steps.includes(type)),
    steps,
  );
  assert.ok(order.log.some(({ event }) => event === "fetch-begun"));
  const other = await operations.trace({ fleet: testFleet, id: "base", device: "v2" });
  assert.ok(!other.facts.some(({ type }) => type === "given"));

  // A change over HTTP: the fact has the request; the id that a client may not choose is replaced.
  await post("device-labels", { device: "v1", labels: { region: "eu" } }, "label-1");
  const [labelled] = (await operations.trace({ fleet: testFleet, id: "label-1" })).facts;
  assert.deepEqual([labelled?.type, labelled?.["request"]], ["labelled", "label-1"]);
  const forged = await post("device-labels", { device: "v1", labels: { a: "b" } }, 'x" 1\u0007'.slice(0, 4));
  assert.match(String(forged.headers["x-request-id"]), /^[0-9a-f]{16}$/);
  const refused = await ask(`${httpUrl}/v1/fleets`, { headers: { "x-request-id": "no-token" } });
  assert.deepEqual([refused.status, refused.headers["x-request-id"]], [401, "no-token"]);
  assert.deepEqual((await operations.trace({ fleet: testFleet, id: "no-token" })).log, []);
  await remote.close();
});
