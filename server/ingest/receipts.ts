/** The server's signed word on a version. Called only after the fact it speaks of is fsynced. */
import type { ServerSigner } from "../repository/home.js";
import type { FleetRepository, VersionSummary } from "../repository/fleet-repository.js";
import { signReceipt } from "../../shared/trust/signatures.js";
import type { Receipt, ReceiptKind } from "../../shared/wire/messages.js";

/** Everything that is true of a version by now, in the order in which it became true. */
export function receiptKindsOf(state: VersionSummary["state"]): readonly ReceiptKind[] {
  switch (state) {
    case "recorded":
      return ["recorded"];
    case "stored":
      return ["recorded", "stored"];
    case "released":
      return ["recorded", "stored", "released"];
    // Who retired it asked for its bytes to go: nothing is claimed to be stored, and the device need not keep
    // it.
    case "retired":
      return ["recorded", "released"];
  }
}

/** @param session the device's session that is answered */
export function makeReceipt(
  repository: Pick<FleetRepository, "fleet" | "journal" | "backedUpTo">,
  signer: ServerSigner,
  summary: VersionSummary,
  kind: ReceiptKind,
  session: number,
): Receipt {
  return signReceipt(signer, {
    kind,
    versionId: summary.versionId,
    fleet: repository.fleet,
    device: summary.record.device,
    session,
    position: summary.position,
    head: repository.journal.signedHead(),
    backedUpTo: repository.backedUpTo(),
    name: summary.name,
    version: summary.version,
  });
}
