/** When a server merges small packs, and what keeps it from doing so. The test advances the clock. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { startMergeSchedule } from "../../../../server/operations/stores/merge-schedule.js";
import { StemmaError } from "../../../../shared/errors.js";
import type { MergedPacks } from "../../../../shared/objects/pack-merging.js";
import type { Log } from "../../../../shared/ports.js";
import { manualClock } from "../../../helpers/manual-clock.js";

const minuteMs = 60_000;

function startSchedule(merge: (fleet: string, round: number) => Promise<MergedPacks | undefined>) {
  const clock = manualClock();
  const calls: string[] = [];
  let rounds = 0;
  const logged: string[] = [];
  const busy = new Set<string>();
  const note = (event: string, fields?: Readonly<Record<string, unknown>>): void => {
    logged.push(`${event} ${String(fields?.["fleet"])} ${String(fields?.["code"] ?? fields?.["packs"])}`);
  };
  const log: Log = { debug: note, info: note, warn: note, error: note, child: () => log };
  const schedule = startMergeSchedule({
    clock,
    log,
    isBusy: (fleet) => Promise.resolve(busy.has(fleet)),
    fleets: () =>
      ["a", "b"].map((fleet) => ({
        fleet,
        mergePacks: async ({ minPacks }) => {
          calls.push(`${fleet} from ${minPacks} packs`);
          return await merge(fleet, ++rounds);
        },
      })),
  });
  return {
    clock,
    calls,
    logged,
    busy,
    schedule,
    advance: async (ms: number) => {
      clock.advance(ms);
      await schedule.settled();
      await Promise.resolve();
    },
  };
}

test("a round a minute, and the next one after a pause of four times its duration while there is work", async () => {
  const { clock, calls, logged, schedule, advance } = startSchedule((fleet, round) => {
    if (fleet === "b" || round > 3) return Promise.resolve(undefined);
    clock.advance(500);
    return Promise.resolve({ packs: 16, bytes: 100 });
  });
  await advance(minuteMs - 1);
  assert.deepEqual(calls, []);
  await advance(1);
  assert.deepEqual(calls.splice(0), ["a from 16 packs", "b from 16 packs"]);
  await advance(1999);
  assert.deepEqual(calls, []);
  await advance(1);
  assert.equal(calls.length, 2);
  await advance(2000);
  assert.deepEqual(logged, ["packs-merged a 16", "packs-merged a 16"]);
  await schedule.close();
  await advance(100 * minuteMs);
  assert.equal(calls.length, 4);
});

test("transfers under way leave only a larger backlog to be merged", async () => {
  const { calls, busy, schedule, advance } = startSchedule(() => Promise.resolve(undefined));
  busy.add("b");
  await advance(minuteMs);
  assert.deepEqual(calls, ["a from 16 packs", "b from 64 packs"]);
  await schedule.close();
});

test("a failure is logged once an hour and does not stop the other fleets", async () => {
  const { calls, logged, schedule, advance } = startSchedule((fleet) =>
    fleet === "a"
      ? Promise.reject(new StemmaError("OBJECT_HASH_MISMATCH", "damaged"))
      : Promise.resolve(undefined),
  );
  for (let minute = 0; minute < 61; minute++) await advance(minuteMs);
  assert.equal(calls.filter((call) => call.startsWith("b")).length, 61);
  assert.deepEqual(logged, Array<string>(2).fill("packs-not-merged a OBJECT_HASH_MISMATCH"));
  await schedule.close();
});
