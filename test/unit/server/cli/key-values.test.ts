/** Which devices and which values the words of `device label` and `device set` mean. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { changedDevices, describeKeyValues, parseKeyValues } from "../../../../server/cli/key-values.js";

test("the first word is the device, unless a selection means several", () => {
  assert.deepEqual(changedDevices(["van-7", "region=eu"], undefined), {
    target: { device: "van-7" },
    changes: ["region=eu"],
  });
  assert.deepEqual(changedDevices(["region=eu"], "all"), {
    target: { select: "all" },
    changes: ["region=eu"],
  });
});

test("a value may have equals signs, and a key alone with a hyphen removes", () => {
  assert.deepEqual(parseKeyValues(["a=b=c", "d=", "e-", "f-g-"], ""), {
    a: "b=c",
    d: "",
    e: null,
    "f-g": null,
  });
  for (const word of ["region", "=eu", ""])
    assert.throws(() => parseKeyValues([word], "Write it."), { code: "USAGE" });
});

test("values are shown as they are written", () => {
  assert.equal(describeKeyValues({ region: "eu", wave: 1 }, "none"), "region=eu, wave=1");
  assert.equal(describeKeyValues({}, "none"), "none");
});
