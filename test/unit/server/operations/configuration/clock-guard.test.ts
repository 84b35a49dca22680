// A server whose clock jumped signs nothing until it returns, or until a person takes the clock as it is.
import assert from "node:assert/strict";
import { test } from "node:test";
import { ClockGuard, whyNotClock } from "../../../../../server/operations/configuration/clock-guard.js";
import { silentLog } from "../../../../../shared/adapters/node-ports.js";
import { memoryFiles } from "../../../../helpers/files/memory-files.js";
import { manualClock, seededRandom } from "../../../../helpers/manual-clock.js";

const dayMs = 86_400_000;
const startMs = Date.UTC(2027, 0, 1);
const files = memoryFiles();
await files.makeFolder("/home");

function open(wallMs: number, given: { newestFactMs?: number; accept?: boolean; files?: typeof files } = {}) {
  const clock = manualClock(wallMs);
  const ports = { files: given.files ?? files, clock, random: seededRandom(1) };
  const newestFactMs = (): Promise<number> => Promise.resolve(given.newestFactMs ?? 0);
  const { accept = false } = given;
  const home = { path: "/home", ports };
  return ClockGuard.open({ home, newestFactMs, accept, log: silentLog() }).then((guard) => ({
    guard,
    clock,
  }));
}

test("a jump while the server runs, its return, a start after it, and --accept-clock", async () => {
  const code = { code: "CLOCK_NOT_TRUSTED" };
  const first = await open(startMs);
  first.guard.requireTrusted();
  first.clock.advance(dayMs);
  first.guard.requireTrusted();
  const rightMs = first.clock.now();
  first.clock.set(rightMs + 300 * dayMs);
  assert.throws(() => {
    first.guard.requireTrusted();
  }, code);
  assert.deepEqual(
    first.guard.problems.map((problem) => problem.code),
    ["CLOCK_NOT_TRUSTED"],
  );
  first.clock.set(rightMs);
  first.guard.requireTrusted();
  first.guard.close();
  // Facts that were recorded meanwhile by the wrong clock vouch for nothing.
  const newestFactMs = startMs + 301 * dayMs;
  const ahead = await open(startMs + 301 * dayMs, { newestFactMs });
  assert.throws(() => {
    ahead.guard.requireTrusted();
  }, code);
  // `doctor` says so, too.
  assert.equal((await whyNotClock(files, "/home", newestFactMs))?.code, "CLOCK_NOT_TRUSTED");
  assert.equal(await whyNotClock(files, "/home", rightMs), undefined);
  const accepted = await open(startMs + 301 * dayMs, { accept: true });
  accepted.guard.requireTrusted();
});

test("a fresh home starts; one that knows only old facts does not", async () => {
  const fresh = memoryFiles();
  await fresh.makeFolder("/home");
  const old = await open(startMs, { files: fresh, newestFactMs: startMs - 31 * dayMs });
  assert.ok(old.guard.doubt !== undefined);
  (await open(startMs, { files: fresh })).guard.requireTrusted();
});
