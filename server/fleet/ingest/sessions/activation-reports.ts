/** Handles the reports of devices about the versions that they run: checks each and records it as a fact. */
import { isStemmaError } from "../../../../shared/errors.js";
import type { Clock } from "../../../../shared/ports.js";
import type { Hash } from "../../../../shared/tensor/tensor.js";
import type { Activated } from "../../../../shared/wire/messages.js";
import type { VersionSummary } from "../../../storage/repository/answers/version-answers.js";
import type { FleetRepository } from "../../../storage/repository/fleet-repository.js";
import { makerOf } from "../../../storage/repository/state/version-state.js";
import type { RefusalDetails } from "./device-sender.js";
import { overFactQuota, type DeviceQuota } from "./device-quota.js";

export interface ActivationReportsParts {
  readonly repository: FleetRepository;
  readonly clock: Pick<Clock, "now">;
  readonly quota: Pick<DeviceQuota, "waitMs" | "charge">;
  /** The report was recorded. */
  onActivated(device: string, line: string, versionId: Hash): void;
  /** The report shows that the line does not run its assigned version, which it was not offered because it did. */
  onUnanswered(device: string): void;
  /** The fact could not be appended, for another reason than a full disk. */
}

/** Milliseconds after which a device reports again the activation of a version that is unknown here. */
const unknownVersionRetryMs = 30_000;

const diskFull: RefusalDetails = {
  code: "DISK_FULL",
  message: "The server's disk is full, so it cannot record what this device runs. Report it again later.",
  retryAfterMs: 60_000,
};

export class ActivationReports {
  constructor(private readonly parts: ActivationReportsParts) {}

  /** Records a report. Returns why it is refused; undefined where it is accepted. */
  async report(device: string, session: number, report: Activated): Promise<RefusalDetails | undefined> {
    const { repository, clock, quota } = this.parts;
    const { versionId, line } = report;
    const refusal = this.#refusalOf(device, line, versionId);
    if (refusal !== undefined) return { ...refusal, versionId };
    // A report may come twice, and a device repeats in each session what the server does not answer.
    if (repository.hasActivation(device, { line, versionId, deviceAtMs: report.atMs, number: report.number }))
      return undefined;
    const retryAfterMs = quota.waitMs(device);
    if (retryAfterMs > 0) return { ...overFactQuota(retryAfterMs), versionId };
    quota.charge(device);
    const wasAnswered = repository.isAssignmentAnswered(device, line);
    try {
      await repository.append({
        type: "activated",
        atMs: clock.now(),
        versionId,
        device,
        line,
        deviceAtMs: report.atMs,
        deviceClockErrorMs: report.clockErrorMs,
        session,
        ...(report.number === undefined ? {} : { number: report.number }),
      });
    } catch (error) {
      if (isStemmaError(error, "DISK_FULL")) return { ...diskFull, versionId };
      throw error;
    }
    this.parts.onActivated(device, line, versionId);
    if (wasAnswered && !repository.isAssignmentAnswered(device, line)) this.parts.onUnanswered(device);
    return undefined;
  }

  #refusalOf(device: string, line: string, versionId: Hash): RefusalDetails | undefined {
    const { repository } = this.parts;
    const known = repository.device(device);
    const summary = repository.get(versionId) ?? repository.claim(versionId);
    if (known === undefined || !known.lines.includes(line))
      return { code: "IDENTITY_FOREIGN", message: `The device has no line "${line}".` };
    // With `after-outbox` a device activates a version before the server knows it, and reports again after
    // the version's receipt. After a restore, a report may name a version that was lost. It is recorded all
    // the same, so that the history does not claim that an older version ran then.
    if (summary === undefined && repository.restores().length === 0)
      return {
        code: "MODEL_NOT_FOUND",
        message: `The version ${versionId} is not known here yet. Report its activation again after its receipt.`,
        retryAfterMs: unknownVersionRetryMs,
      };
    if (summary !== undefined && !this.#mayRun(device, line, summary))
      return {
        code: "IDENTITY_FOREIGN",
        message: `The version ${versionId} is not a version of this device, and it was not assigned to it.`,
      };
    return undefined;
  }

  #mayRun(
    device: string,
    line: string,
    version: Pick<VersionSummary, "versionId" | "record" | "received">,
  ): boolean {
    const { repository } = this.parts;
    const { versionId, record } = version;
    return (
      makerOf(version, record) === device ||
      repository.assignment(device, line) === versionId ||
      // Another version was assigned meanwhile, but the device runs this one or has built on it.
      repository.device(device)?.active[line]?.versionId === versionId ||
      repository
        .versions({ device, line, includeRetired: true })
        .some((built) => built.record.bases.includes(versionId))
    );
  }
}
