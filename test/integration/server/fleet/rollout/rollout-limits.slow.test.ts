/** Rollouts that are held back: by another one of the line, by the time of the day, by the power of a device. */
import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, it, type TestContext } from "node:test";
import { testLine as line } from "../../../../helpers/agent-test-environment.js";
import { testFleet as fleet } from "../../../../helpers/test-server.js";
import { startFleet, takeSamples, train, verdicts, type Device } from "./rollout-fleet.js";

/** v1 has trained a model that is good on both devices. */
async function twoVehicles(t: TestContext) {
  const vehicles = await startFleet(t, ["v1", "v2"]);
  const { operations, devices } = vehicles;
  const [v1, v2] = devices as [Device, Device];
  for (const device of devices) await takeSamples(device);
  return { vehicles, operations, v1, v2, good: await train(vehicles, v1) };
}

describe("a rollout that is held back", () => {
  it("of the highest priority goes first, within its limit of bytes, and the other leaves the device to it", async (t) => {
    const { vehicles, operations, v1, v2, good } = await twoVehicles(t);
    const better = await train(vehicles, v1);
    const rollout = (name: string, model: string) => ({ fleet, name, model, line, select: "name=v2" });
    await v2.agent.close();
    const low = { ...rollout("low", good), policy: { waves: ["rest"] } };
    await operations.createRollout({ ...low, start: true });
    await vehicles.until("low", ({ wave }) => wave === 1);

    const policy = { waves: ["rest"], priority: 1, maxBytesPerSecond: 1024 };
    const plan = await operations.planRollout({ ...rollout("high", better), policy });
    assert.deepEqual(plan.takes, [{ device: "v2", rollout: "low" }]);
    const bytes = plan.transfers?.[0]?.bytes ?? 0;
    // A busy machine may have sent more slowly so far than the limit allows.
    assert.ok((plan.transfers?.[0]?.ms ?? 0) >= Math.round(bytes / 1.024) && bytes > 0);
    await operations.createRollout({ ...rollout("high", better), policy, start: true });
    await vehicles.until("high", ({ wave }) => wave === 1);
    v2.agent = await vehicles.start(v2.home, v2.enrolment, v2.log);
    await vehicles.until("high", ({ phase }) => phase === "done");
    assert.equal(await v2.runs(), better);
    const { devices: sent } = await operations.rolloutReport({ fleet, rollout: "high" });
    assert.ok((sent[0]?.actual?.ms ?? 0) > 0);
    const left = await vehicles.until("low", ({ phase }) => phase === "done");
    assert.deepEqual(verdicts(left), { v2: "left" });
    assert.equal(await v2.runs(), better);
  });

  it("offers nothing to a device that connects while its window is closed", async (t) => {
    const { vehicles, operations, v2, good } = await twoVehicles(t);
    await v2.agent.close();
    const hour = (hours: number): string =>
      new Date(Date.now() + hours * 3_600_000).toISOString().slice(11, 16);
    const policy = { waves: ["rest"], windows: [`${hour(6)}-${hour(8)}`] };
    const body = { fleet, name: "night", model: good, line, select: "name=v2", policy };
    await operations.createRollout({ ...body, start: true });
    await vehicles.until("night", ({ wave }) => wave === 1);
    const welcomed = v2.log.next("welcomed");
    v2.agent = await vehicles.start(v2.home, v2.enrolment, v2.log);
    await welcomed;
    await vehicles.until("night", ({ members }) => /outside of its window/.test(members[0]?.because ?? ""));
    // What is offered with a welcome comes right after it.
    await operations.evaluateOnDevice({ fleet, device: "v2", line });
    assert.equal(
      v2.log.count("offered", ({ versionId }) => versionId === good),
      0,
    );
  });

  it("sends nothing to a device that runs on battery, until it does not any more", async (t) => {
    const { vehicles, operations, v2, good } = await twoVehicles(t);
    await v2.agent.close();
    const file = join(v2.home, "conditions.json");
    const conditions = { conditions: { file } };
    await writeFile(file, JSON.stringify({ power: "battery", link: "wifi" }));
    const welcomed = v2.log.next("welcomed");
    v2.agent = await vehicles.start(v2.home, v2.enrolment, v2.log, conditions);
    await welcomed;
    const policy = { waves: ["rest"], onlyOnPower: true, links: ["wifi"] };
    const body = { fleet, name: "spring", model: good, line, select: "name=v2", policy };
    const because = "it waits for external power: it runs on battery";
    const { deferring, gates } = await operations.planRollout(body);
    assert.deepEqual(deferring, [{ device: "v2", because }]);
    const live = "its software has not asked for trials on live inputs";
    assert.deepEqual(gates, [{ device: "v2", losses: "", outputs: "", live, measuredBy: "engine" }]);
    await operations.createRollout({ ...body, start: true });
    await vehicles.until("spring", ({ members }) => members[0]?.because === because);
    // Nor when it connects again.
    await v2.agent.close();
    const deferred = v2.log.next("rollout-deferred");
    v2.agent = await vehicles.start(v2.home, v2.enrolment, v2.log, conditions);
    await deferred;
    assert.equal(
      v2.log.count("offered", ({ versionId }) => versionId === good),
      0,
    );
    await writeFile(file, JSON.stringify({ power: "external", link: "wifi" }));
    await vehicles.until("spring", ({ phase }) => phase === "done");
    assert.equal(await v2.runs(), good);
  });
});
