/** Rollouts that are held back: by another one of the line, by the power of a device, by its hooks. */
import assert from "node:assert/strict";
import { describe, it, type TestContext } from "node:test";
import { testLine as line } from "../../../../helpers/agent-test-environment.js";
import { testFleet as fleet } from "../../../../helpers/test-server.js";
import { startFleet, takeSamples, train, type Device } from "./rollout-fleet.js";

/** v1 has trained a model that is good on both devices. */
async function twoVehicles(t: TestContext) {
  const vehicles = await startFleet(t, ["v1", "v2"]);
  const { operations, devices } = vehicles;
  const [v1, v2] = devices as [Device, Device];
  for (const device of devices) await takeSamples(device);
  return { vehicles, operations, v1, v2, good: await train(vehicles, v1) };
}

describe("a rollout that is held back", () => {
  it("counts a device as failed whose hook refuses the version, and leaves it on what it ran", async (t) => {
    const { vehicles, operations, v2, good } = await twoVehicles(t);
    const base = await v2.runs();
    await v2.agent.close();
    const hooks = {
      afterSwitch: [{ exec: [process.execPath, "-e", "console.error('dark'); process.exit(1)"] }],
    };
    v2.agent = await vehicles.start(v2.home, v2.enrolment, v2.log, { hooks });
    const body = { fleet, name: "spring", model: good, line, select: "name=v2", start: true };
    await operations.createRollout({ ...body, policy: { waves: ["rest"] } });
    const stopped = await vehicles.until("spring", ({ phase }) => phase === "paused");
    assert.match(
      stopped.because,
      /v2 failed: .*hooks\.afterSwitch\.0 of agent\.json ended with status 1.*dark/u,
    );
    assert.equal(await v2.runs(), base);
    assert.equal((await operations.device({ fleet, device: "v2" })).active[line]?.versionId, base);
    // It is not tried again when the device connects again.
    await v2.agent.close();
    const welcomed = v2.log.next("welcomed");
    v2.agent = await vehicles.start(v2.home, v2.enrolment, v2.log, { hooks });
    await welcomed;
    assert.deepEqual(await operations.undoRollout({ fleet, rollout: "spring" }), []);
    assert.equal(await v2.runs(), base);
  });
});
