/** Ratios, sizes and durations on the command line: what is accepted and what is refused. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { parseBytes, parseDuration, parseRatio } from "../../../../server/cli/quantities.js";

describe("quantities of the command line", () => {
  it("reads ratios", () => {
    assert.deepEqual(["1.6x", "2", "none", "auto"].map(parseRatio), [1.6, 2, null, "auto"]);
    for (const bad of ["", "x", "-1x", "1e9x", "NaN"])
      assert.throws(() => parseRatio(bad), { code: "USAGE" });
  });

  it("reads sizes, decimal and binary", () => {
    assert.deepEqual(["2GiB", "500MB", "12", "1.5kB", "200KB", "3mb"].map(parseBytes), [
      2 ** 31,
      5e8,
      12,
      1500,
      200_000,
      3_000_000,
    ]);
    for (const bad of ["", "5XB", "5constructor", "-1MB", "0", "9e99GB"])
      assert.throws(() => parseBytes(bad), { code: "USAGE" });
  });

  it("reads durations up to hours", () => {
    assert.deepEqual(
      ["10m", "30s", "2h", "250ms", "5min", "1.5 h", "10   s"].map(parseDuration),
      [600_000, 30_000, 7_200_000, 250, 300_000, 5_400_000, 10_000],
    );
    for (const bad of ["", "5", "m", "1d", "-5s", "0s", "10 years", "10M"])
      assert.throws(() => parseDuration(bad), { code: "USAGE" });
  });
});
