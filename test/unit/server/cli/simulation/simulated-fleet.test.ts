// Simulated devices are kept out of every fleet that is not theirs alone.
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { ServerOperations } from "../../../../../server/interface/api/server-operations.js";
import {
  deviceNames,
  removeSimulated,
  requireSimulationFleet,
} from "../../../../../server/cli/simulation/simulated-fleet.js";
import { answersOf, saveTimes, spreadOf } from "../../../../../server/cli/simulation/simulation.js";
import { summaryText } from "../../../../../server/cli/simulation/simulation-text.js";
import { syntheticModel, updatedModel } from "../../../../../server/cli/simulation/synthetic-model.js";
import { isStemmaError } from "../../../../../shared/errors.js";
import { seededNumbers } from "../../../../../shared/random/seeded-numbers.js";

/** A server whose fleets have these devices; any other call would fail. */
function serverWith(fleets: Readonly<Record<string, readonly string[]>>): ServerOperations {
  return {
    health: () => Promise.resolve({ version: "0", fleets: Object.keys(fleets) }),
    devices: ({ fleet }: { fleet: string }) =>
      Promise.resolve((fleets[fleet] ?? []).map((device) => ({ device }))),
  } as unknown as ServerOperations;
}
const isRefused = (error: unknown): boolean => isStemmaError(error, "NOT_ALLOWED");

describe("the fleet of simulated devices", () => {
  it("is one whose name says so, with simulated devices alone", async () => {
    const server = serverWith({
      cars: ["sim-0001"],
      simons: ["sim-0001"],
      "sim-cars": ["sim-0001", "sim-0002"],
      sim: ["sim-0001", "van-7"],
    });
    assert.deepEqual(await requireSimulationFleet(server, "sim-cars"), ["sim-0001", "sim-0002"]);
    assert.deepEqual(await requireSimulationFleet(server, "sim-new"), []);
    for (const fleet of ["cars", "simons", "sim"])
      await assert.rejects(requireSimulationFleet(server, fleet), isRefused, fleet);
    await assert.rejects(removeSimulated(server, "cars", ["sim-0001"]), isRefused);
  });
});

describe("what is simulated", () => {
  it("has names of one length, answers by the share, and saves within the spread", () => {
    assert.deepEqual(deviceNames(2), ["sim-0001", "sim-0002"]);
    assert.equal(deviceNames(12_345).at(-1), "sim-12345");
    const worse = Array.from({ length: 100 }, (_, index) => answersOf(0.2)(index)).filter(
      ({ meanDifference }) => meanDifference > 0,
    );
    assert.equal(worse.length, 20);
    const times = saveTimes(["a", "b"], 3, 1000, seededNumbers(1));
    for (const atMs of times.values()) {
      assert.equal(atMs.length, 3);
      assert.deepEqual(
        atMs,
        [...atMs].sort((x, y) => x - y),
      );
      assert.ok(atMs.every((each) => each >= 0 && each <= 1000));
    }
  });

  it("has a model of about the size asked for, of which an update changes some tensors", () => {
    const model = syntheticModel(1_000_000, 1);
    const bytes = model.reduce((sum, tensor) => sum + tensor.bytes.length, 0);
    assert.ok(Math.abs(bytes - 1_000_000) < 10_000);
    const update = updatedModel(model, 0.25, 2);
    const changed = model.filter(
      (tensor, at) => !Buffer.from(tensor.bytes).equals((update[at] as typeof tensor).bytes),
    );
    assert.deepEqual(
      changed.map(({ name }) => name),
      ["layer-09", "layer-10", "output"],
    );
    assert.deepEqual(syntheticModel(1_000_000, 1), model);
  });
});

describe("the times from announcement to receipt", () => {
  it("are known by their middle and by what 99 in 100 do not exceed", () => {
    assert.equal(spreadOf([]), null);
    assert.deepEqual(spreadOf([7]), { median: 7, p99: 7 });
    const hundred = Array.from({ length: 100 }, (_, index) => 100 - index);
    assert.deepEqual(spreadOf(hundred), { median: 50, p99: 99 });
    assert.deepEqual(spreadOf([...hundred, 1000, 2000]), { median: 51, p99: 1000 });
  });

  it("are said in a line of a terminal of 80 columns, and where there are none, not at all", () => {
    const hour = 3_599_000;
    const text = (recordedAfterMs: ReturnType<typeof spreadOf>): string =>
      summaryText({
        ...{
          fleet: "sim",
          devices: 1,
          connected: 1,
          wasStopped: false,
          tookMs: 1,
          bytesUp: 1,
          bytesDown: 1,
          breaks: 0,
        },
        reports: { saved: 1, recorded: 1, stored: 1, released: 1, lost: 0, waiting: 0, recordedAfterMs },
        ...{ server: { peakBytes: 1 }, devicesBytes: 1, troubles: {}, examples: [], rollout: null },
      });
    assert.match(
      text({ median: 1200, p99: 4000 }),
      /^ +announced to recorded: half in 1.2 s, 99 % in 4.0 s$/m,
    );
    for (const line of text({ median: hour, p99: hour }).split("\n")) assert.ok(line.length <= 80, line);
    assert.doesNotMatch(text(null), /announced/);
  });
});
