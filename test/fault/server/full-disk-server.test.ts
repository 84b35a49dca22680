/**
 * A server on a disk without space for new models says so, refuses models from devices and over HTTP, and lets
 * both try again.
 */
import assert from "node:assert/strict";
import { join } from "node:path";
import { it } from "node:test";
import { readHttpToken } from "../../../server/interface/http/token.js";
import { noiseBytes } from "../../helpers/noise-bytes.js";
import { ScriptedDevice } from "../../helpers/scripted-device.js";
import { mountSmallDisk } from "../../helpers/small-disk.js";
import { startTestServer, testFleet } from "../../helpers/test-server.js";

it("refuses models with retry, and reports it in /healthz", async (context) => {
  // Smaller than the space that stays free for facts.
  const disk = await mountSmallDisk(32);
  if (typeof disk === "string") {
    context.skip(disk);
    return;
  }
  try {
    const server = await startTestServer({ home: join(disk.folder, "home") });
    try {
      const url = server.handle.httpUrl;
      const health = await fetch(`${url}/healthz`);
      const { status, problems } = (await health.json()) as { status: string; problems: { code: string }[] };
      assert.deepEqual(
        [health.status, status, problems.map(({ code }) => code)],
        [200, "degraded", ["DISK_FULL"]],
      );
      const refused = await fetch(`${url}/v1/fleets/${testFleet}/import?name=m`, {
        method: "POST",
        headers: {
          authorization: `Bearer ${await readHttpToken(server.home)}`,
          "content-type": "application/octet-stream",
        },
        body: Buffer.from(noiseBytes(1000, 1)),
      });
      assert.equal(refused.status, 507);
      assert.ok(Number(refused.headers.get("retry-after")) > 0);
      const device = await ScriptedDevice.connect(await server.enroll("car"));
      await device.birth();
      const saved = await device.save({ w: noiseBytes(1000, 2) }, { sequence: 1 });
      await device.announce(saved);
      const { code, versionId, retry, retryAfterMs } = await device.refusal();
      assert.deepEqual([code, versionId, retry], ["DISK_FULL", saved.versionId, true]);
      assert.ok(retryAfterMs > 0);
      await device.close();
    } finally {
      await server.remove();
    }
  } finally {
    await disk.release();
  }
});
