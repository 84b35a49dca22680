/**
 * Rollouts with a trial on live inputs: real agents, and as their software the example application in a process of its
 * own, which runs linear models without an architecture.
 */
import assert from "node:assert/strict";
import { join } from "node:path";
import { describe, it } from "node:test";
import { testLine as line } from "../../../../helpers/agent-test-environment.js";
import { testFleet as fleet } from "../../../../helpers/test-server.js";
import { startFleet, verdicts } from "./rollout-fleet.js";
import { importLinear, runSoftware, ask, rollout, installed, untilRemoved } from "./live-software.js";

describe("a rollout with a trial on live inputs", () => {
  it("stops where the device's software finds the version worse, also after a restart, and passes a good one", async (t) => {
    const vehicles = await startFleet(t, []);
    const { operations } = vehicles;
    const first = await importLinear(vehicles, 0.2);
    const v1 = await vehicles.add("v1", "lin");
    const [worse, better] = [await importLinear(vehicles, 0.9), await importLinear(vehicles, 0)];
    const { start: _, ...planned } = rollout("bad", worse);
    const silent = await operations.planRollout(planned);
    assert.match(silent.gates[0]?.live ?? "", /has not asked for trials on live inputs/u);
    assert.deepEqual(await ask(v1, { do: "trial" }), {
      line,
      trial: null,
      running: { versionId: first, folder: join(v1.home, "versions", first) },
      inputs: null,
    });
    assert.equal((await operations.planRollout(planned)).gates[0]?.live, "");

    await operations.createRollout(rollout("bad", worse));
    await v1.log.until("trial-began", 1, { versionId: worse });
    await runSoftware(v1, 40);
    // Nothing but what it compares has changed, and the agent goes on with it when it is started again.
    assert.equal(await v1.runs(), first);
    await v1.agent.close();
    v1.agent = await vehicles.start(v1.home, v1.enrolment, v1.log);
    const state = await ask(v1, { do: "trial" });
    assert.deepEqual(state["inputs"], { wanted: 60, compared: 40, waiting: 0 });
    assert.equal((state["trial"] as { folder: string }).folder, join(v1.home, "versions", worse));
    assert.ok(installed(v1, worse));
    await runSoftware(v1, 40);
    const stopped = await vehicles.until("bad", ({ phase }) => phase === "paused");
    assert.match(stopped.because, /v1 worse: on 60 live inputs losses differ by 0\.\d+/u);
    assert.equal(stopped.members[0]?.live?.inputs, 60);
    await v1.log.until("trial-ended", 1, { versionId: worse });
    assert.equal(await v1.runs(), first);
    await untilRemoved(v1, worse);

    await operations.setRollout({ fleet, rollout: "bad", phase: "aborted", because: "seen" });
    await operations.createRollout(rollout("good", better));
    await v1.log.until("trial-began", 1, { versionId: better });
    await runSoftware(v1, 60);
    const done = await vehicles.until("good", ({ phase }) => phase === "done");
    assert.deepEqual(verdicts(done), { v1: "passed" });
    assert.ok((done.members[0]?.live?.compared?.meanDifference ?? 0) < 0);
    assert.equal(await v1.runs(), better);
  });
});
