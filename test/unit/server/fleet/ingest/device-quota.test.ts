// How many facts one device may cause: an allowance that refills, told once when it is used up.
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { DeviceQuota } from "../../../../../server/fleet/ingest/sessions/device-quota.js";
import { manualClock } from "../../../../helpers/manual-clock.js";

describe("the allowance of a device", () => {
  it("is used up at once, refills with time up to its size, and is each device's own", () => {
    const clock = manualClock();
    const exceeded: string[] = [];
    const quota = new DeviceQuota({
      perHour: 60,
      atOnce: 3,
      clock,
      onExceeded: (device, waitMs) => exceeded.push(`${device} ${waitMs}`),
    });
    const causeAsMany = (device: string, tries: number): number => {
      let caused = 0;
      for (let one = 0; one < tries; one++)
        if (quota.waitMs(device) === 0) {
          quota.charge(device);
          caused++;
        }
      return caused;
    };
    assert.equal(causeAsMany("a", 100), 3);
    assert.deepEqual(exceeded, ["a 60000"], "told once, with the time to wait");
    assert.equal(causeAsMany("b", 1), 1, "another device has its own");
    clock.advance(60_000);
    assert.equal(causeAsMany("a", 100), 1);
    assert.equal(exceeded.length, 1, "still the same time of too many reports");
    clock.advance(24 * 3_600_000);
    assert.equal(causeAsMany("a", 100), 3, "never more than its size");
    assert.equal(exceeded.length, 2);
  });

  it("is charged for facts that cannot be refused any more", () => {
    const clock = manualClock();
    const quota = new DeviceQuota({
      perHour: 60,
      atOnce: 1,
      clock,
      onExceeded: () => undefined,
    });
    for (let one = 0; one < 5; one++) quota.charge("a");
    assert.equal(quota.waitMs("a"), 5 * 60_000);
  });
});
