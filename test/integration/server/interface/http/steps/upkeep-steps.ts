/** Orders to devices, their settings, and how they leave the fleet. */
import assert from "node:assert/strict";
import type { CallOutput } from "../../../../../../server/interface/api/server-operations.js";
import { testFleet as fleet } from "../../../../../helpers/test-server.js";
import { car, type Step } from "./step.js";

/** A device without what has the time of a change. */
function withoutSettings({ settings: _, quarantined: __, ...device }: CallOutput<"device">): object {
  return device;
}

export const upkeepSteps: readonly Step[] = [
  {
    name: "trainOnDevice",
    ask: (at) => at.trainOnDevice({ ...car, line: "line" }),
    fails: "SERVER_UNREACHABLE",
  },
  {
    name: "evaluateOnDevice",
    ask: (at) => at.evaluateOnDevice({ ...car, line: "line" }),
    fails: "SERVER_UNREACHABLE",
  },
  {
    name: "command",
    ask: (at) => at.command({ ...car, name: "report", body: {} }),
    fails: "SERVER_UNREACHABLE",
  },
  {
    name: "setDevices",
    ask: async (at) =>
      (await at.setDevices({ ...car, settings: { training: "off" } })).map((each) => ({
        ...each,
        settings: { ...each.settings, desiredAtMs: 0 },
      })),
  },
  {
    name: "setDevices",
    shows: "what no server may change",
    ask: (at) => at.setDevices({ ...car, settings: { "lines.soh.recipe": "x" } }),
    fails: "SETTING_INVALID",
  },
  {
    name: "deviceEvents",
    ask: async (at) => {
      const { facts, next } = await at.deviceEvents({ ...car, limit: 4 });
      assert.equal(typeof next, "number");
      return { facts: facts.map(({ type }) => ({ type, position: 0, atMs: 0 })), next: 0 };
    },
  },
  { name: "deviceLogs", ask: (at) => at.deviceLogs(car), fails: "SERVER_UNREACHABLE" },
  {
    name: "removeDevice",
    shows: "one that is enrolled",
    ask: (at) => at.removeDevice(car),
    fails: "NOT_ALLOWED",
  },
  {
    name: "quarantineDevice",
    ask: async (at) =>
      withoutSettings(await at.quarantineDevice({ ...car, quarantined: true, because: "odd" })),
  },
  {
    name: "quarantineDevice",
    shows: "served again",
    ask: async (at) => withoutSettings(await at.quarantineDevice({ ...car, quarantined: false })),
  },
  { name: "asOf", ask: (at) => at.asOf({ fleet, at: 4e12 }) },
  { name: "revoke", ask: (at) => at.revoke({ ...car, because: "sold" }) },
  { name: "eraseDevices", shows: "what would go", ask: (at) => at.eraseDevices({ ...car, dryRun: true }) },
  {
    name: "eraseDevices",
    shows: "another number of devices",
    ask: (at) => at.eraseDevices({ fleet, select: "state=revoked", count: 7 }),
    fails: "USAGE",
  },
  { name: "eraseDevices", ask: (at) => at.eraseDevices({ ...car, because: "sold" }) },
  { name: "removeDevice", ask: (at) => at.removeDevice({ ...car, because: "sold" }) },
  { name: "device", shows: "a removed one", ask: (at) => at.device(car), fails: "DEVICE_UNKNOWN" },
];
