// Links are named with shares, and given to devices by these shares.
import assert from "node:assert/strict";
import { it } from "node:test";
import { isStemmaError } from "../../../../shared/errors.js";
import { assignLinks, parseLinks } from "../../../../shared/simulation/link-shapes.js";

it("reads links with their shares", () => {
  const shares = parseLinks("wifi=30, lte=60,3g");
  assert.deepEqual(
    shares.map(({ shape, weight }) => [shape.name, weight]),
    [
      ["wifi", 30],
      ["lte", 60],
      ["3g", 1],
    ],
  );
  for (const text of ["", "5g", "lte=0", "lte=-1", "lte=x", "lte=1,,wifi=2", "__proto__=1"])
    assert.throws(
      () => parseLinks(text),
      (error) => isStemmaError(error, "USAGE"),
      text,
    );
});

it("gives the first devices a mix of links too, and all their shares", () => {
  const names = assignLinks(parseLinks("wifi=3,lte=6,3g=1"), 1000).map(({ name }) => name);
  const counted = (of: readonly string[], name: string): number => of.filter((each) => each === name).length;
  assert.deepEqual(
    ["wifi", "lte", "3g"].map((name) => counted(names, name)),
    [300, 600, 100],
  );
  assert.deepEqual(
    ["wifi", "lte", "3g"].map((name) => counted(names.slice(0, 10), name)),
    [3, 6, 1],
  );
});
