/** Selections of devices: what they mean, and what cannot be read. */
import assert from "node:assert/strict";
import { describe, it, test } from "node:test";
import fc from "fast-check";
import {
  deviceMatcher,
  matchesPattern,
  type SelectableDevice,
} from "../../../../../server/storage/selection/match-device.js";
import {
  maxSelectionLength,
  parseSelection,
} from "../../../../../server/storage/selection/parse-selection.js";
import { StemmaError } from "../../../../../shared/errors.js";
import type { Hash } from "../../../../../shared/tensor/tensor.js";

const day = 86_400_000;
const nowMs = 100 * day;
const versions: Readonly<Record<string, Hash>> = {
  "soh:1": "1" as Hash,
  "soh:2": "2" as Hash,
  "cam:1": "9" as Hash,
};
const family: Readonly<Record<string, readonly string[]>> = { "1": ["1", "2"], "2": ["2"], "9": ["9"] };

const van = (device: string, change: Partial<SelectableDevice> = {}): SelectableDevice => ({
  device,
  profile: "generic",
  state: "enrolled",
  lines: ["soh"],
  labels: {},
  online: false,
  active: {},
  ...change,
});
const fleet: readonly SelectableDevice[] = [
  van("van-1", {
    labels: { region: "eu", "depot/bay": "lyon 2" },
    online: true,
    seenAtMs: nowMs,
    active: { soh: { versionId: "1" as Hash } },
  }),
  van("van-2", {
    labels: { region: "us" },
    seenAtMs: nowMs - 3 * day,
    active: { soh: { versionId: "2" as Hash }, cam: { versionId: "9" as Hash } },
    lines: ["soh", "cam"],
  }),
  van("truck-1", { profile: "jetson-orin", seenAtMs: nowMs - 30 * day }),
  van("truck-2", { profile: "jetson-nano", state: "revoked" }),
];

function meant(text: string): readonly string[] {
  const test = deviceMatcher(parseSelection(text), {
    nowMs,
    resolve: (model) => {
      const found = versions[model];
      if (found === undefined) throw new StemmaError("MODEL_NOT_FOUND", `no ${model}`);
      return found;
    },
    familyOf: (versionId) => new Set(family[versionId] as readonly Hash[]),
  });
  return fleet.filter(test).map(({ device }) => device);
}

describe("a selection of devices", () => {
  for (const [text, devices] of [
    ["all", ["van-1", "van-2", "truck-1", "truck-2"]],
    ["all and not name=van-*", ["truck-1", "truck-2"]],
    ["name=van-1", ["van-1"]],
    ["name=van-*", ["van-1", "van-2"]],
    ["name=*-?", ["van-1", "van-2", "truck-1", "truck-2"]],
    ["profile=jetson-*", ["truck-1", "truck-2"]],
    ["state=revoked", ["truck-2"]],
    ["line=cam", ["van-2"]],
    ["online=yes", ["van-1"]],
    ["online=no and name=van-*", ["van-2"]],
    ["label.region", ["van-1", "van-2"]],
    ["label.region=eu", ["van-1"]],
    ["label.region!=eu", ["van-2", "truck-1", "truck-2"]],
    ["label.region and label.region!=eu", ["van-2"]],
    ['label.depot/bay="lyon 2"', ["van-1"]],
    ["label.constructor", []],
    ["seen<7d", ["van-1", "van-2"]],
    ["seen>7d", ["truck-1", "truck-2"]],
    ["seen<30d", ["van-1", "van-2", "truck-1"]],
    ["seen<1h", ["van-1"]],
    ["runs=soh:1", ["van-1"]],
    ["runs.cam=soh:1", []],
    ["descends=soh:1", ["van-1", "van-2"]],
    ["descends.soh=soh:1 and not runs=soh:1", ["van-2"]],
    ["name=van-1 or profile=jetson-orin and seen>7d", ["van-1", "truck-1"]],
    ["(name=van-1 or profile=jetson-orin) and online=no", ["truck-1"]],
    ["not (name=van-* or state=revoked)", ["truck-1"]],
    ["not not name=van-1", ["van-1"]],
    ['name="or"', []],
  ] as const)
    it(text, () => {
      assert.deepEqual(meant(text), devices);
    });

  for (const [text, at, why] of [
    ["", 0, /its end.*a condition is missing/],
    ["name", 0, /followed by neither = nor !=/],
    ["name=", 5, /value is missing after name=/],
    ["name=a name=b", 7, /"and" or "or" is missing/],
    ["(name=a", 7, /"\)" is missing/],
    ["name=a)", 6, /"and" or "or" is missing/],
    ["colour=red", 0, /is no property of a device/],
    ["name.x=red", 0, /is no property of a device/],
    ["label=red", 0, /is no property of a device/],
    ["name<3", 0, /compares only the property seen/],
    ["seen<7", 5, /write seen<7d/],
    ["seen=7d", 5, /write seen<7d/],
    ["online=maybe", 7, /yes or no/],
    ["name=a and", 10, /a condition is missing/],
    ["name=a; rm", 6, /cannot be read/],
    ['name="a', 5, /cannot be read/],
    ["not ".repeat(40) + "name=a", 132, /inside each other/],
  ] as const)
    it(`refuses ${JSON.stringify(text.slice(0, 20))}`, () => {
      assert.throws(
        () => parseSelection(text),
        (error: StemmaError) =>
          error.code === "SELECTION_INVALID" && error.details["at"] === at && why.test(error.message),
      );
    });

  it("refuses what is too long, and models that are not known", () => {
    assert.throws(() => parseSelection(`name=${"a".repeat(maxSelectionLength)}`), {
      code: "SELECTION_INVALID",
    });
    assert.throws(() => meant("runs=soh:9"), { code: "MODEL_NOT_FOUND" });
  });
});

test("any text is either read or refused", () => {
  const words = fc.constantFrom(
    "name=a",
    "not",
    "and",
    "or",
    "(",
    ")",
    "label.x",
    "seen<3d",
    '"',
    "=",
    "!",
    "runs=b",
  );
  fc.assert(
    fc.property(fc.array(fc.oneof(words, fc.string())), (parts) => {
      try {
        parseSelection(parts.join(" "));
      } catch (error) {
        assert.equal((error as StemmaError).code, "SELECTION_INVALID");
      }
    }),
  );
});

test("patterns match like the regular expressions that they stand for, and never take long", () => {
  fc.assert(
    fc.property(
      fc.string({ unit: fc.constantFrom("a", "b"), maxLength: 12 }),
      fc.string({ unit: fc.constantFrom("a", "b", "*", "?"), maxLength: 8 }),
      (text, pattern) => {
        const expression = new RegExp(`^${pattern.replaceAll("*", ".*").replaceAll("?", ".")}$`);
        assert.equal(matchesPattern(text, pattern), expression.test(text));
      },
    ),
  );
  assert.equal(matchesPattern("a".repeat(256), `${"*a".repeat(1000)}b`), false);
});
