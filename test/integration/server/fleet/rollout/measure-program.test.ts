/**
 * Rollouts of models that the engine cannot run: devices measure them with a program of their own, the one that the
 * documentation prints, beside a trainer of their own.
 */
import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { it } from "node:test";
import { testLine as line } from "../../../../helpers/agent-test-environment.js";
import { testFleet as fleet } from "../../../../helpers/test-server.js";
import { openProgramFleet, rollOut, takeLinearSamples, untrained } from "./program-fleet.js";
import { train, verdicts } from "./rollout-fleet.js";

const python = "/usr/bin/python3";

it(
  "a line of a program's models is gated by the device's own program, rolled out, refused where worse, and undone",
  { skip: !existsSync(python) },
  async (t) => {
    const { vehicles, folder, measure } = await openProgramFleet(t);
    const { operations } = vehicles;
    const copy = `cp ${folder}/middle.safetensors model.safetensors; echo '{}' > metrics.json`;
    const trainer = { exec: ["/bin/sh", "-c", copy] };
    const v1 = await vehicles.add("v1", "old", { ...untrained, trainer, measure });
    const v2 = await vehicles.add("v2", "old", { ...untrained, measure });
    await takeLinearSamples(v1);
    await takeLinearSamples(v2, -1);
    const old = await v2.runs();
    const own = await train(vehicles, v1);

    const { plan, state } = await rollOut(vehicles, { name: "spring", model: "good", select: "name=v1" });
    assert.deepEqual(
      plan.gates.map(({ device, losses, measuredBy }) => [device, losses, measuredBy]),
      [["v1", "", "program"]],
    );
    assert.deepEqual([state.phase, verdicts(state)], ["done", { v1: "passed" }]);
    assert.match(state.members[0]?.because ?? "", /^on \d+ samples losses differ by -[0-9.]+ ±/u);
    const good = await v1.runs();

    const asked = { fleet, device: "v1", line, models: [good, own] };
    const measured = await operations.evaluateOnDevice(asked);
    assert.equal(measured.measuredBy, "program");
    const [better, worse] = measured.versions.map(({ metric }) => metric.value ?? NaN) as [number, number];
    assert.ok(better < 1e-6 && worse > 0.5);
    assert.equal(measured.paired?.samples, measured.samples.heldOut);

    const refused = (await rollOut(vehicles, { name: "summer", model: "good", select: "name=v2" })).state;
    assert.deepEqual([refused.phase, verdicts(refused)], ["paused", { v2: "worse" }]);
    assert.match(refused.because, /v2 worse: on \d+ samples losses differ by [0-9.]+ ±/u);
    assert.deepEqual([await v1.runs(), await v2.runs()], [good, old]);

    await operations.undoRollout({ fleet, rollout: "spring" });
    await v1.log.until("activated", 2, { versionId: own });
    assert.deepEqual([await v1.runs(), await v2.runs()], [own, old]);
  },
);
