/** The server's signed receipts of a version. A receipt is made only after its fact is fsynced. */
import { messageWithCode } from "../../../../shared/error-text.js";
import { StemmaError } from "../../../../shared/errors.js";
import type { Log } from "../../../../shared/ports.js";
import { signReceipt } from "../../../../shared/trust/signatures.js";
import type { Receipt, ReceiptKind } from "../../../../shared/wire/messages.js";
import type { EventHub } from "../../../interface/events/event-hub.js";
import type { ClaimSummary } from "../../../storage/repository/claim.js";
import type { VersionSummary } from "../../../storage/repository/answers/version-answers.js";
import type { FleetRepository } from "../../../storage/repository/fleet-repository.js";
import type { ServerSigner } from "../../../storage/repository/home.js";
import { asReported } from "./claims.js";
import type { DeviceSender, DeviceSession } from "../sessions/device-sender.js";
import type { HistoryProofs } from "../sessions/history-proofs.js";

/** The kinds of receipts that hold in this state, in the order in which they became true. */
function receiptKindsOf(state: VersionSummary["state"]): readonly ReceiptKind[] {
  switch (state) {
    case "recorded":
      return ["recorded"];
    case "stored":
      return ["recorded", "stored"];
    case "released":
      return ["recorded", "stored", "released"];
    // Its bytes will be deleted: no receipt claims that it is stored, and the device need not keep it.
    case "retired":
      return ["recorded", "released"];
  }
}

export interface ReceiptsParts {
  readonly repository: Pick<FleetRepository, "fleet" | "device" | "journal" | "backedUpTo">;
  readonly signer: ServerSigner;
  readonly sender: Pick<DeviceSender, "send">;
  readonly events: Pick<EventHub, "emit">;
  readonly log: Pick<Log, "error">;
  readonly proofs: Pick<HistoryProofs, "receipt">;
  sessionOf(device: string): DeviceSession | undefined;
}

type Reported = ReturnType<typeof asReported>;

export class Receipts {
  constructor(private readonly parts: ReceiptsParts) {}

  /**
   * Sends one receipt to the version's device and emits its event. The scheduler emits the event of
   * `recorded`.
   */
  async issue(summary: VersionSummary, kind: ReceiptKind): Promise<void> {
    const { record, versionId, name, version, tensorBytes } = summary;
    if (kind !== "recorded")
      this.parts.events.emit({
        event: kind,
        fleet: this.parts.repository.fleet,
        device: record.device,
        line: record.line,
        versionId,
        name,
        version,
        wireBytes: 0,
        tensorBytes,
        tookMs: 0,
      });
    await this.#send(record.device, summary, [kind]);
  }

  /** Sends the receipt of a claim: it is recorded, and nothing follows from that. */
  async claimed(claim: ClaimSummary): Promise<void> {
    await this.#send(claim.record.device, asReported(claim), ["recorded"]);
  }

  /** Sends all receipts that hold for a version now. */
  async repeat(device: string, summary: VersionSummary): Promise<void> {
    await this.#send(device, summary, receiptKindsOf(summary.state));
  }

  /** A device that was not welcomed in this session gets none: it announces again what has no receipt. */
  async #send(device: string, summary: Reported, kinds: readonly ReceiptKind[]): Promise<void> {
    const { repository, sender, log } = this.parts;
    if (this.parts.sessionOf(device)?.provenLength === undefined) return;
    try {
      const entry = await repository.journal.readEntry(summary.position);
      for (const kind of kinds) {
        const online = this.parts.sessionOf(device);
        if (online?.provenLength === undefined) return;
        // The receipt is sent without an await before: each head is proven from the one that was sent before.
        const receipt = this.#sign(summary, kind, {
          session: online.session,
          from: online.provenLength,
          entry,
        });
        online.provenLength = receipt.head?.length;
        await sender.send(device, receipt);
      }
    } catch (error) {
      if (!(error instanceof StemmaError)) throw error;
      const { versionId } = summary;
      log.error("receipt-not-sent", { device, versionId, text: messageWithCode(error) });
    }
  }

  #sign(
    summary: Reported,
    kind: ReceiptKind,
    { session, from, entry }: { readonly session: number; readonly from: number; readonly entry: Uint8Array },
  ): Receipt {
    const { repository, signer, proofs } = this.parts;
    return signReceipt(signer, {
      kind,
      versionId: summary.versionId,
      fleet: repository.fleet,
      device: summary.record.device,
      generation: repository.device(summary.record.device)?.generation,
      session,
      position: summary.position,
      ...proofs.receipt(from, summary.position, entry),
      backedUpTo: repository.backedUpTo(),
      name: summary.name,
      version: summary.version,
    });
  }
}
