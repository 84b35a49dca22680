/** The one place that lists what an encoding is coded against. */
import assert from "node:assert/strict";
import { it } from "node:test";
import {
  hasSameLinks,
  linksOf,
  linksTo,
  listReferences,
  mapLinks,
  neededCount,
  neededLinks,
  unionOfNeeds,
} from "../../../../shared/delta/links.js";

const eight = ["a", "b", "c", "d", "e", "f", "g", "h"];

it("keeps the order of up to eight references", () => {
  for (let count = 0; count <= 8; count++) {
    const some = eight.slice(0, count);
    assert.deepEqual(listReferences(linksTo(some)), some);
    assert.deepEqual(linksOf({ ...linksTo(some), others: linksTo(some).others }), linksTo(some));
  }
  assert.deepEqual(linksTo(eight), { base: "a", previous: "b", others: ["c", "d", "e", "f", "g", "h"] });
});

it("gives a decoder those that it needs, or none where one is missing", () => {
  const needs = { base: true, previous: true, others: 1 };
  assert.equal(neededCount(needs), 3);
  assert.deepEqual(neededLinks(linksTo(eight), needs), { base: "a", previous: "b", others: ["c"] });
  assert.equal(neededLinks(linksTo(["a", "b"]), needs), undefined);
  assert.deepEqual(neededLinks(linksTo(eight), { base: true, previous: false }), { base: "a" });
  assert.deepEqual(neededLinks({ previous: "b" }, { base: false, previous: false }), {});
  assert.equal(neededLinks({ previous: "b" }, { base: true, previous: false }), undefined);
  assert.deepEqual(unionOfNeeds([{ base: true, previous: false }, needs]), needs);
  assert.deepEqual(unionOfNeeds([]), { base: false, previous: false });
});

it("compares and replaces all of them", async () => {
  assert.ok(hasSameLinks(linksTo(eight), linksTo(eight)));
  assert.ok(!hasSameLinks(linksTo(eight), linksTo([...eight.slice(0, 7), "x"])));
  assert.ok(!hasSameLinks({ base: "a" }, { base: "a", previous: "b" }));
  assert.deepEqual(
    await mapLinks(linksTo(["a", "b", "c"]), (each) => Promise.resolve(each.toUpperCase())),
    linksTo(["A", "B", "C"]),
  );
});
