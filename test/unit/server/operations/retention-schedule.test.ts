/** When a server applies rules, and which failures do not stop it. The test advances the clock. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { RetentionReport } from "../../../../server/interface/api/stores/storage-schemas.js";
import { startRetentionSchedule } from "../../../../server/operations/stores/retention-schedule.js";
import type { RetentionSetting } from "../../../../server/storage/repository/retention/fleet-retention.js";
import { StemmaError } from "../../../../shared/errors.js";
import type { Log } from "../../../../shared/ports.js";
import { manualClock } from "../../../helpers/manual-clock.js";

const hourMs = 3_600_000;
const policy = { scope: { of: "fleet" }, policy: { afterDays: 1, maxMinutes: 1 }, setAtMs: 1 } as const;
const setting: RetentionSetting = { scope: { of: "fleet" }, rule: "for ever", setAtMs: 1 };

function startSchedule(
  rulesOf: (fleet: string) => readonly RetentionSetting[],
  applied: (fleet: string) => Promise<RetentionReport>,
  dropped: readonly string[] = [],
) {
  const clock = manualClock();
  const calls: string[] = [];
  const errors: string[] = [];
  const log: Log = {
    debug: () => undefined,
    info: () => undefined,
    warn: () => undefined,
    error: (event, fields) => {
      errors.push(`${event} ${String(fields?.["fleet"])} ${String(fields?.["code"])}`);
    },
    child: () => log,
  };
  const schedule = startRetentionSchedule({
    clock,
    log,
    fleets: () => Promise.resolve(["a", "b", "c"]),
    operations: {
      retention: ({ fleet }) => Promise.resolve(rulesOf(fleet)),
      applyRetention: ({ fleet }) => {
        calls.push(`${fleet} at ${clock.monotonic() / hourMs} h`);
        return applied(fleet);
      },
      dropPolicies: ({ fleet }) => Promise.resolve(dropped.includes(fleet) ? [policy] : []),
      applyDropPolicies: ({ fleet }) => {
        calls.push(`drops of ${fleet}`);
        const sums = { keptCount: 0, tensorBytes: 0, freedBytes: 0, keptBytes: 0 };
        return Promise.resolve({ dropped: [], kept: [], ...sums });
      },
    },
  });
  return { clock, calls, errors, schedule };
}

test("an hour after the start and then once a day, for fleets that have rules", async () => {
  const { clock, calls, schedule } = startSchedule(
    (fleet) => (fleet === "b" ? [] : [setting]),
    () => Promise.resolve({ nowMs: 0, retired: [], kept: 0 }),
  );
  clock.advance(hourMs - 1);
  await schedule.settled();
  assert.deepEqual(calls, []);
  clock.advance(1);
  await schedule.settled();
  assert.deepEqual(calls, ["a at 1 h", "c at 1 h"]);
  clock.advance(24 * hourMs);
  await schedule.settled();
  assert.deepEqual(calls.slice(2), ["a at 25 h", "c at 25 h"]);
  await schedule.close();
  clock.advance(100 * hourMs);
  await schedule.settled();
  assert.equal(calls.length, 4);
});

test("a fleet that fails is logged, the others continue, and all are tried again the next day", async () => {
  const { clock, calls, errors, schedule } = startSchedule(
    () => [setting],
    (fleet) =>
      fleet === "a"
        ? Promise.reject(new StemmaError("RETENTION_RULE_INVALID", "a newer rule"))
        : Promise.resolve({ nowMs: 0, retired: [], kept: 0 }),
  );
  clock.advance(hourMs);
  await schedule.settled();
  clock.advance(24 * hourMs);
  await schedule.settled();
  assert.deepEqual(
    calls.map((call) => call.slice(0, 1)),
    ["a", "b", "c", "a", "b", "c"],
  );
  assert.deepEqual(errors, [
    "retention-failed a RETENTION_RULE_INVALID",
    "retention-failed a RETENTION_RULE_INVALID",
  ]);
  await schedule.close();
});

test("closing waits for the current fleet and starts no other", async () => {
  let finish: (report: RetentionReport) => void = () => undefined;
  const { clock, calls, schedule } = startSchedule(
    () => [setting],
    () =>
      new Promise((resolve) => {
        finish = resolve;
      }),
  );
  clock.advance(hourMs);
  while (calls.length === 0) await Promise.resolve();
  let closed = false;
  const closing = schedule.close().then(() => {
    closed = true;
  });
  await Promise.resolve();
  assert.equal(closed, false);
  finish({ nowMs: 0, retired: [], kept: 0 });
  await closing;
  assert.deepEqual(calls, ["a at 1 h"]);
});

test("policies that drop tensors are applied after the rules, also where those fail or there are none", async () => {
  const { clock, calls, schedule } = startSchedule(
    (fleet) => (fleet === "b" ? [] : [setting]),
    () => Promise.reject(new StemmaError("RETENTION_RULE_INVALID", "a newer rule")),
    ["a", "b"],
  );
  clock.advance(hourMs);
  await schedule.settled();
  assert.deepEqual(calls, ["a at 1 h", "drops of a", "drops of b", "c at 1 h"]);
  await schedule.close();
});
