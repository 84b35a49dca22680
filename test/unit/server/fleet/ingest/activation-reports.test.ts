/** Reports of what a device runs: of the models of others only those that it was given. */
import assert from "node:assert/strict";
import { it } from "node:test";
import { ActivationReports } from "../../../../../server/fleet/ingest/sessions/activation-reports.js";
import type { FleetRepository } from "../../../../../server/storage/repository/fleet-repository.js";
import { sha256 } from "../../../../../shared/tensor/hash.js";

it("a model of another repository is no device's own, whatever device its record names", async () => {
  const versionId = sha256("version");
  const reported = async (received: true | undefined, assigned?: string): Promise<string | undefined> => {
    const repository = {
      get: () => ({ versionId, received, record: { device: "van-7", bases: [] } }),
      assignment: () => assigned,
      device: () => ({ lines: ["cam"], active: {} }),
      versions: () => [],
      hasActivation: () => true,
    };
    const reports = new ActivationReports({
      repository: repository as unknown as FleetRepository,
      clock: { now: () => 0 },
      quota: { waitMs: () => 0, charge: () => undefined },
      onActivated: () => undefined,
      onUnanswered: () => undefined,
    });
    const report = { type: "activated", versionId, line: "cam", atMs: 1, clockErrorMs: null } as const;
    return (await reports.report("van-7", 1, report))?.code;
  };
  assert.equal(await reported(undefined), undefined);
  assert.equal(await reported(true), "IDENTITY_FOREIGN");
  assert.equal(await reported(true, versionId), undefined);
});
