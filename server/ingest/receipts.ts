/** The server's signed receipts of a version. A receipt is made only after its fact is fsynced. */
import { signReceipt } from "../../shared/trust/signatures.js";
import type { Receipt, ReceiptKind } from "../../shared/wire/messages.js";
import type { EventHub } from "../events/event-hub.js";
import type { FleetRepository, VersionSummary } from "../repository/fleet-repository.js";
import type { ServerSigner } from "../repository/home.js";
import type { DeviceSender, DeviceSession } from "./device-sender.js";

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
  sessionOf(device: string): Pick<DeviceSession, "session"> | undefined;
}

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
    await this.#send(record.device, summary, kind);
  }

  /** Sends all receipts that hold for a version now. */
  async repeat(device: string, summary: VersionSummary): Promise<void> {
    for (const kind of receiptKindsOf(summary.state)) await this.#send(device, summary, kind);
  }

  async #send(device: string, summary: VersionSummary, kind: ReceiptKind): Promise<void> {
    const online = this.parts.sessionOf(device);
    if (online === undefined) return;
    await this.parts.sender.send(device, this.#sign(summary, kind, online.session));
  }

  #sign(summary: VersionSummary, kind: ReceiptKind, session: number): Receipt {
    const { repository, signer } = this.parts;
    return signReceipt(signer, {
      kind,
      versionId: summary.versionId,
      fleet: repository.fleet,
      device: summary.record.device,
      generation: repository.device(summary.record.device)?.generation,
      session,
      position: summary.position,
      head: repository.journal.signedHead(),
      backedUpTo: repository.backedUpTo(),
      name: summary.name,
      version: summary.version,
    });
  }
}
