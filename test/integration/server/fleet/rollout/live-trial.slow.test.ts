/** Trials on live inputs with pipelines of their own, devices and servers that were gone. */
import assert from "node:assert/strict";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, it } from "node:test";
import { testFleet as fleet } from "../../../../helpers/test-server.js";
import { startFleet, verdicts } from "./rollout-fleet.js";
import { importLinear, runSoftware, ask, live, rollout, untilRemoved } from "./live-software.js";

describe("a rollout with a trial on live inputs", () => {
  it("makes the inputs of each version by its own pipeline", async (t) => {
    const vehicles = await startFleet(t, []);
    const { operations } = vehicles;
    const folder = await mkdtemp(join(tmpdir(), "stemma-tables-"));
    t.after(() => rm(folder, { recursive: true, force: true }));
    // Voltages of the second table have another mean and scale.
    const train = async (name: string, voltOf: (row: number) => number): Promise<string> => {
      const location = join(folder, `${name}.csv`);
      const rows = Array.from({ length: 80 }, (_, row) => `${voltOf(row)},${voltOf(row) / 100}`);
      await writeFile(location, `${["volt,charge", ...rows].join("\n")}\n`);
      const parameters = { task: "regression", targets: ["charge"], scaling: "standard" };
      await operations.addDataset({ fleet, name, kind: "csv", location, parameters });
      const request = { fleet, name: "lin", data: name, recipe: "linear-regression", seed: "1" };
      const { summary } = await operations.train({
        ...request,
        parameters: { epochs: 40, learningRate: 0.5 },
      });
      return summary.versionId;
    };
    const first = await train("narrow", (row) => 300 + (row % 8));
    const v1 = await vehicles.add("v1", "lin");
    const second = await train("wide", (row) => 50 + 4 * row);
    await operations.createRollout(rollout("tables", second));
    await v1.log.until("trial-began", 1, { versionId: second });
    await runSoftware(
      v1,
      Array.from({ length: 60 }, (_, row) => ({ row: { volt: 60 + 5 * row }, label: [0.6 + 0.05 * row] })),
    );
    const done = await vehicles.until("tables", ({ phase }) => phase === "done");
    const [member] = done.members;
    assert.equal(member?.live?.inputs, 60);
    assert.ok((member.live.compared?.meanDifference ?? 0) < 0, "it was trained on more of the range");
    assert.equal(await v1.runs(), second);
    const pipelineOf = (id: string) => readFile(join(v1.home, "versions", id, "pipeline.json"), "utf8");
    assert.notEqual(await pipelineOf(first), await pipelineOf(second));
  });

  it("ends with the rollout, also on a device that was not connected, and knows nothing of a silent one", async (t) => {
    const vehicles = await startFleet(t, []);
    const { operations } = vehicles;
    const first = await importLinear(vehicles, 0.2);
    const [v1, v2] = [await vehicles.add("v1", "lin"), await vehicles.add("v2", "lin")];
    const better = await importLinear(vehicles, 0);
    await operations.createRollout(rollout("spring", better));
    for (const { log } of [v1, v2]) await log.until("trial-began", 1, { versionId: better });
    await v2.agent.close();
    await operations.setRollout({ fleet, rollout: "spring", phase: "aborted", because: "no" });
    await v1.log.until("trial-ended", 1, { versionId: better });
    assert.equal((await ask(v1, { do: "trial" }))["trial"], null);
    v2.agent = await vehicles.start(v2.home, v2.enrolment, v2.log);
    await v2.log.until("trial-ended", 1, { versionId: better });
    for (const device of [v1, v2]) await untilRemoved(device, better);

    await operations.createRollout(rollout("summer", better, { live: { ...live, minutes: 0.01 } }));
    const paused = await vehicles.until("summer", ({ phase }) => phase === "paused");
    assert.match(paused.because, /only 0 of the 2 devices/u);
    assert.deepEqual(verdicts(paused), { v1: "unknown", v2: "unknown" });
    assert.match(paused.members[0]?.because ?? "", /0 of 60 live inputs in time/u);
    for (const device of [v1, v2]) assert.equal(await device.runs(), first);
  });

  it("goes on after the server was gone, and does not believe software that tells of other models", async (t) => {
    const vehicles = await startFleet(t, []);
    const { operations, server } = vehicles;
    const first = await importLinear(vehicles, 0.2);
    const v1 = await vehicles.add("v1", "lin");
    const better = await importLinear(vehicles, 0);
    await operations.createRollout(rollout("spring", better));
    await v1.log.until("trial-began", 1, { versionId: better });
    const observations = [{ losses: { running: 1, trial: 0 } }];
    const told = { do: "observe", trial: better, running: first, observations };
    await assert.rejects(ask(v1, { ...told, trial: first }), { code: "TRIAL_REFUSED" });
    await assert.rejects(ask(v1, { ...told, observations: [{ losses: { running: 1, trial: null } }] }), {
      code: "USAGE",
    });
    const port = Number(new URL(server.handle.mqttUrl).port);
    await server.restart({ mqttPort: port });
    await runSoftware(v1, 60);
    const done = await vehicles.until("spring", ({ phase }) => phase === "done");
    assert.deepEqual(verdicts(done), { v1: "passed" });
    assert.equal(await v1.runs(), better);
  });
});
