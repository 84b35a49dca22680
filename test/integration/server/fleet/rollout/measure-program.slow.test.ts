/**
 * Rollouts of models that the engine cannot run: devices measure them with a program of their own, the one that the
 * documentation prints, beside a trainer of their own. Where nothing measures, the policy decides; a program that fails
 * never lets a version pass.
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

it("a line that nothing measures does what --unmeasured says, and a failing program never passes", async (t) => {
  const { vehicles } = await openProgramFleet(t);
  const failing = { exec: ["/bin/sh", "-c", `echo '{"losses": NaN}' > measurement.json`] };
  const v1 = await vehicles.add("v1", "old", untrained);
  const v2 = await vehicles.add("v2", "old", { ...untrained, measure: failing });
  for (const device of [v1, v2]) await takeLinearSamples(device);
  const old = await v1.runs();
  const alone = { fleet, device: "v1", line };
  await assert.rejects(vehicles.operations.evaluateOnDevice(alone), { code: "MODEL_OPAQUE" });
  const failed = await rollOut(vehicles, { name: "first", model: "good", select: "name=v1" });
  assert.equal(failed.plan.gates[0]?.measuredBy, "nothing");
  assert.deepEqual(verdicts(failed.state), { v1: "failed" });
  assert.match(failed.state.because, /v1 failed: not measured: .*no program of the device/u);
  await vehicles.operations.setRollout({ fleet, rollout: "first", phase: "aborted" });

  const policy = { unmeasured: "switch", maxFailed: 1 };
  const { state } = await rollOut(vehicles, { name: "second", model: "good", select: "all", policy });
  assert.deepEqual(verdicts(state), { v1: "passed", v2: "failed" });
  const { versionId } = await vehicles.operations.model({ fleet, model: "good" });
  assert.deepEqual([await v1.runs(), await v2.runs()], [versionId, old]);
  assert.match(state.members.find(({ device }) => device === "v2")?.because ?? "", /^not measured: .*NaN/u);
  await vehicles.operations.undoRollout({ fleet, rollout: "second" });
  await v1.log.until("activated", 2, { versionId: old });
});

/** Tells one figure, and the model's first weight as its output for every sample. */
const predicting = `
const { readFileSync, writeFileSync } = require("node:fs");
const source = process.env.STEMMA_INPUT;
const job = JSON.parse(readFileSync(source + "/job.json"));
const model = readFileSync(source + "/" + job.model);
const { count } = job.samples.heldOut;
const outputs = Buffer.from(new Float32Array(count).fill(model.readFloatLE(model.length - 8)).buffer);
const header = Buffer.from(
  JSON.stringify({ outputs: { dtype: "F32", shape: [count, 1], data_offsets: [0, 4 * count] } }),
);
const length = Buffer.alloc(8);
length.writeBigUInt64LE(BigInt(header.length));
writeFileSync("predictions.safetensors", Buffer.concat([length, header, outputs]));
writeFileSync("measurement.json", '{"losses": 0.5}');
`;

it("one figure is compared with nothing, predictions are", async (t) => {
  const { vehicles } = await openProgramFleet(t);
  const measure = { exec: [process.execPath, "-e", predicting] };
  const v1 = await vehicles.add("v1", "old", { ...untrained, measure });
  await takeLinearSamples(v1);
  const bad = await rollOut(vehicles, { name: "first", model: "good", select: "all" });
  assert.match(bad.state.members[0]?.because ?? "", /does not tell sample by sample/u);
  await vehicles.operations.setRollout({ fleet, rollout: "first", phase: "aborted" });
  const policy = { maxChange: 1 };
  const { state } = await rollOut(vehicles, { name: "second", model: "good", select: "all", policy });
  assert.deepEqual(verdicts(state), { v1: "failed" });
  assert.match(state.members[0]?.because ?? "", /^its outputs differ by 2\.00 .*more than 1$/u);
});
