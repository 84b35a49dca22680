/** Plans while a server stops, of clients that leave or ask for what is not valid. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { connectOperations } from "../../../../../server/interface/http/client.js";
import { startTestServer, testFleet } from "../../../../helpers/test-server.js";
import { assertSame, importAll, options } from "./planned-family.js";

describe("planning and applying storage", () => {
  it("runs once at a time per fleet, stops when the client disconnects, and refuses invalid requests", async (context) => {
    const server = await startTestServer();
    context.after(() => server.remove());
    await importAll(server.handle.operations, testFleet);
    const remote = connectOperations({ socketPath: server.handle.socketPath }, 5);
    const both = await Promise.allSettled([
      remote.planStorage({ fleet: testFleet, ...options }),
      remote.planStorage({ fleet: testFleet, ...options }),
    ]);
    assert.deepEqual(both.map(({ status }) => status).sort(), ["fulfilled", "rejected"]);
    for (const one of both)
      if (one.status === "rejected") assert.equal((one.reason as { code?: string }).code, "QUOTA_EXCEEDED");
    const abort = new AbortController();
    abort.abort();
    await assert.rejects(remote.planStorage({ fleet: testFleet, ...options }, { signal: abort.signal }), {
      code: "INTERRUPTED",
    });
    await assert.rejects(remote.planStorage({ fleet: testFleet, ...options, ratio: 0.5 }), {
      code: "HTTP_REQUEST_INVALID",
    });
    await assert.rejects(
      remote.applyStorage({ fleet: testFleet, ...options, plan: { format: 1 } as never }),
      {
        code: "PLAN_INVALID",
      },
    );
    await assert.rejects(remote.planStorage({ fleet: "nowhere", ...options }), { code: "NOT_FOUND" });
    const plan = await remote.planStorage({ fleet: testFleet, ...options });
    await assert.rejects(
      remote.applyStorage({ fleet: testFleet, ...options, plan: { ...plan, fleet: "another" } }),
      { code: "PLAN_INVALID" },
    );
    await assertSame(remote, testFleet);
  });

  it("stops when its server stops, and continues with the next server", async (context) => {
    const server = await startTestServer();
    context.after(() => server.remove());
    await importAll(server.handle.operations, testFleet);
    const remote = connectOperations({ socketPath: server.handle.socketPath }, 5);
    const cut = remote.applyStorage({ fleet: testFleet, ...options }).catch((error: unknown) => {
      assert.match(String((error as { code?: string }).code), /SERVER_UNREACHABLE|INTERRUPTED/);
    });
    await server.restart();
    await cut;
    const after = connectOperations({ socketPath: server.handle.socketPath }, 5);
    const { report } = await after.applyStorage({ fleet: testFleet, ...options });
    assert.deepEqual([report.stopped, report.left, report.failed], [null, 0, []]);
    await assertSame(after, testFleet);
  });
});
