/** A server whose memory gets full says so before, with the date, and refuses new models in time. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { MemoryWatch } from "../../../../../server/operations/configuration/memory-watch.js";
import { requireMemory } from "../../../../../server/services/context/memory-room.js";
import { sharedRoomCheck } from "../../../../../server/services/context/room-for-models.js";
import { manualClock, seededRandom } from "../../../../helpers/manual-clock.js";
import { memoryFiles } from "../../../../helpers/files/memory-files.js";

const startMs = Date.UTC(2027, 0, 1);
const dayMs = 86_400_000;
const reading = { heapBytes: 0, heapLimitBytes: 1000e6, outsideBytes: 0, machineBytes: 8000e6 };

test("a heap that grows by 50 MB a day is full when it says", async () => {
  const clock = manualClock(startMs);
  let now = { ...reading, heapBytes: 100e6 };
  const logged: string[] = [];
  const note = (event: string, fields?: { readonly text?: unknown }): void => {
    logged.push(`${event}: ${String(fields?.text)}`);
  };
  const watch = new MemoryWatch({ clock, log: { info: note, warn: note }, read: () => now });
  assert.equal(watch.fullAtMs, undefined, "no rate yet");
  const told: number[] = [];
  for (let day = 1; day <= 16; day++) {
    for (let hour = 0; hour < 24; hour++) {
      now = { ...now, heapBytes: now.heapBytes + 50e6 / 24 };
      clock.advance(dayMs / 24);
    }
    told.push(watch.fullAtMs ?? 0);
  }
  // 850 MB are reached after 15 days; every day has said so.
  for (const fullMs of told.slice(0, 14)) assert.ok(Math.abs(fullMs - (startMs + 15 * dayMs)) < dayMs);
  assert.deepEqual(
    logged.map((line) => line.replace(/:.*/, "")),
    ["memory-nearly-full", "memory-full"],
  );
  assert.match(
    logged[0] as string,
    /700 MB of 1000 MB.*from 2027-01-1[56] on.*storage gc.*--max-old-space-size/s,
  );
  assert.equal(watch.problem?.code, "MEMORY_FULL");
  assert.throws(
    () => {
      requireMemory(() => now);
    },
    { code: "MEMORY_FULL" },
  );
  const files = memoryFiles();
  await files.makeFolder("/home");
  const ports = { files, clock, random: seededRandom(1), memory: () => now };
  const check = sharedRoomCheck({ path: "/home", ports });
  assert.equal(await check(), "memory");
  // A collection of the store freed some.
  now = { ...now, heapBytes: 300e6 };
  clock.advance(60_000);
  assert.equal(await check(), undefined);
  assert.match(logged.at(-1) as string, /^memory-free/);
  watch.close();
});

test("memory outside of the heap counts against the machine's", () => {
  const now = { ...reading, heapBytes: 500e6, outsideBytes: 6500e6 };
  const problem = new MemoryWatch({
    clock: manualClock(startMs),
    log: { info: () => undefined, warn: () => undefined },
    read: () => now,
  }).problem;
  assert.equal(problem?.code, "MEMORY_FULL");
  assert.match(problem.message, /The server's memory has 7000 MB of 8000 MB/);
});
