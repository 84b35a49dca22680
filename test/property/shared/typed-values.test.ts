/** Text that a person typed stays what they typed, whatever it looks like; numbers are where numbers are wanted. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import fc from "fast-check";
import { parseAssignments } from "../../../shared/cli/command-line.js";
import { declaredParameters, parametersLike } from "../../../shared/train/declared-parameters.js";
import "../../helpers/property-seed.js";

const parsed = (text: string, numbers?: "any"): unknown => parseAssignments([`key=${text}`], numbers)["key"];
/** Texts that look like numbers, and any others. */
const typed = fc.oneof(
  fc.stringMatching(/^[-+]?0{0,3}\d{1,22}(\.\d{0,4})?([eE][-+]?\d{1,3})?$/),
  fc.stringMatching(/^0[xbo][0-9a-f]{1,12}$/),
  fc.constantFrom("", " ", "7 ", "-0", "NaN", "Infinity", "1_000", "1,5", "0x", ".5", "5.", "١"),
  fc.string({ maxLength: 20 }),
);

describe("a value that is typed", () => {
  it("is shown again as it was typed, whatever its type", () => {
    fc.assert(
      fc.property(typed, (text) => {
        if (text.startsWith('"') && text.endsWith('"') && text.length > 1) return;
        assert.equal(String(parsed(text)), text);
      }),
    );
  });

  it("is text in double quotes", () => {
    fc.assert(
      fc.property(typed, (text) => {
        assert.equal(parsed(JSON.stringify(text)), text);
        assert.equal(parsed(JSON.stringify(text), "any"), text);
      }),
    );
    assert.throws(() => parsed('"a"b"'), { code: "USAGE" });
  });

  it("keeps ids, versions and codes that look like numbers", () => {
    for (const text of ["007", "1.0", "1.10", "1e5", "12345678901234567890", "0x1F", "+49", "2026-11-27"])
      assert.equal(parsed(text), text);
    assert.deepEqual([parsed("7"), parsed("0.5"), parsed("-3"), parsed("true")], [7, 0.5, -3, true]);
    assert.deepEqual([parsed("1e-4", "any"), parsed("007", "any"), parsed("v1", "any")], [0.0001, 7, "v1"]);
  });

  it("takes the type that is declared for it", () => {
    const like = (example: unknown, text: string): unknown =>
      parametersLike({ key: example }, parseAssignments([`key=${text}`]))["key"];
    fc.assert(fc.property(typed, (text) => (text.startsWith('"') ? true : like("text", text) === text)));
    assert.deepEqual([like(0.1, "1e-4"), like(1, "10"), like(1, "many")], [0.0001, 10, "many"]);
    const passed = parseAssignments(["learningRate=1e-4", "frozenLayers=3", "unknown=1e-4"]);
    assert.deepEqual(declaredParameters("image-classify", passed), {
      learningRate: 0.0001,
      frozenLayers: "3",
      unknown: "1e-4",
    });
    assert.deepEqual(declaredParameters("own", passed), passed);
  });
});
