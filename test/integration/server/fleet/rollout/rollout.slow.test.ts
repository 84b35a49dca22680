/** Rollouts that go on after the server was gone, meet silent devices, or undo themselves. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { testLine as line } from "../../../../helpers/agent-test-environment.js";
import { pollUntil } from "../../../../helpers/poll-until.js";
import { testFleet as fleet } from "../../../../helpers/test-server.js";
import { startFleet, takeSamples, train, verdicts, type Device } from "./rollout-fleet.js";

describe("a rollout", () => {
  it("goes on where it was after the server and a device were gone", async (t) => {
    const vehicles = await startFleet(t, ["v1", "v2", "v3"]);
    const { devices, server } = vehicles;
    const [v1, v2, v3] = devices as [Device, Device, Device];
    for (const device of devices) await takeSamples(device);
    const good = await train(vehicles, v1);
    await v3.agent.close();
    await vehicles.operations.createRollout({
      fleet,
      name: "spring",
      model: good,
      line,
      select: "not name=v1",
      policy: { waves: ["rest"] },
      start: true,
    });
    await vehicles.until("spring", ({ devices: counts }) => counts.switched === 1);
    assert.equal(await v2.runs(), good);
    const port = Number(new URL(server.handle.mqttUrl).port);
    await server.restart({ mqttPort: port });
    assert.equal((await vehicles.operations.rollout({ fleet, rollout: "spring" })).phase, "running");
    v3.agent = await vehicles.start(v3.home, v3.enrolment, v3.log);
    const done = await vehicles.until(
      "spring",
      ({ phase, devices: counts }) => phase === "done" && counts.switched === 2,
    );
    assert.deepEqual(verdicts(done), { v2: "passed", v3: "passed" });
    assert.equal(await v3.runs(), good);
  });

  it("gives the version to a device that was silent until it had ended", async (t) => {
    const vehicles = await startFleet(t, ["v1", "v2", "v3"]);
    const { operations, devices } = vehicles;
    const [v1, v2, v3] = devices as [Device, Device, Device];
    for (const device of devices) await takeSamples(device);
    const good = await train(vehicles, v1);
    const base = await v3.runs();
    await v3.agent.close();
    // Its outputs differ, as those of every version that learned something do.
    const gated = { fleet, name: "gated", model: good, line, select: "name=v2", start: true };
    await operations.createRollout({ ...gated, policy: { waves: ["rest"], maxChange: 0 } });
    const stopped = await vehicles.until("gated", ({ phase }) => phase === "paused");
    assert.match(stopped.because, /v2 failed: its outputs differ by \S+ from what it runs, more than 0/u);
    assert.equal(await v2.runs(), base);
    await operations.setRollout({ fleet, rollout: "gated", phase: "aborted", because: "seen" });
    const silent = (name: string, select: string, timeoutMinutes: number): Promise<unknown> =>
      operations.createRollout({
        fleet,
        name,
        model: good,
        line,
        select,
        policy: { waves: ["rest"], timeoutMinutes, minAnswered: 0 },
        start: true,
      });
    await silent("aborted", "name=v3", 0.05);
    await vehicles.until("aborted", ({ phase }) => phase === "done");
    await operations.setRollout({ fleet, rollout: "aborted", phase: "aborted", because: "a mistake" });
    // Time enough for v2, which answers, also on a busy machine.
    await silent("spring", "name=v2 or name=v3", 0.5);
    const done = await vehicles.until(
      "spring",
      ({ phase, devices: of }) => phase === "done" && of.switched === 1,
    );
    assert.deepEqual(verdicts(done), { v2: "passed", v3: null });
    await assert.rejects(operations.retire({ fleet, model: good, because: "old" }), {
      code: "MODEL_IN_USE",
    });

    v3.agent = await vehicles.start(v3.home, v3.enrolment, v3.log);
    const late = await vehicles.until("spring", ({ devices: of }) => of.switched === 2);
    assert.equal(late.phase, "done");
    assert.deepEqual([await v2.runs(), await v3.runs()], [good, good]);
    assert.deepEqual(verdicts(await operations.rollout({ fleet, rollout: "aborted" })), { v3: null });
    await operations.undoRollout({ fleet, rollout: "spring" });
    await v3.log.until("activated", 2, (fields) => fields["versionId"] === base);
  });

  it("does not run a staged version by itself, and undoes itself where the policy says so", async (t) => {
    const vehicles = await startFleet(t, ["v1", "v2"]);
    const { operations, devices } = vehicles;
    const [v1, v2] = devices as [Device, Device];
    await takeSamples(v1);
    await takeSamples(v2, { isReversed: true });
    const good = await train(vehicles, v1);
    const own = await train(vehicles, v2);
    await operations.createRollout({
      fleet,
      name: "spring",
      model: good,
      line,
      select: "name=v2",
      policy: { waves: ["rest"], onFailure: "undo" },
      start: true,
    });
    const undone = await vehicles.until("spring", ({ phase }) => phase === "undone");
    assert.deepEqual(verdicts(undone), { v2: "worse" });
    await v2.agent.close();
    const connected = v2.log.next("connected");
    v2.agent = await vehicles.start(v2.home, v2.enrolment, v2.log);
    await connected;
    const newest = await train(vehicles, v2);
    assert.notEqual(newest, own);
    assert.equal(await v2.runs(), newest);

    await pollUntil("the server knows what v2 runs", async () => {
      const { active } = await operations.device({ fleet, device: "v2" });
      return active[line]?.versionId === newest;
    });
    const rollback = { fleet, device: "v2", line };
    assert.equal((await operations.rollbackDevice({ ...rollback, dryRun: true })).versionId, own);
    await assert.rejects(operations.rollbackDevice({ ...rollback, to: good }), { code: "NOT_ALLOWED" });
    await operations.rollbackDevice(rollback);
    await v2.log.until("activated", 2, (fields) => fields["versionId"] === own);
    assert.equal(await v2.runs(), own);
    await operations.rollbackDevice({ ...rollback, to: "base:1" });
    await v2.log.until("activated", 2, { line, name: "base" });
  });
});
