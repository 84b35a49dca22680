/**
 * Checks that an offered version is in a journal that enough of the pinned witnesses cosigned, and that this is the
 * journal which the server shows this device. So what a device installs is what everybody can see. Pure.
 * (docs/journal.md, "Public witnesses")
 */
import {
  logLeaf,
  verifyConsistency,
  verifyInclusion,
  type LogRoot,
} from "../../shared/journal/merkle-log.js";
import { readProvenFact } from "../../shared/journal/proven-fact.js";
import { cosignedCheckpoint, type WitnessPolicy } from "../../shared/trust/checkpoint.js";
import type { Offer } from "../../shared/wire/messages.js";
import { historyNotShown, notCosigned, notInCosigned } from "./offer-errors.js";

/**
 * @param seen the newest head that this device has believed
 * @throws COSIGNATURES_MISSING, CHECKPOINT_INVALID, HISTORY_UNPROVEN
 */
export function requireCosigned(
  policy: WitnessPolicy,
  seen: LogRoot | undefined,
  { versionId, logged, name, version }: Pick<Offer, "versionId" | "logged" | "name" | "version">,
): void {
  const model = `${name}:${version}`;
  if (logged === undefined) throw notCosigned(model, policy.threshold, versionId);
  const { checkpoint: text, fact, start } = logged;
  const checkpoint = cosignedCheckpoint(policy, text);
  const { length, root } = checkpoint;
  const { position, entry, hashes } = fact;
  const content = readProvenFact(entry);
  if (
    content?.type !== "recorded" ||
    content.versionId !== versionId ||
    !verifyInclusion({ leaf: logLeaf(entry), position, length, root, proof: hashes })
  )
    throw notInCosigned(model, versionId);
  if (seen === undefined || start === undefined || !isOneHistory(seen, checkpoint, start.hashes))
    throw historyNotShown(model, versionId);
}

/** True if the shorter journal is the start of the longer one. */
function isOneHistory(
  a: LogRoot,
  b: LogRoot,
  proof: Parameters<typeof verifyConsistency>[0]["proof"],
): boolean {
  const [from, to] = a.length <= b.length ? [a, b] : [b, a];
  return verifyConsistency({ from, to, proof });
}
