/** Answers what devices announce: what is known already, what is refused and why, and else what is wanted. */
import type { Hash } from "../../../../shared/tensor/tensor.js";
import type { Announce } from "../../../../shared/wire/messages.js";
import { judgeAnnouncement, type Accepted } from "./announcement.js";
import { answerRecorded, type FleetIngestParts, type IngestServices } from "../compose-ingest.js";
import { overFactQuota, serverFull } from "../sessions/device-quota.js";
import type { RefusalDetails } from "../sessions/device-sender.js";
import { refusalOfRecipe } from "../sessions/recipe-sync.js";

export class AnnouncementAnswers {
  constructor(
    private readonly parts: Pick<FleetIngestParts, "repository" | "limits" | "events" | "whatIsFull">,
    private readonly services: IngestServices,
  ) {}

  async answer(device: string, announce: Announce, correlation: string): Promise<void> {
    const { repository, limits } = this.parts;
    const known = repository.device(device);
    if (known === undefined) return;
    const versionAt = (line: string, sequence: number): Hash | undefined => {
      const version = this.services.lines.find(device, line, sequence);
      return version?.generation === known.generation ? version.versionId : undefined;
    };
    const judged = judgeAnnouncement(
      announce,
      {
        fleet: repository.fleet,
        device,
        generation: known.generation,
        publicKey: known.publicKey,
        lines: known.lines,
        versionAt,
      },
      limits,
    );
    if (judged.verdict === "refused") {
      await this.refuse(device, judged, correlation);
      return;
    }
    const summary = repository.get(judged.versionId);
    if (summary !== undefined) return answerRecorded(this.services, device, summary);
    const claim = repository.claim(judged.versionId);
    // Announced without a claim, or after its replay gave no proof: the tensors are wanted.
    if (claim !== undefined && judged.isClaim && claim.ended === undefined)
      return this.services.receipts.claimed(claim);
    const refusal = refusalOfRecipe(repository, device, judged.record);
    if (refusal !== undefined)
      return this.refuse(device, { ...refusal, versionId: judged.versionId }, correlation);
    const full = await this.parts.whatIsFull();
    if (full !== undefined) return this.refuse(device, serverFull(full, judged.versionId), correlation);
    const retryAfterMs = this.services.quota.waitMs(device);
    if (retryAfterMs > 0)
      return this.services.sender.refuse(
        device,
        { ...overFactQuota(retryAfterMs), versionId: judged.versionId },
        correlation,
      );
    this.#emitAnnounced(device, judged);
    await this.services.scheduler.announced(device, {
      ...judged,
      isClaim: judged.isClaim && claim === undefined,
    });
  }

  /** Refuses what a device sent; live screens and the event stream show it too. */
  async refuse(device: string, refusal: RefusalDetails, correlation?: string): Promise<void> {
    const { fleet } = this.parts.repository;
    const { code, message, versionId = null } = refusal;
    this.parts.events.emit({ event: "refused", fleet, device, versionId, code, message });
    await this.services.sender.refuse(device, refusal, correlation);
  }

  #emitAnnounced(device: string, { versionId, record, declared }: Accepted): void {
    this.parts.events.emit({
      event: "announced",
      fleet: this.parts.repository.fleet,
      device,
      line: record.line,
      name: record.name,
      versionId,
      tensorBytes: declared.tensorBytes,
    });
  }
}
