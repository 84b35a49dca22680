/** The time at which a version was saved, as lists show what a saver's clock said. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { minuteOfSaving, timeOfSaving } from "../../../../server/cli/version-text.js";

const recordedAtMs = Date.UTC(2026, 10, 28);
const hour = 3_600_000;

test("the time of a saving is called doubtful where its clock is known to be wrong or is ahead of the server", () => {
  const savedAtMs = recordedAtMs - 900 * 24 * hour;
  const text = "2024-06-11 00:00:00Z";
  assert.equal(timeOfSaving({ savedAtMs, clockErrorMs: 20, recordedAtMs }), text);
  assert.equal(timeOfSaving({ savedAtMs, clockErrorMs: null, recordedAtMs }), text);
  assert.equal(timeOfSaving({ savedAtMs, clockErrorMs: 2 * hour, recordedAtMs }), `${text} (doubtful)`);
  const ahead = { savedAtMs: recordedAtMs + 2 * hour, clockErrorMs: null, recordedAtMs };
  assert.equal(timeOfSaving(ahead), "2026-11-28 02:00:00Z (doubtful)");
  assert.equal(minuteOfSaving(ahead), "2026-11-28 02:00 (doubtful)");
  assert.equal(minuteOfSaving({ ...ahead, savedAtMs: recordedAtMs + hour }), "2026-11-28 01:00");
});
