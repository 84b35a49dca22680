/** What `stemma device show` says of the times that a device stated. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { describeDevice } from "../../../../server/cli/device-text.js";
import { sha256 } from "../../../../shared/tensor/hash.js";

const versionId = sha256("m");
const serverAtMs = Date.UTC(2026, 10, 28);

function described(deviceAtMs: number, deviceClockErrorMs: number | null): string {
  const run = { versionId, deviceAtMs, deviceClockErrorMs, serverAtMs };
  const device = {
    ...{ device: "van", state: "enrolled", online: true, profile: "generic", generation: 1, session: 1 },
    ...{ versions: 1, lines: ["soh"], heads: [], enrolledAtMs: 0, refusals: [], assigned: {} },
    ...{ claims: { waiting: 0, wanted: 0, lost: 0 }, active: { soh: run }, runs: { soh: "m:1" } },
  };
  return describeDevice(device as unknown as Parameters<typeof describeDevice>[0]).at(-1) ?? "";
}

test("the time of an activation has its error, and is called doubtful where the clock was wrong", () => {
  const now = "server clock 2026-11-28 00:00:00Z";
  const begin = `  soh: m:1 ${versionId} since`;
  assert.equal(described(serverAtMs, 20), `${begin} 2026-11-28 00:00:00Z ± 20 ms, ${now}`);
  assert.equal(
    described(serverAtMs, null),
    `${begin} 2026-11-28 00:00:00Z (device clock error unknown), ${now}`,
  );
  assert.equal(
    described(8000, serverAtMs),
    `${begin} 1970-01-01 00:00:08Z ± 20785 d 0 h (doubtful: that clock is wrong), ${now}`,
  );
});
