// Events about a training that was started over HTTP: they carry the id of its job, and its end, also a failure.
import assert from "node:assert/strict";
import { it } from "node:test";
import { connectOperations } from "../../../../../server/interface/http/client.js";
import type { ServerEvent } from "../../../../../server/interface/api/event-schemas.js";
import { pollUntil } from "../../../../helpers/poll-until.js";
import { startTestServer, testFleet } from "../../../../helpers/test-server.js";

type TrainingEvent = Extract<ServerEvent, { event: "training" }>;

it("emits running, done and failed with the id of the job", async () => {
  const server = await startTestServer();
  const stop = new AbortController();
  try {
    const { operations, socketPath } = server.handle;
    const remote = connectOperations({ socketPath }, 20);
    const heard: TrainingEvent[] = [];
    const following = (async () => {
      for await (const event of operations.events(stop.signal))
        if (event.event === "training") heard.push(event);
    })().catch(() => undefined);
    const train = { fleet: testFleet, recipe: "battery-soh", name: "soh", parameters: { epochs: 1 } };
    await remote.addDataset({ fleet: testFleet, name: "cells", kind: "battery-simulated", location: "" });
    await remote.train({ ...train, data: "cells" });
    await assert.rejects(remote.train({ ...train, data: "nothing" }), { code: "DATASET_UNKNOWN" });
    const halt = new AbortController();
    const halted = remote.train(
      { ...train, data: "cells", parameters: { epochs: 500 } },
      {
        onProgress: () => {
          halt.abort();
        },
        signal: halt.signal,
      },
    );
    await assert.rejects(halted, { code: "TRAINING_STOPPED" });
    await pollUntil("three ends", () => heard.filter(({ state }) => state !== "running").length >= 3);
    stop.abort();
    await following;
    const ends = heard.filter(({ state }) => state !== "running");
    assert.deepEqual(
      ends.map(({ state }) => state),
      ["done", "failed", "failed"],
    );
    assert.equal(new Set(ends.map(({ job }) => job)).size, 3);
    for (const { job } of ends) assert.match(job, /^[0-9a-f]{8}-/);
    assert.equal(heard.find(({ state }) => state === "running")?.job, ends[0]?.job);
    await remote.close();
  } finally {
    stop.abort();
    await server.remove();
  }
});
