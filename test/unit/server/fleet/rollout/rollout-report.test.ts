/** What a rollout's transfers took, beside what was planned. */
import assert from "node:assert/strict";
import { it } from "node:test";
import type { RolloutState } from "../../../../../server/storage/repository/state/rollout-state.js";
import { reportOf } from "../../../../../server/fleet/rollout/rollout-report.js";
import { sha256 } from "../../../../../shared/tensor/hash.js";

const versionId = sha256("next");
const delivery = (atMs: number, bytes: number, durationMs: number, of = versionId) => ({
  versionId: of,
  atMs,
  bytes,
  durationMs,
});

it("pairs each device's plan with the first delivery of the version since it joined", () => {
  const members = [
    { device: "both", wave: 1, joinedAtMs: 10, planned: { bytes: 100, ms: 50 }, judged: { atMs: 40 } },
    { device: "untimed", wave: 1, joinedAtMs: 10, planned: { bytes: 300, ms: null } },
    { device: "unplanned", wave: 2, joinedAtMs: 10 },
    { device: "undelivered", wave: 2, joinedAtMs: 10, planned: { bytes: 1000, ms: 1 } },
  ];
  const deliveries: Readonly<Record<string, readonly ReturnType<typeof delivery>[]>> = {
    both: [delivery(9, 1, 1), delivery(10, 1, 1, sha256("x")), delivery(11, 200, 100), delivery(12, 1, 1)],
    untimed: [delivery(10, 300, 70)],
    unplanned: [delivery(20, 5, 6)],
  };
  const report = reportOf(
    {
      name: "r",
      versionId,
      phase: "done",
      members: new Map(members.map((member) => [member.device, member])),
    } as unknown as RolloutState,
    (device) => deliveries[device] ?? [],
  );
  assert.deepEqual(report.devices, [
    {
      ...{ device: "both", wave: 1, planned: { bytes: 100, ms: 50 } },
      actual: { bytes: 200, ms: 100, atMs: 11 },
      decidedMs: 30,
    },
    {
      ...{ device: "untimed", wave: 1, planned: { bytes: 300, ms: null } },
      actual: { bytes: 300, ms: 70, atMs: 10 },
    },
    { device: "unplanned", wave: 2, actual: { bytes: 5, ms: 6, atMs: 20 } },
    { device: "undelivered", wave: 2, planned: { bytes: 1000, ms: 1 } },
  ]);
  assert.deepEqual(
    [report.compared, report.plannedBytes, report.actualBytes, report.bytesError, report.timeError],
    [2, 400, 500, 0.25, 0.5],
  );
});
