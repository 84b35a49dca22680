/**
 * Offers server models to devices: a version that is assigned to a line is offered, signed, until the device
 * runs it. downloads.ts serves what the device then fetches.
 */
import { objectId } from "../../shared/tensor/hash.js";
import type { Hash } from "../../shared/tensor/tensor.js";
import { modelObjectsOf } from "../../shared/model/record-objects.js";
import { signOffer } from "../../shared/trust/signatures.js";
import type { SmallObject } from "../../shared/wire/messages.js";
import type { FleetRepository, VersionSummary } from "../repository/fleet-repository.js";
import type { ServerSigner } from "../repository/home.js";
import { fittingInline, type DeviceSender } from "./device-sender.js";

export interface OfferParts {
  readonly repository: FleetRepository;
  readonly signer: ServerSigner;
  readonly sender: DeviceSender;
  /** `carried`: small objects that the offer brought along. */
  onOffered(device: string, line: string, versionId: Hash, carried: readonly Hash[]): void;
}

/** Objects of the model up to this many bytes travel inside the offer. */
const maxInlineBytes = 16 * 1024;

export class Offers {
  /**
   * Assignments made in this process that no activation has answered yet, by device and line. A version that
   * is assigned again is offered even where the line has already built on it.
   */
  readonly #unanswered = new Map<string, Hash>();
  constructor(private readonly parts: OfferParts) {}

  /** A version was assigned just now. */
  assigned(device: string, line: string, versionId: Hash): void {
    this.#unanswered.set(`${device}\0${line}`, versionId);
  }
  /** The device runs this version now. */
  activated(device: string, line: string, versionId: Hash): void {
    const key = `${device}\0${line}`;
    if (this.#unanswered.get(key) === versionId) this.#unanswered.delete(key);
  }

  /**
   * Offers what is assigned to the device's lines, unless it runs there or is an ancestor of what runs.
   * @param reported active versions that the device itself named in its birth
   */
  async offerAll(device: string, reported: readonly Hash[] = []): Promise<void> {
    const { repository } = this.parts;
    const known = repository.device(device);
    if (known === undefined) return;
    for (const line of known.lines) {
      const assigned = repository.assignment(device, line);
      if (assigned === undefined) continue;
      const active = [known.active[line]?.versionId, ...reported].filter((id) => id !== undefined);
      const isNew = this.#unanswered.get(`${device}\0${line}`) === assigned;
      const isAncestor = active.some((id) => !isNew && this.#isInLineageOf(id, assigned));
      const summary = repository.get(assigned);
      if (active.includes(assigned) || isAncestor) continue;
      if (summary !== undefined && summary.state !== "retired") await this.#offer(device, line, summary);
    }
  }

  #isInLineageOf(versionId: Hash, ancestor: Hash): boolean {
    const { repository } = this.parts;
    if (repository.get(versionId) === undefined) return false;
    return repository.lineage(versionId).some((version) => version.versionId === ancestor);
  }

  async #offer(device: string, line: string, summary: VersionSummary): Promise<void> {
    const { repository, signer, sender } = this.parts;
    const { versionId, name, version } = summary;
    const record = await repository.objects.read("record", versionId);
    const objects: SmallObject[] = [];
    for (const { kind, id } of modelObjectsOf(summary.record)) {
      const stat = repository.objects.stat(id);
      if (stat !== undefined && stat.byteLength <= maxInlineBytes)
        objects.push({ kind, data: await repository.objects.read(kind, id) });
    }
    const generation = repository.device(device)?.generation;
    const signature = signOffer(signer, { fleet: repository.fleet, device, line, versionId, generation });
    const inline = fittingInline(objects, record.length);
    await sender.send(device, {
      type: "offer",
      line,
      versionId,
      record,
      objects: inline,
      signature,
      name,
      version,
      generation,
    });
    this.parts.onOffered(
      device,
      line,
      versionId,
      inline.map(({ kind, data }) => objectId(kind, data)),
    );
  }
}
