/** How long transfers are expected to take, and how far that was off. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import fc from "fast-check";
import { leastOf, planTransfers } from "../../../../../server/fleet/rollout/plan-transfers.js";
import {
  medianError,
  plannedTransfers,
  rateOf,
  spanOf,
} from "../../../../../server/fleet/rollout/transfer-times.js";

const delivery = (bytes: number, durationMs: number) => ({ bytes, durationMs });

describe("the planned time of a transfer", () => {
  it("follows from the newest rates of the device, else from those of its profile", () => {
    const slow = [delivery(900, 1), ...Array.from({ length: 5 }, () => delivery(100, 50))];
    const fleet = [
      { profile: "pi", deliveries: slow },
      { profile: "pi", deliveries: [delivery(100, 25)] },
      { profile: "van", deliveries: [] },
    ];
    const of = (device: string, profile: string, bytes: number, deliveries: typeof slow) => ({
      maxBytesPerSecond: null as number | null,
      device,
      profile,
      bytes,
      deliveries,
    });
    const planned = plannedTransfers(
      [
        of("own", "pi", 200, slow),
        of("new", "pi", 600, []),
        of("other", "van", 600, []),
        of("has all", "van", 0, []),
        { ...of("limited", "pi", 200, slow), maxBytesPerSecond: 1000 },
        { ...of("limited high", "pi", 200, slow), maxBytesPerSecond: 1e9 },
        { ...of("limited unknown", "van", 600, []), maxBytesPerSecond: 1000 },
      ],
      fleet,
    );
    assert.deepEqual(
      [...planned].map(([device, { bytes, ms }]) => [device, bytes, ms]),
      [
        ["own", 200, 100],
        ["new", 600, 200],
        ["other", 600, null],
        ["has all", 0, 0],
        ["limited", 200, 200],
        ["limited high", 200, 100],
        ["limited unknown", 600, 600],
      ],
    );
    assert.equal(rateOf([delivery(0, 10), delivery(10, 0)]), undefined);
  });

  it("is that of each device by what it has, its own rate and the limits of device, rollout and server", async () => {
    const devices = [
      { device: "fast", profile: "pi", settings: { desired: {} } },
      { device: "slow", profile: "pi", settings: { desired: { "fetch.bytesPerSecond": 100 } } },
      { device: "has it", profile: "van", settings: { desired: {} } },
    ];
    const planned = async (maxBytesPerSecond: number | null, sendBytesPerSecond: number | null) =>
      [
        ...(await planTransfers(
          {
            device: (name: string) => devices.find(({ device }) => device === name),
            devices: () => devices,
            deliveries: (name: string) => (name === "fast" ? [delivery(1000, 1000)] : []),
          } as unknown as Parameters<typeof planTransfers>[0],
          {
            sendBytesPerSecond,
            predict: (_, __, names) =>
              Promise.resolve(
                new Map(
                  names.map((name) => [
                    name,
                    { bytes: name === "has it" ? 0 : 1000, isEstimated: name === "slow", metered: false },
                  ]),
                ),
              ),
          },
          {
            summary: {} as Parameters<typeof planTransfers>[2]["summary"],
            line: "a",
            devices: devices.map(({ device }) => device),
            maxBytesPerSecond,
          },
        )),
      ].map(([device, { bytes, ms, isEstimated }]) => [device, bytes, ms, isEstimated]);
    assert.deepEqual(await planned(null, null), [
      ["fast", 1000, 1000, false],
      ["slow", 1000, 10_000, true],
      ["has it", 0, 0, false],
    ]);
    assert.deepEqual((await planned(500, null))[0], ["fast", 1000, 2000, false]);
    assert.deepEqual((await planned(500, 250))[0], ["fast", 1000, 4000, false]);
    assert.deepEqual((await planned(null, 50))[1], ["slow", 1000, 20_000, true]);
  });

  it("keeps the lowest of the limits that there are", () => {
    assert.equal(leastOf(null, 300, null, 200), 200);
    assert.equal(leastOf(0, null), 0);
    assert.equal(leastOf(null, null), null);
    assert.equal(leastOf(), null);
  });

  it("of several is at least that of the longest and of all together, and at most one more than these", () => {
    fc.assert(
      fc.property(
        fc.array(fc.integer({ min: 0, max: 1000 }), { maxLength: 40 }),
        fc.integer({ min: 1, max: 50 }),
        (times, atOnce) => {
          const span = spanOf(times, atOnce);
          const longest = Math.max(0, ...times);
          const shared = times.reduce((sum, time) => sum + time, 0) / atOnce;
          assert.ok(span >= Math.max(longest, shared) - 1e-6);
          assert.ok(span <= shared + longest + 1e-6);
        },
      ),
    );
  });

  it("is off by the median share", () => {
    const pair = (planned: number, actual: number) => ({ planned, actual });
    assert.equal(medianError([pair(90, 100), pair(100, 100), pair(200, 100)]), 0.1);
    assert.equal(medianError([pair(0, 0), pair(110, 100)])?.toFixed(3), "0.050");
    assert.equal(medianError([]), null);
    assert.equal(medianError([pair(5, 0)]), null);
  });
});
