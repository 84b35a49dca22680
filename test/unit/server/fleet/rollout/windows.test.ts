/** The times of the week in which a rollout asks devices. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import fc from "fast-check";
import { isOpenAt, parseWindow, whyClosed } from "../../../../../server/fleet/rollout/windows.js";

const at = (text: string): number => Date.parse(text);

it("why a device is not asked now is told in its own time, and nothing where a window is open there", () => {
  const windows = ["08:00-09:00", "22:00-05:00"];
  const now = at("2026-07-08T06:30:00Z");
  const paris = { "time-zone": "Europe/Paris" };
  assert.equal(whyClosed(windows, now, paris), undefined, "08:30 in summer");
  assert.equal(whyClosed(undefined, now, paris), undefined);
  assert.equal(whyClosed([], now, undefined), undefined);
  assert.equal(
    whyClosed(windows, at("2026-07-08T10:30:00Z"), paris),
    "it is wed 12:30 (Europe/Paris) there, outside of its window 08:00-09:00, 22:00-05:00",
  );
  assert.match(whyClosed(windows, now, undefined) ?? "", /^it is wed 06:30 \(UTC, /u);
});

describe("the windows of a rollout", () => {
  it("pass midnight, and belong to the day on which they begin", () => {
    const nights = ["mon-fri 22:00-05:00"];
    // A Friday, and the days after it.
    assert.equal(isOpenAt(nights, at("2026-07-03T21:59:59Z"), 0), false);
    assert.equal(isOpenAt(nights, at("2026-07-03T22:00:00Z"), 0), true);
    assert.equal(isOpenAt(nights, at("2026-07-04T04:59:00Z"), 0), true);
    assert.equal(isOpenAt(nights, at("2026-07-04T05:00:00Z"), 0), false);
    assert.equal(isOpenAt(nights, at("2026-07-04T23:00:00Z"), 0), false);
    assert.equal(isOpenAt(nights, at("2026-07-06T04:00:00Z"), 0), false, "the night of Sunday");
  });

  it("are open from the minute in which they begin to that in which they end", () => {
    for (const [window, open, closed] of [
      ["08:15-17:45", ["08:15", "17:44"], ["08:14", "17:45"]],
      ["22:30-05:20", ["22:30", "23:59", "00:00", "05:19"], ["22:29", "05:20"]],
      ["00:00-24:00", ["00:00", "23:59"], []],
    ] as const) {
      const isOpen = (time: string) => isOpenAt([window], at(`2026-07-08T${time}:00Z`), 0);
      assert.ok(open.every(isOpen), window);
      assert.ok(!closed.some(isOpen), window);
    }
    // Of the week's last day into its first, and only of that day.
    const saturday = ["sat 22:00-02:00"];
    assert.equal(isOpenAt(saturday, at("2026-07-05T01:59:00Z"), 0), true);
    assert.equal(isOpenAt(saturday, at("2026-07-06T01:59:00Z"), 0), false);
    assert.equal(isOpenAt(["sun 22:00-02:00"], at("2026-07-05T01:59:00Z"), 0), false);
    assert.equal(isOpenAt(["sun 22:00-02:00"], at("2026-07-06T01:59:00Z"), 0), true);
  });

  it("name only days and times that there are", () => {
    for (const text of [
      "xxx 08:00-09:00",
      "xxx-fri 08:00-09:00",
      "mon-xxx 08:00-09:00",
      "mon-tue-wed 08:00-09:00",
      "08:60-09:00",
      "08:60-10:00",
      "08:00-24:01",
      "24:00-08:00",
      "08:00-08:00",
    ])
      assert.throws(() => parseWindow(text), { code: "ROLLOUT_INVALID" }, text);
    assert.equal(parseWindow("sun-mon 08:59-09:00").days.size, 2);
    assert.equal(parseWindow("fri-thu 08:00-09:00").days.size, 7);
  });

  it("may name single days, ranges over Sunday, and be several", () => {
    const windows = ["sat-mon 10:00-12:00", "Wed,Thu 08:00-24:00"];
    const open = (text: string): boolean => isOpenAt(windows, at(text), 0);
    assert.deepEqual(
      ["2026-07-04", "2026-07-05", "2026-07-06", "2026-07-07", "2026-07-08"].map((day) =>
        open(`${day}T11:00:00Z`),
      ),
      [true, true, true, false, true],
    );
    assert.equal(open("2026-07-09T23:59:00Z"), true);
    assert.equal(open("2026-07-10T00:00:00Z"), false);
  });

  it("are of the device's own time", () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 0, max: 4e12 }),
        fc.integer({ min: -14 * 60, max: 14 * 60 }),
        (atMs, offset) => {
          const windows = ["tue,fri 21:30-03:15"];
          assert.equal(isOpenAt(windows, atMs, offset), isOpenAt(windows, atMs + offset * 60_000, 0));
        },
      ),
    );
  });

  it("are always open without any, and cannot be empty or malformed", () => {
    assert.equal(isOpenAt(undefined, 0, 0), true);
    for (const text of [
      "10:00-10:00",
      "24:00-05:00",
      "25:00-26:00",
      "10:60-11:00",
      "mon",
      "xyz 10:00-11:00",
      "",
    ])
      assert.throws(() => parseWindow(text), { code: "ROLLOUT_INVALID" }, text);
  });
});
