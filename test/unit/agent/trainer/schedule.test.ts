/**
 * When a line trains: what is due and what prevents it. A request by a person overrides duty hours, but not
 * the disk limit.
 */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import fc from "fast-check";
import "../../../helpers/property-seed.js";
import {
  decideTraining,
  onDuty,
  pauseAfterFailuresMs,
  type ScheduleInput,
} from "../../../../agent/trainer/schedule.js";
import { testProfile } from "../../../helpers/agent-fixtures.js";

const hour = 3_600_000;
const diskVerdict = { allowed: true, remainingBytes: 1, reason: "" };
const base: ScheduleInput = {
  training: testProfile({ "training.everyHours": 24 }).training,
  schedule: {},
  nowMs: 100 * 24 * hour,
  utcOffsetMinutes: 0,
  lastTrainingMs: undefined,
  trainings: 0,
  newSamples: 0,
  hasBase: true,
  disk: diskVerdict,
  awaitsReceipt: false,
  awaitsActivation: false,
  pausesAfterFailure: false,
  isSwitchedOff: false,
  requested: false,
};
const why = (input: Partial<ScheduleInput>): string => decideTraining({ ...base, ...input }).because;

describe("the schedule", () => {
  it("trains by the clock, by samples, or when asked", () => {
    assert.equal(why({}), "clock");
    assert.equal(why({ lastTrainingMs: base.nowMs - 23 * hour }), "not-due");
    assert.equal(why({ lastTrainingMs: base.nowMs - 24 * hour }), "clock");
    assert.equal(
      why({
        lastTrainingMs: base.nowMs,
        training: testProfile({ "training.afterSamples": 10 }).training,
        newSamples: 10,
      }),
      "samples",
    );
    assert.equal(
      why({
        lastTrainingMs: base.nowMs,
        training: testProfile({ "training.afterSamples": 10 }).training,
        newSamples: 9,
      }),
      "not-due",
    );
    assert.equal(why({ lastTrainingMs: base.nowMs, requested: true }), "asked");
  });
  it("prefers a line's own schedule to the profile's, including null", () => {
    assert.equal(why({ schedule: { everySeconds: null } }), "not-due");
    assert.equal(why({ lastTrainingMs: base.nowMs - 2000, schedule: { everySeconds: 1 } }), "clock");
    assert.equal(
      why({ lastTrainingMs: base.nowMs, schedule: { everySeconds: null, afterSamples: 3 }, newSamples: 3 }),
      "samples",
    );
    assert.equal(why({ trainings: 2, schedule: { rounds: 2 } }), "rounds-done");
    assert.equal(why({ trainings: 2, schedule: { rounds: 2 }, requested: true }), "asked");
  });
  it("does not train while something required is missing", () => {
    assert.equal(why({ hasBase: false }), "no-base");
    assert.equal(why({ disk: { ...diskVerdict, allowed: false } }), "disk");
    assert.equal(why({ disk: { ...diskVerdict, allowed: false }, requested: true }), "disk");
    assert.equal(why({ awaitsReceipt: true }), "receipt");
    assert.equal(why({ awaitsReceipt: true, requested: true }), "asked");
    assert.equal(why({ awaitsActivation: true }), "activation");
    assert.equal(why({ awaitsActivation: true, requested: true }), "asked");
    assert.equal(why({ awaitsActivation: true, pausesAfterFailure: true }), "failed-before");
    assert.equal(why({ pausesAfterFailure: true }), "failed-before");
    assert.equal(why({ pausesAfterFailure: true, requested: true }), "asked");
  });
  it("pauses longer after every failure in a row, up to an hour", () => {
    assert.deepEqual([1, 2, 3, 9, 10, 1000].map(pauseAfterFailuresMs), [
      15_000,
      30_000,
      60_000,
      hour,
      hour,
      hour,
    ]);
  });
  it("keeps duty hours, also over midnight and in local time, except for a person's request", () => {
    const training = testProfile({
      "training.everyHours": 1,
      "training.dutyHours": { from: 22, to: 6 },
    }).training;
    const at = (hours: number, utcOffsetMinutes = 0): string =>
      why({ training, nowMs: base.nowMs + hours * hour, utcOffsetMinutes });
    assert.deepEqual(
      [at(21), at(22), at(23.9), at(5.9), at(6)],
      ["off-duty", "clock", "clock", "clock", "off-duty"],
    );
    assert.equal(at(20, 120), "clock");
    assert.equal(why({ training, nowMs: base.nowMs + 12 * hour, requested: true }), "asked");
  });
  it("still trains after the clock was set back", () => {
    assert.equal(why({ lastTrainingMs: base.nowMs + 1000 * hour }), "clock");
  });
  it("has every hour on duty in exactly one of two complementary windows", () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 0, max: 23 }),
        fc.integer({ min: 0, max: 23 }),
        fc.integer({ min: 0, max: 1e12 }),
        fc.integer({ min: -720, max: 840 }),
        (from, to, nowMs, offset) => {
          fc.pre(from !== to);
          assert.notEqual(onDuty({ from, to }, nowMs, offset), onDuty({ from: to, to: from }, nowMs, offset));
        },
      ),
    );
  });
});
