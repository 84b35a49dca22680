/** A server finds jumps of its clock at the start and while it runs, and goes on if the clock returns. */
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import "../../../../helpers/property-seed.js";
import {
  judgeClock,
  maxAheadMs,
  maxApartMs,
  type ClockStart,
} from "../../../../../server/access/identity/clock-judgement.js";

const dayMs = 86_400_000;
const startMs = Date.UTC(2027, 0, 1);
const ms = fc.integer({ min: 0, max: 4000 * dayMs });
const small = fc.integer({ min: -maxApartMs, max: maxApartMs });

test("a clock that goes with the monotonic one is trusted, also after a pause of up to 30 days", () => {
  fc.assert(
    fc.property(fc.integer({ min: 0, max: maxAheadMs - maxApartMs }), ms, small, (offMs, elapsed, by) => {
      const start: ClockStart = { wallMs: startMs, monotonicMs: 5, knownMs: startMs - offMs };
      assert.equal(
        judgeClock(start, { wallMs: startMs + elapsed + by, monotonicMs: 5 + elapsed }),
        undefined,
      );
    }),
  );
});

test("a jump while it runs is found in both directions, and forgiven once the clock returns", () => {
  fc.assert(
    fc.property(ms, fc.integer({ min: maxApartMs + 1, max: 4000 * dayMs }), (elapsed, jump) => {
      const start: ClockStart = { wallMs: startMs, monotonicMs: 0, knownMs: startMs };
      const at = (by: number) => judgeClock(start, { wallMs: startMs + elapsed + by, monotonicMs: elapsed });
      assert.notEqual(at(jump), undefined);
      assert.equal(at(-jump)?.why, "apart");
      assert.equal(at(0), undefined);
    }),
  );
});

test("a start long past what is known is found, and a fresh home starts", () => {
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 4000 * dayMs }), ms, (more, elapsed) => {
      const wallMs = startMs + maxAheadMs + more;
      const now = { wallMs: wallMs + elapsed, monotonicMs: elapsed };
      const start = { wallMs, monotonicMs: 0 };
      assert.equal(judgeClock({ ...start, knownMs: startMs }, now)?.why, "ahead");
      assert.equal(judgeClock({ ...start, knownMs: undefined }, now), undefined);
      const right = { wallMs: startMs + elapsed, monotonicMs: elapsed };
      assert.equal(judgeClock({ ...start, knownMs: startMs }, right), undefined);
    }),
  );
});

test("a machine that starts at 1970 and is set later signs", () => {
  for (const knownMs of [undefined, startMs])
    assert.equal(
      judgeClock({ wallMs: 60_000, monotonicMs: 0, knownMs }, { wallMs: startMs, monotonicMs: 30_000 }),
      undefined,
    );
});
