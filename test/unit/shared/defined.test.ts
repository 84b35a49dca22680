import assert from "node:assert/strict";
import { test } from "node:test";
import { defined } from "../../../shared/defined.js";

test("members that are undefined are left out, the others stay in their order", () => {
  const limit: number | undefined = [][0];
  const members = defined({ name: "a", limit, empty: "", zero: 0, none: null, no: false });
  assert.deepEqual(Object.entries(members), [
    ["name", "a"],
    ["empty", ""],
    ["zero", 0],
    ["none", null],
    ["no", false],
  ]);
  assert.ok(!Object.hasOwn(members, "limit"));
});

test("the members of a given object are copied, not shared", () => {
  const given = { name: "a" };
  assert.notEqual(defined(given), given);
});
