// A server whose clock jumped signs nothing until it returns, or until a person takes the clock as it is.
import assert from "node:assert/strict";
import { test } from "node:test";
import { ClockGuard, whyNotClock } from "../../../../../server/operations/configuration/clock-guard.js";
import { HoldableKey } from "../../../../../server/access/identity/server-key-hold.js";
import { generateKey } from "../../../../../shared/trust/keys.js";
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
  const signer = new HoldableKey(generateKey(ports.random));
  const home = { path: "/home", ports, signer };
  return ClockGuard.open({ home, newestFactMs, accept, log: silentLog() }).then((guard) => ({
    guard,
    clock,
    signer,
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
  assert.throws(() => first.signer.sign(Buffer.from("a head")), code);
  assert.deepEqual(
    first.guard.problems.map((problem) => problem.code),
    ["CLOCK_NOT_TRUSTED"],
  );
  first.clock.set(rightMs);
  first.guard.requireTrusted();
  first.signer.sign(Buffer.from("a head"));
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

test("a doubt outlives restarts, until the clock is set right or taken as it is", async () => {
  for (const errorMs of [2 * dayMs, -2 * dayMs]) {
    const home = memoryFiles();
    await home.makeFolder("/home");
    const first = await open(startMs, { files: home });
    let told = 0;
    first.guard.whenDoubted(() => told++);
    first.clock.set(startMs + errorMs);
    first.clock.advance(60_000);
    await settled();
    assert.equal(told, 1, "sessions are ended once");
    first.guard.close();
    const nextMs = first.clock.now() + 3_600_000;
    const second = await open(nextMs, { files: home });
    assert.equal(second.guard.doubt?.why, "earlier");
    assert.equal((await whyNotClock(home, "/home", nextMs))?.code, "CLOCK_NOT_TRUSTED");
    second.guard.close();
    // A third start, and there it is set right: from then on that time counts.
    const third = await open(nextMs + 60_000, { files: home });
    assert.equal(third.guard.doubt?.why, "earlier");
    third.clock.set(nextMs + 120_000 - errorMs);
    third.guard.requireTrusted();
    third.clock.advance(60_000);
    await settled();
    third.clock.set(third.clock.now() + dayMs);
    assert.equal(third.guard.doubt?.why, "apart");
    third.clock.set(third.clock.now() - dayMs);
    third.clock.advance(60_000);
    await settled();
    third.guard.close();
    (await open(third.clock.now() + 60_000, { files: home })).guard.requireTrusted();
    // Or a person takes it as it is, and that holds after the next start.
    const wrong = await open(startMs + errorMs, { files: home });
    if (wrong.guard.doubt === undefined) wrong.clock.set(wrong.clock.now() + 40 * dayMs);
    wrong.clock.advance(60_000);
    await settled();
    const acceptedMs = wrong.clock.now() + 60_000;
    wrong.guard.close();
    (await open(acceptedMs, { files: home, accept: true })).guard.requireTrusted();
    (await open(acceptedMs + dayMs, { files: home })).guard.requireTrusted();
  }
});

async function settled(): Promise<void> {
  for (let turn = 0; turn < 50; turn++) await Promise.resolve();
}

test("Many signatures ask once how long the machine has run, and its sleep is not taken for a jump of its clock", async () => {
  const fresh = memoryFiles();
  await fresh.makeFolder("/home");
  const clock = manualClock(startMs);
  let asked = 0;
  let sleptMs = 0;
  const sinceBootMs = (): number => {
    asked++;
    return clock.monotonic() + sleptMs;
  };
  const signer = new HoldableKey(generateKey(seededRandom(1)));
  const home = {
    path: "/home",
    ports: { files: fresh, clock, random: seededRandom(1), sinceBootMs },
    signer,
  };
  const newestFactMs = () => Promise.resolve(0);
  const guard = await ClockGuard.open({ home, newestFactMs, accept: false, log: silentLog() });
  const before = asked;
  for (let i = 0; i < 100; i++) signer.sign(Buffer.from("a head"));
  assert.ok(asked <= before + 1);
  sleptMs = 3 * dayMs;
  clock.set(startMs + sleptMs);
  signer.sign(Buffer.from("a head"));
  clock.set(startMs);
  assert.throws(() => signer.sign(Buffer.from("a head")), { code: "CLOCK_NOT_TRUSTED" });
  guard.close();
});
