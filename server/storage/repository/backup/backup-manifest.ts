/** The manifest of a fleet's backup: its schema, and functions that read and write its file. */
import { join } from "node:path";
import * as z from "zod";
import { StemmaError } from "../../../../shared/errors.js";
import { writeDurably } from "../../../../shared/files/durable-write.js";
import type { SignedHead } from "../../../../shared/journal/journal.js";
import type { Files } from "../../../../shared/ports.js";
import { isHash } from "../../../../shared/tensor/hash.js";
import type { Hash } from "../../../../shared/tensor/tensor.js";

export interface BackedUpPack {
  readonly name: string;
  readonly bytes: number;
  readonly sha256: Hash;
}

/** Written last, so that an interrupted backup leaves the manifest of the previous one. */
export interface BackupManifest {
  readonly kind: "stemma-backup";
  readonly format: 1;
  readonly fleet: string;
  readonly madeAtMs: number;
  /** The journal's signed head at the time of the backup; its length is the backup's position. */
  readonly head: SignedHead;
  /** Name of the folder with the journal's copy, in the same folder as the manifest. */
  readonly journal: string;
  readonly packs: readonly BackedUpPack[];
}

const hash = z.custom<Hash>(isHash, "not a hash");
const count = z.number().int().min(0).max(Number.MAX_SAFE_INTEGER);
const schema: z.ZodType<BackupManifest> = z.object({
  kind: z.literal("stemma-backup"),
  format: z.literal(1),
  fleet: z.string().max(64),
  madeAtMs: z.number(),
  head: z.object({
    length: count,
    chain: hash,
    root: hash,
    publicKey: z.string().max(256),
    signature: z.string().max(1024),
  }),
  journal: z.string().regex(/^journal-[0-9]+$/),
  packs: z
    .array(
      z.object({
        name: z
          .string()
          .regex(/^[0-9a-z._-]{1,128}$/)
          .refine((name) => !name.startsWith(".")),
        bytes: count,
        sha256: hash,
      }),
    )
    .max(10_000_000),
});

export function fleetBackupFolder(folder: string, fleet: string): string {
  return join(folder, "fleets", fleet);
}
function manifestPath(fleetFolder: string): string {
  return join(fleetFolder, "backup.json");
}
const maxManifestBytes = 2 ** 31 - 1;

/** Reads a backup's manifest; undefined where no backup was completed. @throws BACKUP_INVALID */
export async function readManifest(files: Files, fleetFolder: string): Promise<BackupManifest | undefined> {
  const path = manifestPath(fleetFolder);
  const stat = await files.stat(path);
  if (stat === undefined) return undefined;
  const invalid = (cause: unknown): StemmaError =>
    new StemmaError(
      "BACKUP_INVALID",
      `${path} is not a backup manifest of format 1. Use another folder, or the Stemma that wrote it.`,
      { path, cause },
    );
  if (stat.size > maxManifestBytes) throw invalid("too long");
  let value: unknown;
  try {
    value = JSON.parse(Buffer.from(await files.read(path)).toString("utf8"));
  } catch (cause) {
    throw invalid(cause);
  }
  const parsed = schema.safeParse(value);
  if (!parsed.success) throw invalid(parsed.error);
  return parsed.data;
}

export async function writeManifest(
  files: Files,
  fleetFolder: string,
  manifest: BackupManifest,
): Promise<void> {
  await writeDurably(files, manifestPath(fleetFolder), Buffer.from(`${JSON.stringify(manifest)}\n`));
}
