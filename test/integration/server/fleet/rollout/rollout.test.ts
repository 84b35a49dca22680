/**
 * Rollouts to real agents in this process: devices fetch a version, measure it beside what they run on their own
 * samples with the real engine, and switch, or keep what they have.
 */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { testLine as line } from "../../../../helpers/agent-test-environment.js";
import { testFleet as fleet } from "../../../../helpers/test-server.js";
import { startFleet, takeSamples, train, verdicts, type Device } from "./rollout-fleet.js";

describe("a rollout", () => {
  it("stops at the device on whose samples the version is worse, and is undone", async (t) => {
    const vehicles = await startFleet(t, ["v1", "v2", "v3", "v4"]);
    const { operations, devices } = vehicles;
    const [v1, v2, v3, v4] = devices as [Device, Device, Device, Device];
    for (const device of devices) await takeSamples(device, { isReversed: device === v4 });
    const good = await train(vehicles, v1);
    const own = await train(vehicles, v4);
    const base = await v2.runs();

    const body = {
      fleet,
      name: "spring",
      model: good,
      line,
      select: "all",
      policy: { waves: ["2", "rest"] },
    };
    const plan = await operations.planRollout(body);
    assert.deepEqual(
      plan.waves.map(({ length }) => length),
      [2, 1],
    );
    assert.deepEqual(plan.excluded, [
      { device: "v1", because: "runs the version, or its own fine-tune of it" },
    ]);

    await operations.createRollout({ ...body, start: true });
    const paused = await vehicles.until("spring", ({ phase }) => phase === "paused");
    assert.match(paused.because, /1 of the \d in wave \d of spring failed \(v4 worse: on \d+ samples/u);
    assert.equal(verdicts(paused)["v4"], "worse");
    assert.equal(await v4.runs(), own);
    await operations.setRollout({ fleet, rollout: "spring", phase: "running", because: "v4 is known" });
    const done = await vehicles.until(
      "spring",
      ({ phase, devices: counts }) => phase === "done" && counts.switched === 2,
    );
    assert.deepEqual(
      verdicts(done),
      Object.fromEntries(done.members.map(({ device }) => [device, device === "v4" ? "worse" : "passed"])),
    );
    assert.deepEqual([await v2.runs(), await v3.runs(), await v4.runs()], [good, good, own]);
    assert.ok(done.members.every(({ compared }) => (compared?.samples ?? 0) > 10));
    assert.ok(done.members.every(({ trial }) => (trial?.slowdown ?? 0) > 0 && (trial?.change ?? 0) > 0));

    // What was sent is what was planned by what each device has: v4 has a model of its own.
    const planned = new Map(plan.transfers?.map(({ device, bytes }) => [device, bytes]));
    const report = await operations.rolloutReport({ fleet, rollout: "spring" });
    assert.equal(report.compared, 3);
    assert.deepEqual(
      new Map(report.devices.map(({ device, actual }) => [device, actual?.bytes])),
      new Map(report.devices.map(({ device }) => [device, planned.get(device)])),
    );
    assert.ok(report.actualBytes > 0 && report.bytesError === 0, JSON.stringify(report));

    // What devices return to cannot be retired meanwhile.
    await assert.rejects(operations.retire({ fleet, model: base, because: "old" }), { code: "MODEL_IN_USE" });
    const before = await operations.undoRollout({ fleet, rollout: "spring", dryRun: true });
    assert.deepEqual(before.map(({ device, to }) => [device, to]).sort(), [
      ["v2", "base:1"],
      ["v3", "base:1"],
    ]);
    await operations.undoRollout({ fleet, rollout: "spring", because: "on second thoughts" });
    for (const device of [v2, v3])
      await device.log.until("activated", 2, (fields) => fields["versionId"] === base);
    assert.deepEqual(
      [await v1.runs(), await v2.runs(), await v3.runs(), await v4.runs()],
      [good, base, base, own],
    );
    assert.deepEqual(await operations.undoRollout({ fleet, rollout: "spring", dryRun: true }), []);
    const undone = await operations.rollout({ fleet, rollout: "spring" });
    assert.deepEqual(
      [undone.devices.switched, undone.devices.replaced, undone.devices.missed],
      [2, 2, undefined],
    );
    // A name that is taken is said to be, whatever else is in the way.
    const again = { fleet, name: "spring", model: good, line: "cam", select: "all", start: true };
    await assert.rejects(operations.createRollout(again), { code: "NOT_ALLOWED" });
  });
});
