/**
 * Checks that an offered version is in a journal that enough of the pinned witnesses cosigned, and that this is the
 * journal which the server shows this device. So what a device installs is what everybody can see. Pure.
 * (docs/journal.md, "Public witnesses")
 */
import { StemmaError } from "../../shared/errors.js";
import {
  logLeaf,
  verifyConsistency,
  verifyInclusion,
  type LogRoot,
} from "../../shared/journal/merkle-log.js";
import { readProvenFact } from "../../shared/journal/proven-fact.js";
import { cosignedCheckpoint, type WitnessPolicy } from "../../shared/trust/checkpoint.js";
import type { Offer } from "../../shared/wire/messages.js";

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
  if (logged === undefined)
    throw new StemmaError(
      "COSIGNATURES_MISSING",
      `The server shows no cosigned journal with ${model} in it, and this device asks for cosignatures of ` +
        `${policy.threshold} witnesses. Nothing was installed; ask witnesses to cosign the journal, and bring what they ` +
        "answer with `stemma journal cosign FILE`.",
      { versionId },
    );
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
    throw new StemmaError(
      "CHECKPOINT_INVALID",
      `The server does not prove that ${model} is in the journal that witnesses cosigned. Nothing was installed; somebody may be impersonating the server.`,
      { versionId },
    );
  if (seen === undefined || start === undefined || !isOneHistory(seen, checkpoint, start.hashes))
    throw new StemmaError(
      "HISTORY_UNPROVEN",
      `The server does not prove that the journal which witnesses cosigned is the one that it shows this device. Nothing was installed; ${model} is offered again at the next connection.`,
      { versionId },
    );
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
