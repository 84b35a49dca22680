/** Reports of what a device runs, where they cannot be recorded. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { ActivationReports } from "../../../../../server/fleet/ingest/sessions/activation-reports.js";
import type { FleetRepository } from "../../../../../server/storage/repository/fleet-repository.js";
import { StemmaError } from "../../../../../shared/errors.js";
import { sha256 } from "../../../../../shared/tensor/hash.js";
import type { Activated } from "../../../../../shared/wire/messages.js";

const versionId = sha256("version");
const report: Activated = { type: "activated", versionId, line: "cam", atMs: 1, clockErrorMs: null };

/** Reports to a server whose journal fails so. */
function reportsTo(error: StemmaError): ActivationReports {
  const repository = {
    device: () => ({ lines: ["cam"] }),
    get: () => ({ versionId, record: { device: "v1" } }),
    hasActivation: () => false,
    isAssignmentAnswered: () => true,
    append: () => Promise.reject(error),
  } as unknown as FleetRepository;
  return new ActivationReports({
    repository,
    clock: { now: () => 0 },
    quota: { waitMs: () => 0, charge: () => undefined },
    onActivated: () => {
      assert.fail("nothing was recorded");
    },
    onUnanswered: () => {
      assert.fail("nothing was recorded");
    },
  });
}

describe("a report of what a device runs", () => {
  it("is refused with a time to try again while the disk is full", async () => {
    const reports = reportsTo(new StemmaError("DISK_FULL", "full"));
    const refusal = await reports.report("v1", 1, report);
    assert.equal(refusal?.code, "DISK_FULL");
    assert.equal(refusal.versionId, versionId);
    assert.ok((refusal.retryAfterMs ?? 0) > 0);
  });
  it("brings the offer of what was assigned while the line switched away from it", async () => {
    const happened: string[] = [];
    let isAnswered = true;
    const reports = new ActivationReports({
      repository: {
        device: () => ({ lines: ["cam"] }),
        get: () => ({ versionId, record: { device: "v1" } }),
        hasActivation: () => false,
        isAssignmentAnswered: () => isAnswered,
        append: () => {
          isAnswered = false;
          return Promise.resolve();
        },
      } as unknown as FleetRepository,
      clock: { now: () => 0 },
      quota: { waitMs: () => 0, charge: () => undefined },
      onActivated: (device) => happened.push(`${device} activated`),
      onUnanswered: (device) => happened.push(`${device} unanswered`),
    });
    await reports.report("v1", 1, report);
    // The offer is on its way: what the device reports until then brings no second one.
    await reports.report("v1", 1, { ...report, atMs: 2 });
    assert.deepEqual(happened, ["v1 activated", "v1 unanswered", "v1 activated"]);
  });
  it("of another repository's model is refused where only its record names the device", async () => {
    const reported = async (received?: true, assigned?: string): Promise<string | undefined> => {
      const reports = new ActivationReports({
        repository: {
          device: () => ({ lines: ["cam"], active: {} }),
          get: () => ({ versionId, received, record: { device: "v1", bases: [] } }),
          assignment: () => assigned,
          versions: () => [],
          hasActivation: () => true,
        } as unknown as FleetRepository,
        clock: { now: () => 0 },
        quota: { waitMs: () => 0, charge: () => undefined },
        onActivated: () => undefined,
        onUnanswered: () => undefined,
      });
      return (await reports.report("v1", 1, report))?.code;
    };
    assert.equal(await reported(), undefined);
    assert.equal(await reported(true), "IDENTITY_FOREIGN");
    assert.equal(await reported(true, versionId), undefined);
  });
});
