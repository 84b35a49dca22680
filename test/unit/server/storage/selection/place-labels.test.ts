/** A device's time: that of its zone, with its summer time, or of a fixed offset; anything else is refused or said. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import fc from "fast-check";
import { checkLabels } from "../../../../../server/storage/repository/state/device-labels.js";
import { localTimeText, placeOf, whyNoPlace } from "../../../../../server/storage/selection/place-labels.js";
import "../../../../helpers/property-seed.js";

const winter = Date.UTC(2026, 0, 15, 12);
const summer = Date.UTC(2026, 6, 15, 12);
const offset = (labels: Readonly<Record<string, string>>, atMs = winter): number =>
  placeOf(labels, atMs).offsetMinutes;

describe("the time of a device's place", () => {
  it("is that of its zone, with its summer time", () => {
    assert.deepEqual(
      [winter, summer].map((atMs) => offset({ "time-zone": "Europe/Paris" }, atMs)),
      [60, 120],
    );
    assert.deepEqual(
      [winter, summer].map((atMs) => offset({ "time-zone": "Australia/Adelaide" }, atMs)),
      [630, 570],
    );
    assert.equal(offset({ "time-zone": "Asia/Kolkata", "utc-offset": "+01:00" }), 330, "the zone prevails");
    // The hour that the change to summer time leaves out.
    const change = Date.UTC(2026, 2, 29, 1);
    assert.deepEqual(
      [change - 1000, change].map((atMs) => offset({ "time-zone": "Europe/Paris" }, atMs)),
      [60, 120],
    );
  });

  it("is a fixed offset, where the label has one", () => {
    fc.assert(
      fc.property(fc.integer({ min: -14 * 60, max: 14 * 60 }), fc.boolean(), (minutes, hasColon) => {
        const two = (value: number): string => String(Math.floor(Math.abs(value))).padStart(2, "0");
        const text = `${minutes < 0 ? "-" : "+"}${two(minutes / 60)}${hasColon ? ":" : ""}${two(Math.abs(minutes) % 60)}`;
        assert.equal(offset({ "utc-offset": text }), minutes === 0 ? 0 : minutes);
        assert.equal(whyNoPlace("utc-offset", text), undefined);
      }),
    );
  });

  it("is UTC with the reason where there is none, or none that can be read", () => {
    for (const labels of [
      undefined,
      {},
      { "time-zone": "Mars/Olympus" },
      { "utc-offset": "CET" },
      { "utc-offset": "+2" },
    ]) {
      const place = placeOf(labels, winter);
      assert.equal(place.offsetMinutes, 0);
      assert.match(place.name, /^UTC, since /);
    }
    assert.equal(
      localTimeText(winter, placeOf({ "time-zone": "Europe/Paris" }, winter)),
      "thu 13:00 (Europe/Paris)",
    );
  });

  it("is refused when it is set, where it means none", () => {
    for (const [key, value] of [
      ["time-zone", "America/Sao_Paulo"],
      ["utc-offset", "+14:00"],
      ["region", "CET"],
    ] as const)
      assert.equal(whyNoPlace(key, value), undefined);
    for (const [key, value] of [
      ["time-zone", "Paris"],
      ["time-zone", "+02:00"],
      ["utc-offset", "CET"],
      ["utc-offset", "2"],
      ["utc-offset", "+15:00"],
      ["utc-offset", "+01:60"],
    ] as const) {
      assert.match(whyNoPlace(key, value) ?? "", /is not/);
      assert.throws(
        () => {
          checkLabels({}, { device: "van", labels: { [key]: value } });
        },
        { code: "LABEL_INVALID" },
      );
    }
    checkLabels({ "utc-offset": "CET" }, { device: "van", labels: { "utc-offset": null } });
  });
});
