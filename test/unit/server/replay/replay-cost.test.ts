/** How long a replay takes by its record, and that it ends at its limit whatever the record states. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { predictedMs, refuseTooLong, tooLong, withinTime } from "../../../../server/replay/replay-cost.js";
import type { OpenedProvenance } from "../../../../shared/provenance/openings.js";
import { manualClock } from "../../../helpers/manual-clock.js";

function openedOf(values: Readonly<Record<string, unknown>>): OpenedProvenance {
  const openings = Object.fromEntries(
    Object.entries(values).map(([name, value]) => [name, { salt: new Uint8Array(32), value }]),
  );
  return { provenance: {}, openings } as unknown as OpenedProvenance;
}

const parameters = { epochs: { value: 10, from: "call" }, batchSize: { value: 16, from: "default" } };
const opened = openedOf({ parameters, course: { epochs: 5 }, times: { endedAtMs: 1, workMs: 1000 } });

test("the time of a changed story grows with its epochs and its steps", () => {
  assert.equal(predictedMs(opened), 1000);
  assert.equal(predictedMs(opened, { epochs: 10 }), 2000, "of those that were trained, not of those allowed");
  assert.equal(predictedMs(opened, { batchSize: 4 }), 4000);
  assert.equal(predictedMs(opened, { batchSize: 64, learningRate: 1 }), 1000);
  assert.equal(predictedMs(openedOf({ parameters })), undefined, "redacted");
  for (const workMs of ["x", -1, NaN, Infinity])
    assert.equal(predictedMs(openedOf({ times: { workMs } })), undefined);
});

test("more than is allowed is refused with the prediction and the option that allows it", () => {
  refuseTooLong("m:1", 60 * 60_000);
  refuseTooLong("m:1", undefined);
  assert.throws(() => refuseTooLong("m:1", 61 * 60_000), {
    code: "REPLAY_TOO_LONG",
    message: /61 minutes, and 60 are allowed.*--max-minutes/,
  });
  assert.throws(() => refuseTooLong("m:1", 1e300, 10_080), { code: "REPLAY_TOO_LONG" });
  refuseTooLong("m:1", 61 * 60_000, 62);
});

/** Work that ends only with its signal. */
const endless = (signal: AbortSignal): Promise<never> =>
  new Promise((_, reject) => {
    signal.addEventListener("abort", () => reject(new Error("ended")));
  });

test("work ends at its limit, and for its caller; what ends before leaves no timer", async () => {
  const clock = manualClock();
  const limited = withinTime(clock, { maxMinutes: 2 }, endless);
  clock.advance(119_999);
  clock.advance(1);
  assert.equal(await limited, tooLong);
  const caller = new AbortController();
  const stopped = withinTime(clock, { signal: caller.signal }, endless);
  caller.abort();
  await assert.rejects(stopped, /ended/);
  let hasTimer = true;
  const after = { after: () => () => (hasTimer = false) };
  assert.equal(await withinTime(after as never, {}, () => Promise.resolve(7)), 7);
  assert.equal(hasTimer, false);
});
