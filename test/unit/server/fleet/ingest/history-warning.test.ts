/** A device whose history the server cannot continue is named as what it is: of an earlier release, or in doubt. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { historyWarning } from "../../../../../server/fleet/ingest/sessions/history-warning.js";
import type { Hash } from "../../../../../shared/tensor/tensor.js";

const root = "ab".repeat(32) as Hash;

test("a device that reports no root runs an earlier release, whatever was restored", () => {
  for (const restores of [[], [{ position: 3 }]]) {
    const { level, name } = historyWarning("d", { seenJournalLength: 17 }, restores);
    assert.deepEqual([level, name], ["warn", "history-unchecked"]);
  }
});

test("another history is an error, unless a restore after what the device has seen may explain it", () => {
  const birth = { seenJournalLength: 17, seenJournalRoot: root };
  const levels = [[], [{ position: 17 }], [{ position: 16 }]].map((restores) => {
    const { level, name } = historyWarning("d", birth, restores);
    assert.equal(name, "history-differs");
    return level;
  });
  assert.deepEqual(levels, ["error", "error", "warn"]);
});
