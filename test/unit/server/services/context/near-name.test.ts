/** Slips of a known name are found; names of a family are not taken for slips. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { nearName } from "../../../../../server/services/context/near-name.js";

const slips = [
  ["pack-sho", "pack-soh"],
  ["pakc-soh", "pack-soh"],
  ["pack_soh", "pack-soh"],
  ["Pack-SOH", "pack-soh"],
  ["packsoh", "pack-soh"],
  ["pck-soh", "pack-soh"],
  ["front-cams", "front-cam"],
  ["engine-waer", "engine-wear"],
  ["engibe-wear", "engine-wear"],
  ["carss", "cars"],
  ["vans", "van"],
] as const;
const families = [
  ["van-1", "van-2"],
  ["line1", "line2"],
  ["soh", "soc"],
  ["cam-l", "cam-r"],
  ["cam-left", "cam-right"],
  ["cell-a", "cell-b"],
  ["v9", "v10"],
  ["pack-soh-2", "pack-soh"],
  ["a1b2c3d4e5f6", "a1b2c3d4e5fe"],
  ["a", "ab"],
  ["north", "fourth"],
  ["pack-soh", "pack-soh"],
] as const;

describe("names near to known ones", () => {
  for (const [name, known] of slips)
    it(`${name} is a slip of ${known}`, () => {
      assert.equal(nearName(name, ["other", known]), known);
      assert.equal(nearName(known, ["other", name]), name);
    });
  for (const [name, known] of families)
    it(`${name} is none of ${known}`, () => {
      assert.equal(nearName(name, [known]), undefined);
    });
  it("a name that is known is none, whatever else is near", () => {
    assert.equal(nearName("cars", ["carss", "cars"]), undefined);
  });
});
