/** Versions of a line by number, and each generation's newest. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { LineIndex } from "../../../../../server/fleet/ingest/uploads/line-index.js";
import type { VersionSummary } from "../../../../../server/storage/repository/answers/version-answers.js";

function summary(versionId: string, sequence: number, position: number, generation = 1): VersionSummary {
  return {
    versionId,
    position,
    generation,
    record: { device: "car", line: "soh", sequence },
  } as unknown as VersionSummary;
}

test("finds a generation's newest version in one step, however long the line is", (context) => {
  const lines = new LineIndex(Array.from({ length: 20_000 }, (_, at) => summary(`v${at + 1}`, at + 1, at)));
  const lookUps = context.mock.method(Map.prototype, "get");
  const walks = (["values", "entries", "forEach"] as const).map((name) =>
    context.mock.method(Map.prototype, name),
  );
  assert.equal(lines.head("car", "soh", 1)?.versionId, "v20000");
  assert.equal(lookUps.mock.callCount(), 2);
  assert.deepEqual(
    walks.map(({ mock }) => mock.callCount()),
    [0, 0, 0],
  );
});

test("a generation that counts from the start does not hide what the one before it sent last", () => {
  const lines = new LineIndex([summary("a1", 1, 0), summary("a9", 9, 1), summary("a2", 2, 2)]);
  lines.add(summary("b1", 1, 3, 2));
  assert.equal(lines.head("car", "soh", 1)?.versionId, "a9");
  assert.equal(lines.head("car", "soh", 2)?.versionId, "b1");
  assert.equal(lines.find("car", "soh", 1)?.versionId, "b1");
  assert.equal(lines.head("car", "soh", 3), undefined);
  assert.equal(lines.head("car", "other", 1), undefined);
  // Read in another order, with the same result.
  lines.add(summary("old", 1, 0, 2));
  assert.equal(lines.head("car", "soh", 2)?.versionId, "b1");
});
