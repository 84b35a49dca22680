/** Proves to a device that an offered version is in the journal that witnesses cosigned. */
import { maxProvenEntryBytes } from "../../../../shared/wire/limits.js";
import type { LoggedVersion } from "../../../../shared/wire/messages.js";
import type { KeptCheckpoint } from "../../../storage/repository/checkpoints.js";
import type { FleetRepository } from "../../../storage/repository/fleet-repository.js";

interface Logged {
  readonly checkpoint: KeptCheckpoint;
  readonly position: number;
  readonly entry: Uint8Array;
  /** The size of the whole in a message, roughly. */
  readonly bytes: number;
}

/** Most bytes of the hashes of two proofs, and of what is around them. */
const proofBytes = 4096;

/** Reads what proves the fact at `position`; undefined where no kept checkpoint has it, or it is too long. */
export async function readLogged(
  { journal, checkpoints }: Pick<FleetRepository, "journal" | "checkpoints">,
  position: number,
): Promise<Logged | undefined> {
  const checkpoint = await checkpoints.covering(position);
  if (checkpoint === undefined) return undefined;
  const entry = await journal.readEntry(position);
  if (entry.length > maxProvenEntryBytes) return undefined;
  return { checkpoint, position, entry, bytes: checkpoint.text.length + entry.length + proofBytes };
}

/** @param provenLength undefined: the device has no head in this session, and gets no proof */
export function loggedVersion(
  { journal }: Pick<FleetRepository, "journal">,
  { checkpoint: { text, length }, position, entry }: Logged,
  provenLength: number | undefined,
): LoggedVersion | undefined {
  if (provenLength === undefined) return undefined;
  const [from, to] = [Math.min(length, provenLength), Math.max(length, provenLength)];
  return {
    checkpoint: text,
    fact: { position, entry, hashes: journal.proveEntry(position, length) },
    start: { length: from, hashes: journal.proveStart(from, to) },
  };
}
