/** The parts of the link that need no broker: session counter, backoff, pacer, clock error. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import fc from "fast-check";
import "../../../helpers/property-seed.js";
import { ClockError, describeWrongClock } from "../../../../agent/session/clock-error.js";
import { jitteredBackoffMs, connectBackoff } from "../../../../agent/resources/backoff.js";
import { Pacer } from "../../../../agent/link/pacer.js";
import { SessionCounter } from "../../../../agent/link/session-counter.js";
import { isStemmaError } from "../../../../shared/errors.js";
import { failNth, faultyFiles } from "../../../helpers/files/faulty-files.js";
import { memoryFiles } from "../../../helpers/files/memory-files.js";
import { checkCrashStates } from "../../../helpers/crash-states.js";

const home = "/home";

describe("the session counter", () => {
  it("continues counting after restarts, and remembers the accepted session", async () => {
    const files = memoryFiles();
    await files.makeFolder(home);
    const first = await SessionCounter.open(files, home);
    assert.deepEqual([await first.next(), await first.next()], [1, 2]);
    await first.accept(2);
    const second = await SessionCounter.open(files, home);
    assert.equal(second.accepted, 2);
    assert.equal(await second.next(), 3);
  });
  it("returns no number that could be returned again after a crash", async () => {
    await checkCrashStates<number>({
      name: "session counter",
      async run(files, mark) {
        await files.makeFolder(home);
        await files.syncFolder("/");
        const counter = await SessionCounter.open(files, home);
        for (let at = 0; at < 6; at++) mark(await counter.next());
      },
      async check(files, marks) {
        if ((await files.stat(home)) === undefined) {
          assert.equal(marks.length, 0);
          return;
        }
        assert.ok((await (await SessionCounter.open(files, home)).next()) > Math.max(0, ...marks));
      },
      states: 200,
    });
  });
  it("notices every flipped bit of its file", async () => {
    const files = memoryFiles();
    await files.makeFolder(home);
    const counter = await SessionCounter.open(files, home);
    for (let count = 0; count < 37; count++) await counter.next();
    await counter.accept(33);
    const path = `${home}/session.json`;
    const bytes = await files.read(path);
    const put = async (content: Uint8Array): Promise<void> => {
      await files.remove(path);
      const file = await files.open(path, "create");
      await file.write(content, 0);
      await file.close();
    };
    for (let bit = 0; bit < 8 * (bytes.length - 1); bit++) {
      const flipped = Uint8Array.from(bytes);
      flipped[bit >> 3] = (flipped[bit >> 3] ?? 0) ^ (1 << (bit & 7));
      await put(flipped);
      await assert.rejects(SessionCounter.open(files, home), { code: "CONFIG_INVALID" }, `bit ${bit}`);
    }
    await put(new TextEncoder().encode('{"session": 40, "accepted": 0}'));
    assert.equal(await (await SessionCounter.open(files, home)).next(), 41, "as a person may write it");
  });

  it("refuses to guess when its file is damaged, and to continue when the disk fails", async () => {
    const files = memoryFiles();
    await files.makeFolder(home);
    const file = await files.open(`${home}/session.json`, "create");
    await file.write(new TextEncoder().encode('{"session": -1'), 0);
    await file.close();
    await assert.rejects(SessionCounter.open(files, home), (error) => isStemmaError(error, "CONFIG_INVALID"));
    const failing = memoryFiles();
    await failing.makeFolder(home);
    await assert.rejects(
      (
        await SessionCounter.open(
          faultyFiles(failing, failNth(0, { code: "EIO" }, { kinds: ["sync"] })),
          home,
        )
      ).next(),
      (error) => isStemmaError(error, "FILE_FAILED"),
    );
  });
});

describe("backoff", () => {
  it("doubles up to its cap, jittered between half and all", () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 1000 }), fc.integer({ min: 0, max: 255 }), (attempt, byte) => {
        const fullDelay = Math.min(
          connectBackoff.maxMs,
          connectBackoff.firstMs * 2 ** Math.min(attempt - 1, 30),
        );
        const wait = jitteredBackoffMs(connectBackoff, attempt, byte);
        assert.ok(wait >= fullDelay / 2 - 1 && wait <= fullDelay + 1);
      }),
    );
  });
});

describe("the pacer", () => {
  it("keeps the rate over any burst, and does not delay anything without a limit", () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1024, max: 1e6 }),
        fc.array(fc.integer({ min: 1, max: 300_000 }), { minLength: 1, maxLength: 60 }),
        (rate, sizes) => {
          const pacer = new Pacer(() => rate, 0);
          let now = 0;
          let sent = 0;
          for (const size of sizes) {
            now += pacer.book(size, now);
            sent += size;
          }
          // One second's worth is sent immediately; everything else is delayed.
          assert.ok(
            now >= ((sent - rate) * 1000) / rate - sizes.length,
            `${sent} bytes in ${now} ms at ${rate}`,
          );
        },
      ),
    );
    assert.equal(new Pacer(() => null, 0).book(1e12, 0), 0);
  });
});

describe("the clock's error", () => {
  it("is told to a person from five minutes up, with both times", () => {
    const error = new ClockError();
    assert.equal(describeWrongClock(error.aheadMs, 0), undefined);
    error.compare(Date.UTC(2026, 0, 1), 0, Date.UTC(2026, 0, 1, 0, 4), 0);
    assert.equal(describeWrongClock(error.aheadMs, 0), undefined);
    const hereMs = Date.UTC(1970, 0, 2);
    error.compare(Date.UTC(2026, 0, 1), 0, hereMs, 0);
    assert.match(
      describeWrongClock(error.aheadMs, hereMs) ?? "",
      /1970-01-02T00:00:00Z and its server's 2026-01-01T00:00:00Z.*set the clock/,
    );
  });

  it("is unknown before a comparison, then bounds offset, round trip and drift", () => {
    const error = new ClockError();
    assert.equal(error.errorMs(0, 0), null);
    // The device is 5000 ms ahead; requested at 100, answered at 300.
    error.compare(1_000_000, 100, 1_005_100, 300);
    const now = error.errorMs(1_005_100, 300) as number;
    assert.ok(now >= 5000 && now <= 5200, String(now));
    assert.ok((error.errorMs(1_005_100 + 3_600_000, 300 + 3_600_000) as number) >= now + 300);
  });

  it("is bounded whatever the clock is set to since, and however long the machine sleeps", () => {
    const times = fc.integer({ min: 0, max: Date.UTC(2200, 0, 1) });
    const step = fc.record({ passMs: fc.nat(1e9), sleepMs: fc.nat(1e10), setMs: fc.option(times) });
    fc.assert(
      fc.property(times, times, fc.nat(60_000), fc.array(step), (serverMs, deviceMs, tripMs, steps) => {
        const error = new ClockError();
        const clock = { trueMs: serverMs + tripMs / 2, wallMs: deviceMs, monotonicMs: tripMs };
        error.compare(serverMs, 0, clock.wallMs, clock.monotonicMs);
        for (const { passMs, sleepMs, setMs } of steps) {
          clock.trueMs += passMs + sleepMs;
          clock.wallMs = setMs ?? clock.wallMs + passMs + sleepMs;
          clock.monotonicMs += passMs;
        }
        const bound = error.errorMs(clock.wallMs, clock.monotonicMs) as number;
        const isSet = steps.some(({ setMs }) => setMs !== null);
        const hasSlept = steps.some(({ sleepMs }) => sleepMs > 0);
        // Set and asleep in one session: nothing that the device has tells one from the other.
        if (!(isSet && hasSlept)) assert.ok(Math.abs(clock.wallMs - clock.trueMs) <= bound);
      }),
    );
  });
});
