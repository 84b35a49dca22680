/**
 * Holds, retention rules and retired versions give the same answers over every interface of a server; also
 * the events that they cause.
 */
import assert from "node:assert/strict";
import { Readable } from "node:stream";
import { test } from "node:test";
import { connectOperations } from "../../../../../server/interface/http/client.js";
import { readHttpToken } from "../../../../../server/interface/http/token.js";
import type { ServerEvent } from "../../../../../server/interface/api/event-schemas.js";
import type { ServerOperations } from "../../../../../server/interface/api/server-operations.js";
import { openNodeHome } from "../../../../../server/storage/repository/node-home.js";
import { openRepository } from "../../../../../server/storage/repository/open-repository.js";
import { safetensorsChunks } from "../../../../../shared/tensor/safetensors.js";
import { sourceOfTensor } from "../../../../../shared/tensor/tensor.js";
import { noiseBytes } from "../../../../helpers/noise-bytes.js";
import { startTestServer, testFleet } from "../../../../helpers/test-server.js";

async function importNoise(operations: ServerOperations, name: string, seed: number): Promise<void> {
  const bytes = noiseBytes(5_000, seed);
  const pieces: Uint8Array[] = [];
  for await (const chunk of safetensorsChunks([
    { name: "w", source: sourceOfTensor({ dtype: "U8", shape: [bytes.length], bytes }) },
  ]))
    pieces.push(Buffer.from(chunk));
  const file = Buffer.concat(pieces);
  await operations.import(
    {
      byteLength: file.length,
      chunks: Readable.from([file]),
    },
    { fleet: testFleet, name },
  );
}

test("rules, forecasts, their application and holds are the same over TCP, over the local socket and in process", async (context) => {
  const server = await startTestServer();
  context.after(() => server.remove());
  const remote = connectOperations({
    user: "ann@workshop",
    url: server.handle.httpUrl,
    token: (await readHttpToken(server.home)) ?? "",
  });
  const socket = connectOperations({ socketPath: server.handle.socketPath, user: "ann@workshop" });
  for (let seed = 0; seed < 5; seed++) await importNoise(remote, "soh", seed);
  const heard: ServerEvent[] = [];
  const listening = new AbortController();
  const following = (async () => {
    for await (const event of server.handle.operations.events(listening.signal))
      if (event.event === "retired" || event.event === "retention") heard.push(event);
  })();

  const held = await remote.hold({
    fleet: testFleet,
    model: "soh:2",
    held: true,
    because: "incident 7",
  });
  assert.deepEqual(
    [held.held, held.hold?.because, held.hold?.by],
    [true, "incident 7", "http-token, admin (http), as ann@workshop"],
  );
  for (const operations of [remote, socket, server.handle.operations]) {
    await assert.rejects(operations.hold({ fleet: testFleet, model: "soh:2", held: true, because: "mine" }), {
      code: "MODEL_HELD",
      message: /ann@workshop.*incident 7/,
    });
    for (const dryRun of [true, false])
      await assert.rejects(operations.retire({ fleet: testFleet, model: "soh:2", because: "x", dryRun }), {
        code: "MODEL_HELD",
        message: /ann@workshop.*incident 7/,
      });
    assert.deepEqual((await operations.model({ fleet: testFleet, model: "soh:2" })).hold, held.hold);
    await assert.rejects(
      operations.setRetention({ fleet: testFleet, scope: { of: "fleet" }, rule: "90 bananas" }),
      {
        code: "RETENTION_RULE_INVALID",
      },
    );
    await assert.rejects(
      operations.setRetention({ fleet: testFleet, scope: { of: "line", line: "x" }, rule: null }),
      {
        code: "NOT_FOUND",
      },
    );
  }
  assert.equal(
    (await remote.retire({ fleet: testFleet, model: "soh:1", because: "x", dryRun: true })).state ===
      "retired",
    false,
  );
  await assert.rejects(
    remote.setRetention({
      fleet: testFleet,
      scope: { of: "galaxy" } as unknown as { of: "fleet" },
      rule: "1 day",
    }),
    { code: "HTTP_REQUEST_INVALID" },
  );
  await assert.rejects(
    remote.setRetention({
      fleet: testFleet,
      scope: { of: "fleet", line: "x" } as unknown as { of: "fleet" },
      rule: "1 day",
    }),
    { code: "HTTP_REQUEST_INVALID" },
  );

  const tried = await socket.forecastRetention({
    fleet: testFleet,
    trying: { scope: { of: "name", name: "soh" }, rule: "nothing" },
    listKept: true,
  });
  assert.deepEqual(
    tried.retire.map(({ version }) => version),
    [1, 3, 4],
  );
  assert.deepEqual(
    tried.keep?.map(({ version, reason }) => [version, reason]),
    [
      [2, "held"],
      [5, "head"],
    ],
  );
  assert.deepEqual(await remote.retention({ fleet: testFleet }), []);
  const set = await socket.setRetention({
    fleet: testFleet,
    scope: { of: "name", name: "soh" },
    rule: "nothing",
  });
  assert.deepEqual(
    set.map(({ scope, rule, by }) => ({ scope, rule, by })),
    [
      {
        scope: { of: "name", name: "soh" },
        rule: "heads, holds and tags for ever, else nothing",
        by: "ann@workshop (socket)",
      },
    ],
  );
  assert.deepEqual(
    await remote.retention({ fleet: testFleet }),
    await server.handle.operations.retention({ fleet: testFleet }),
  );
  const forecast = await remote.forecastRetention({ fleet: testFleet });
  assert.equal(forecast.keep, undefined);
  const report = await remote.applyRetention({ fleet: testFleet, collect: true });
  assert.deepEqual(
    report.retired.map(({ version }) => version),
    [1, 3, 4],
  );
  // The server pins imported objects for a moment after a save; the forecast took that into account.
  assert.equal(report.freedBytes, forecast.freedBytes);

  await importNoise(remote, "cam", 9);
  for (const model of ["soh:1", "cam:1"])
    await server.handle.operations.retire({ fleet: testFleet, model, because: "by hand" });
  listening.abort();
  await following;
  // A version that was already retired causes no event.
  assert.deepEqual(
    heard.map((event) =>
      event.event === "retired"
        ? `retired ${event.name}:${event.version}`
        : event.event === "retention"
          ? `applied ${event.retired}/${event.kept}`
          : "",
    ),
    ["retired soh:1", "retired soh:3", "retired soh:4", "applied 3/2", "retired cam:1"],
  );

  for (const operations of [remote, socket]) {
    const shown = await operations.model({ fleet: testFleet, model: "soh:1" });
    assert.deepEqual(
      [shown.state, shown.leaves, shown.retired?.because],
      ["retired", [], "retention of the name soh: nothing in its rule keeps it"],
    );
    assert.ok((shown.retired?.atMs ?? 0) >= shown.recordedAtMs);
  }
  const released = await socket.hold({ fleet: testFleet, model: "soh:2", held: false, because: "closed" });
  assert.deepEqual([released.held, released.hold], [false, undefined]);
  await socket.hold({ fleet: testFleet, model: "soh:2", held: false, because: "closed twice" });
  // Counted in the journal itself, because confirmations of imports may be appended at any moment.
  await server.handle.close();
  const home = await openNodeHome(server.home);
  const repository = await openRepository(home, testFleet);
  const letGo: string[] = [];
  for await (const { fact } of repository.journal.entries())
    if (fact.type === "unheld") letGo.push(fact.because);
  await repository.close();
  await home.close();
  assert.deepEqual(letGo, ["closed"], "releasing what is not held writes no fact");
});
