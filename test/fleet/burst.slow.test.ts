// Twenty devices announce concurrently: everything arrives, no models are confused, and one window budget
// bounds the blocks in flight.
import assert from "node:assert/strict";
import { it } from "node:test";
import { noiseBytes } from "../helpers/noise-bytes.js";
import { ScriptedDevice } from "../helpers/scripted-device.js";
import { startTestServer, tensorBytes, testFleet } from "../helpers/test-server.js";

it("receives the models that twenty devices announce at the same moment, under a budget smaller than their windows", async () => {
  const server = await startTestServer({ limits: { windowBytes: 512 * 1024 } });
  try {
    const devices = await Promise.all(
      Array.from({ length: 20 }, async (_, index) => {
        const device = await ScriptedDevice.connect(await server.enroll(`car-${index}`, ["a", "b"]), {
          session: 1,
          blockBytes: 32 * 1024,
        });
        await device.birth();
        return device;
      }),
    );
    const saved = await Promise.all(
      devices.flatMap((device, index) =>
        ["a", "b"].map(async (line, lineIndex) => {
          const bytes = noiseBytes(200_000 + 4 * index, 1 + 2 * index + lineIndex);
          return { device, bytes, model: await device.save({ w: bytes }, { sequence: 1, line }) };
        }),
      ),
    );
    await Promise.all(saved.map(({ device, model }) => device.announce(model)));
    await Promise.all(saved.map(({ device, model }) => device.receipt("released", model.versionId)));
    for (const { model, bytes } of saved)
      assert.deepEqual(
        (await tensorBytes(server.handle.operations, model.versionId))["w"],
        Buffer.from(bytes),
      );
    assert.equal((await server.handle.operations.models({ fleet: testFleet })).length, 40);
    await Promise.all(devices.map((device) => device.close()));
  } finally {
    await server.remove();
  }
});
