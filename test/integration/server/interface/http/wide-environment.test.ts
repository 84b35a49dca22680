/** A model whose device states a long environment, such as the order of many libraries, is recovered over HTTP. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { connectOperations } from "../../../../../server/interface/http/client.js";
import { readHttpToken } from "../../../../../server/interface/http/token.js";
import { noiseBytes } from "../../../../helpers/noise-bytes.js";
import { ScriptedDevice } from "../../../../helpers/scripted-device.js";
import { startTestServer, testFleet } from "../../../../helpers/test-server.js";

test("an environment is cut in the headers of a recovery, and its verdict is not", async (t) => {
  const server = await startTestServer();
  t.after(() => server.remove());
  const device = await ScriptedDevice.connect(await server.enroll("wide"));
  t.after(() => device.close());
  await device.birth();
  const wide = Object.fromEntries(
    [..."abcdefghijklmnopqrstuvw"].map((name) => [name.repeat(300), "ü".repeat(900)]),
  );
  const environment = { ...wide, backend: "external", loadOrder: "libtörch.so, ".repeat(600) };
  const saved = await device.save(
    { w: noiseBytes(4000, 1) },
    { sequence: 1, provenance: { environment } as never },
  );
  await device.announce(saved);
  await device.receipt("recorded", saved.versionId);
  const token = (await readHttpToken(server.home)) ?? "";
  const remote = connectOperations({ url: server.handle.httpUrl, token });
  const { expected, chunks } = await remote.recover({ fleet: testFleet, model: saved.versionId });
  let bytes = 0;
  for await (const piece of chunks) bytes += piece.length;
  assert.ok(bytes >= 4000);
  assert.equal(expected.environment.verdict, "compatible");
  const { differing } = expected.environment;
  assert.ok(differing.length > 0 && differing.every(({ recorded = "" }) => recorded.length <= 101));
});
