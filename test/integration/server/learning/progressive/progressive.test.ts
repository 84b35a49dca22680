// `model eval --progressive` on a real store with the real engine, in process and through a server.
import assert from "node:assert/strict";
import { it } from "node:test";
import { connectOperations } from "../../../../../server/interface/http/client.js";
import { startTestServer, testFleet } from "../../../../helpers/test-server.js";

it("gives the same answers through a server as in process", async () => {
  const server = await startTestServer();
  try {
    const client = connectOperations({ socketPath: server.handle.socketPath }, 20);
    const fleet = testFleet;
    await client.addDataset({
      fleet,
      name: "shapes",
      kind: "images-generated",
      location: "",
      parameters: { count: 200 },
    });
    await client.train({
      fleet,
      recipe: "image-classify",
      data: "shapes",
      name: "pictures",
      seed: "3",
      parameters: { epochs: 1, filters: 2 },
    });
    const report = await client.evaluateProgressively({
      fleet,
      model: "pictures",
      data: "shapes",
      limit: 10,
      tops: [1],
      layout: "fixed",
    });
    assert.deepEqual(
      report.tops.map(({ top, equal, unanswerable }) => [top, equal, unanswerable]),
      [[1, true, 0]],
    );
    assert.equal(
      report.levels.reduce((sum, { tops: [first] }) => sum + first!.decided, 0),
      10,
    );
    const { dataShare, tops } = report.levels.find(({ level }) => level === 2)!;
    assert.ok(dataShare < 1 && tops[0]!.decided > 0, "some are certain from two bytes of each weight");
    await assert.rejects(
      client.evaluateProgressively({ fleet, model: "pictures", data: "shapes", limit: -1 }),
      { code: "USAGE" },
    );
  } finally {
    await server.remove();
  }
});
