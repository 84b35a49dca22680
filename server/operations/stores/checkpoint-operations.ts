/** Operations on checkpoints of a fleet's journal: for witnesses to cosign, and what they answered. */
import { journalShorter } from "../../../shared/missing-errors.js";
import { noteAlgorithms, verifierKeyText } from "../../../shared/trust/signed-note.js";
import type { Hash } from "../../../shared/tensor/tensor.js";
import type { CallOutput, ServerOperations } from "../../interface/api/server-operations.js";
import type { OperationsContext } from "../../services/context/operations-context.js";
import type { KeptCheckpoint } from "../../storage/repository/checkpoints.js";
import type { FleetRepository } from "../../storage/repository/fleet-repository.js";

export function checkpointOperations({
  fleets,
  live,
  home: { signer },
}: OperationsContext): Pick<ServerOperations, "journalCheckpoint" | "cosignJournal"> {
  const shown = async (
    { checkpoints }: FleetRepository,
    { text, length, root, cosignatures }: KeptCheckpoint,
  ): Promise<CallOutput<"cosignJournal">> => {
    const origin = await checkpoints.origin();
    const verifierKey = verifierKeyText(origin, noteAlgorithms.ed25519, signer.publicKey);
    return { origin, verifierKey, length, root, text, cosigners: cosignatures.map(({ name }) => name) };
  };
  return {
    journalCheckpoint: async ({ fleet, from }) => {
      const repository = await fleets.get(fleet);
      const present = await repository.checkpoints.present();
      const request = from === undefined ? null : requestOf(repository, from, present);
      return { ...(await shown(repository, present)), request };
    },
    cosignJournal: async ({ fleet, checkpoint }) => {
      const repository = await fleets.get(fleet);
      const kept = await repository.checkpoints.cosign(checkpoint);
      await (await live?.fleet(fleet))?.cosigned();
      return await shown(repository, kept);
    },
  };
}

/** The body of `add-checkpoint`. @throws NOT_FOUND */
function requestOf({ journal }: FleetRepository, from: number, { text, length }: KeptCheckpoint): string {
  if (from > length) throw journalShorter(length, from);
  const base64 = (hash: Hash): string => Buffer.from(hash, "hex").toString("base64");
  const proof = from === 0 ? [] : journal.proveStart(from, length).map(base64);
  return [`old ${from}`, ...proof, "", text].join("\n");
}
