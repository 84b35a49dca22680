/**
 * Checks the owner's signed statement that a fleet's journal was put back to an older state. A device that demands
 * releases asks for it: whoever has the server's key alone cannot put the fleet back. It names the journal up to and
 * with the fact `restored` by length and root, so that it holds for this one restore in this one history. The keys are
 * those of the role `targets`. The file of it goes to the signers like a change of releases. Pure.
 */
import * as z from "zod";
import type { LogRoot } from "../../journal/merkle-log.js";
import { isHash } from "../../tensor/hash.js";
import { parseStrictJson, plainJson } from "../../tensor/strict-json.js";
import type { Hash } from "../../tensor/tensor.js";
import { maxRestoreApprovalBytes } from "../../wire/limits.js";
import type { Signer } from "../keys.js";
import {
  addSignature,
  metadataSignature,
  parseMetadata,
  metadataText,
  validSigners,
  type Metadata,
  type MetadataSignature,
  type Root,
} from "./metadata.js";
import { keySignsNothing, restoreInvalid } from "./release-errors.js";

const count = z.number().int().min(0).max(Number.MAX_SAFE_INTEGER);
const signedSchema = z.strictObject({
  /** The type is no role of TUF: a signature of this is never one of metadata. */
  _type: z.literal("x-stemma-restored"),
  fleet: z.string().min(1).max(64),
  /** Facts up to and with the fact `restored`, and their Merkle root. */
  length: count.min(1),
  root: z.custom<Hash>(isHash),
  /** The first position whose facts, recorded before the restore, may be lost. */
  position: count,
});
export type RestoreStatement = z.infer<typeof signedSchema>;

const approvalSchema = z.strictObject({
  signatures: z.array(metadataSignature).max(64),
  signed: signedSchema,
});
export interface RestoreApproval {
  readonly signatures: readonly MetadataSignature[];
  readonly signed: RestoreStatement;
}

const fileSchema = z.strictObject({
  kind: z.literal("stemma-restore-approval"),
  format: z.literal(1),
  /** The newest root of releases: whose signatures are needed. */
  root: z.string(),
  approval: z.unknown(),
});
/** The file that is carried to the signers. */
export interface RestoreApprovalFile {
  readonly root: Metadata<"root">;
  readonly approval: RestoreApproval;
}

export function unsignedRestore(statement: Omit<RestoreStatement, "_type">): RestoreApproval {
  return { signatures: [], signed: { _type: "x-stemma-restored", ...statement } };
}

export function restoreApprovalText({ signatures, signed }: RestoreApproval): string {
  return JSON.stringify({ signatures, signed });
}

/** @throws RELEASE_METADATA_INVALID */
export function parseRestoreApproval(text: string): RestoreApproval {
  if (Buffer.byteLength(text) > maxRestoreApprovalBytes)
    throw restoreInvalid(`it is longer than ${maxRestoreApprovalBytes} bytes`);
  const json = plainJson(
    parseStrictJson(text, { maxDepth: 5, maxValues: 1000, wholeNumbersOnly: true }, (why) => {
      throw restoreInvalid(`it is not JSON: ${why}`);
    }),
  );
  return checkRestoreApproval(json);
}

function checkRestoreApproval(json: unknown): RestoreApproval {
  const parsed = approvalSchema.safeParse(json);
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  throw restoreInvalid(`it is malformed at ${issue?.path.join(".") || "its beginning"}`, parsed.error);
}

/** Counts how many of the owner's keys signed, and how many have to. */
export function restoreSignatures(
  { signed: { roles }, signed: root }: Pick<Metadata<"root">, "signed">,
  approval: RestoreApproval,
): { readonly signatures: number; readonly threshold: number } {
  return { signatures: validSigners(root, "targets", approval).size, threshold: roles.targets.threshold };
}

/** The journal that the owner accepts. @throws RELEASE_METADATA_INVALID */
export function approvedLog(
  { root, fleet }: { readonly root: Root; readonly fleet: string },
  approval: RestoreApproval,
): LogRoot & { readonly position: number } {
  if (approval.signed.fleet !== fleet)
    throw restoreInvalid(`it is of the fleet ${approval.signed.fleet}, and this is ${fleet}`);
  const { signatures, threshold } = restoreSignatures({ signed: root }, approval);
  if (signatures < threshold)
    throw restoreInvalid(
      `it has ${signatures} of the ${threshold} signatures of targets that root version ${root.version} asks for`,
    );
  const { length, root: logRoot, position } = approval.signed;
  return { length, root: logRoot, position };
}

/** @throws KEY_INVALID where the key is not one of those that sign releases */
export function signRestore(file: RestoreApprovalFile, signer: Signer): RestoreApprovalFile {
  const approval = addSignature(file.root.signed, "targets", file.approval, signer);
  if (approval !== undefined) return { ...file, approval };
  throw keySignsNothing(signer.publicKey, "restores");
}

export function describeRestore({ approval }: RestoreApprovalFile): readonly string[] {
  const { fleet, length, root, position } = approval.signed;
  return [
    `accepts that the fleet ${fleet} was restored: what it recorded after its first ${position} facts may be lost`,
    `the journal with this restore has ${length} facts, root ${root}`,
  ];
}

export function restoreFileText({ root, approval }: RestoreApprovalFile): string {
  const file = { kind: "stemma-restore-approval", format: 1, root: metadataText(root), approval };
  return `${JSON.stringify(file, undefined, 1)}\n`;
}

/**
 * Parses a file for a restore; undefined where the text is the file of something else. @throws RELEASE_METADATA_INVALID
 */
export function parseRestoreFile(text: string): RestoreApprovalFile | undefined {
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch {
    return undefined;
  }
  if ((json as { readonly kind?: unknown } | null)?.kind !== "stemma-restore-approval") return undefined;
  const parsed = fileSchema.safeParse(json);
  if (!parsed.success) throw restoreInvalid("its file is malformed", parsed.error);
  return {
    root: parseMetadata("root", parsed.data.root),
    approval: checkRestoreApproval(parsed.data.approval),
  };
}
