/** The store: its state, plans, retention, collection and drops. */
import { testFleet as fleet } from "../../../../../helpers/test-server.js";
import type { Step } from "./step.js";

export const storageSteps: readonly Step[] = [
  { name: "knownDamage", ask: (at) => at.knownDamage({ fleet }) },
  { name: "stats", ask: async (at) => ({ ...(await at.stats({ fleet })), journalBytes: 0 }) },
  { name: "check", ask: (at) => at.check({ fleet }) },
  {
    name: "planStorage",
    ask: async (at) =>
      (await at.planStorage({ fleet, ratio: null, timeLimitMs: 100, readBytesPerSecond: 1e8 })).fleet,
  },
  {
    name: "applyStorage",
    ask: async (at) =>
      (
        await at.applyStorage({
          fleet,
          ratio: null,
          timeLimitMs: 100,
          readBytesPerSecond: 1e8,
          dryRun: true,
        })
      ).planned.fleet,
  },
  {
    name: "setRetention",
    ask: (at) => at.setRetention({ fleet, scope: { of: "name", name: "tiny" }, rule: "1 hour" }),
  },
  { name: "retention", ask: (at) => at.retention({ fleet }) },
  { name: "forecastRetention", ask: (at) => at.forecastRetention({ fleet, listKept: true }) },
  { name: "applyRetention", ask: (at) => at.applyRetention({ fleet, collect: true }) },
  {
    name: "leases",
    ask: async (at) => {
      const { lease } = await at.transfer({ fleet, model: "tiny:2", minutes: 5 });
      const listed = await at.leases({ fleet });
      await at.endLease({ fleet, lease: lease?.id ?? "" });
      return listed;
    },
  },
  {
    name: "leaseLine",
    shows: "a line that does a device's work",
    ask: (at) => at.leaseLine({ fleet, line: "brakes", leaseKey: "cd".repeat(16), holder: "a question" }),
    fails: "USAGE",
  },
  {
    name: "endLease",
    shows: "one that ended already",
    ask: (at) => at.endLease({ fleet, lease: "ab".repeat(16) }),
  },
  { name: "retire", ask: (at) => at.retire({ fleet, model: "small" }) },
  { name: "planCollection", ask: async (at) => (await at.planCollection({ fleet })).dead.length },
  {
    name: "collect",
    ask: async (at) => (await at.collect({ fleet, ...(await at.planCollection({ fleet })) })).freedBytes > 0,
  },
  {
    name: "setDropPolicy",
    ask: (at) =>
      at.setDropPolicy({
        fleet,
        scope: { of: "name", name: "tiny" },
        policy: { afterDays: 0, maxMinutes: 10 },
      }),
  },
  { name: "dropPolicies", ask: (at) => at.dropPolicies({ fleet }) },
  { name: "applyDropPolicies", ask: (at) => at.applyDropPolicies({ fleet }) },
  { name: "dropTensors", ask: (at) => at.dropTensors({ fleet, dryRun: true }) },
  {
    name: "dropTensors",
    shows: "an import, which no training gives again",
    ask: (at) => at.dropTensors({ fleet, models: ["tiny"] }),
  },
  {
    name: "keepTensors",
    shows: "one whose tensors are stored",
    ask: (at) => at.keepTensors({ fleet, model: "tiny" }),
  },
];
