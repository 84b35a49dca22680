/** Webhooks of a real server: a receiver that answers, redirects, hangs up, and is away while facts happen. */
import assert from "node:assert/strict";
import { createServer, type IncomingHttpHeaders, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { after, before, describe, it } from "node:test";
import { isWebhookGenuine } from "../../../../helpers/genuine-webhook.js";
import { pollUntil } from "../../../../helpers/poll-until.js";
import { startTestServer, testFleet as fleet, type TestServer } from "../../../../helpers/test-server.js";

interface Sent {
  readonly from: number;
  readonly next: number;
  readonly facts: readonly { readonly position: number; readonly type: string }[];
  /** What the receiver answered. */
  readonly status: number;
}

describe("webhooks", () => {
  let server: TestServer;
  let receiver: Server;
  let url: string;
  let status = 200;
  const requests: {
    readonly headers: IncomingHttpHeaders;
    readonly body: string;
    readonly status: number;
  }[] = [];
  let arrived: () => void = () => undefined;
  before(async () => {
    receiver = createServer((request, response) => {
      const chunks: Buffer[] = [];
      request.on("data", (chunk: Buffer) => chunks.push(chunk));
      request.on("end", () => {
        requests.push({ headers: request.headers, body: Buffer.concat(chunks).toString("utf8"), status });
        response
          .writeHead(status, status === 302 ? { location: "/elsewhere" } : {})
          .end("thanks".repeat(1000));
        arrived();
      });
    });
    await new Promise<void>((resolve) => receiver.listen(0, "127.0.0.1", resolve));
    url = `http://127.0.0.1:${(receiver.address() as AddressInfo).port}/hook`;
    server = await startTestServer();
  });
  after(async () => {
    await server.remove();
    receiver.closeAllConnections();
    await new Promise((resolve) => receiver.close(resolve));
  });
  /** Resolves when a request arrives that has this condition. */
  async function request(matches: (sent: Sent) => boolean): Promise<Sent> {
    for (;;) {
      for (const { body, status: answered } of requests.splice(0)) {
        const sent = { ...(JSON.parse(body) as Sent), status: answered };
        if (matches(sent)) return sent;
      }
      await new Promise<void>((resolve) => {
        arrived = resolve;
      });
    }
  }

  it("get facts as they happen, signed by the server's key", async () => {
    const { operations } = server.handle;
    await operations.addWebhook({ name: "ops", fleet, url, types: ["enrolled", "labelled"] });
    await server.enroll("van-1");
    await pollUntil("the first request", () => requests.length > 0);
    const [{ headers, body } = { headers: {}, body: "" }] = requests;
    const { publicKey } = await operations.health();
    assert.ok(isWebhookGenuine(publicKey ?? "", headers as Record<string, string>, body, Date.now()));
    const { facts } = await request(() => true);
    assert.deepEqual(
      facts.map(({ type }) => type),
      ["enrolled"],
    );
    assert.ok(!body.includes("tokenHash"));
  });

  it("follow no redirect, and miss nothing that happened while the receiver was away", async () => {
    const { operations } = server.handle;
    status = 302;
    await operations.labelDevices({ fleet, device: "van-1", labels: { depot: "lyon" } });
    await request(({ facts }) => facts.length > 0);
    const test = await operations.testWebhook({ name: "ops" });
    assert.deepEqual(test, { isDelivered: false, because: "it answered 302" });
    requests.length = 0;
    await operations.labelDevices({ fleet, device: "van-1", labels: { depot: "kiel" } });
    await server.restart();
    status = 200;
    const { facts } = await request((sent) => sent.status === 200 && sent.facts.length === 2);
    assert.deepEqual(
      facts.map(({ type }) => type),
      ["labelled", "labelled"],
    );
  });

  it("can be sent facts again, be tested, and be removed", async () => {
    const { operations } = server.handle;
    requests.length = 0;
    await operations.moveWebhook({ name: "ops", from: 0 });
    assert.equal((await request(({ from }) => from === 0)).facts[0]?.type, "enrolled");
    assert.deepEqual(await operations.testWebhook({ name: "ops" }), { isDelivered: true });
    assert.deepEqual(await operations.removeWebhook({ name: "ops" }), []);
    await assert.rejects(operations.testWebhook({ name: "ops" }), { code: "NOT_FOUND" });
    const { facts } = await operations.journal({ fleet });
    const { host } = new URL(url);
    assert.deepEqual(
      facts
        .filter(({ type }) => type === "webhook")
        .map((fact) => [fact["change"], fact["name"], fact["host"], fact["from"]]),
      [
        ["added", "ops", host, 0],
        ["moved", "ops", host, 0],
        ["removed", "ops", host, null],
      ],
    );
  });

  it("refuse addresses that are not of HTTP, and types that no fact has", async () => {
    const { operations } = server.handle;
    await assert.rejects(operations.addWebhook({ name: "file", fleet, url: "file:///etc/passwd" }), {
      code: "USAGE",
    });
    await assert.rejects(operations.addWebhook({ name: "typo", fleet, url, types: ["enroled"] }), {
      code: "USAGE",
    });
    assert.deepEqual(await operations.webhooks(), []);
  });
});
