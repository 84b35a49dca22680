/**
 * tiers.json of a home, and the identity file of a tier's folder. The identity binds a folder to one home: an empty
 * mount point, another tier and another home's tier are not taken for it.
 */
import { join } from "node:path";
import * as z from "zod";
import { isStemmaError, StemmaError } from "../../../../shared/errors.js";
import { writeDurably } from "../../../../shared/files/durable-write.js";
import type { Files } from "../../../../shared/ports.js";

const identifier = z.string().regex(/^[0-9a-f]{32}$/);
const name = z.string().min(1).max(64);

const tiersFile = z.object({
  kind: z.literal("stemma-tiers"),
  format: z.literal(1),
  /** The id of this home, made with its first tier. */
  home: identifier,
  tiers: z
    .array(z.object({ name, folder: z.string().min(1).max(4096), id: identifier, addedAtMs: z.number() }))
    .max(16),
});
export type TiersFile = z.infer<typeof tiersFile>;
export type KnownTier = TiersFile["tiers"][number];

const identityFile = z.object({
  kind: z.literal("stemma-tier"),
  format: z.literal(1),
  id: identifier,
  home: identifier,
  /** The tier's name, for people. */
  name,
  homePath: z.string().max(4096),
});
export type TierIdentity = z.infer<typeof identityFile>;

const maxFileBytes = 65_536;
export const identityName = "stemma-tier.json";

function pathIn(home: string): string {
  return join(home, "tiers.json");
}

/** Reads the file of tiers; undefined where the home never had a tier. @throws TIER_INVALID */
export async function readTiersFile(files: Files, home: string): Promise<TiersFile | undefined> {
  const value = await readJson(files, pathIn(home));
  if (value === undefined) return undefined;
  const parsed = tiersFile.safeParse(value);
  if (parsed.success) return parsed.data;
  throw new StemmaError(
    "TIER_INVALID",
    `${pathIn(home)} is damaged, or a newer Stemma wrote it: ${z.prettifyError(parsed.error).split("\n", 1)[0]}. Put it back from a copy. Without one, move it away, delete ${identityName} in each tier's folder, and add the tiers again with \`stemma storage tier add\`.`,
    { path: pathIn(home) },
  );
}

export async function writeTiersFile(files: Files, home: string, content: TiersFile): Promise<void> {
  await writeDurably(files, pathIn(home), Buffer.from(`${JSON.stringify(content)}\n`));
}

/**
 * Reads a tier's identity; undefined where the folder has none. @throws FILE_FAILED, TIER_INVALID for a file
 * that is something else
 */
export async function readIdentity(files: Files, folder: string): Promise<TierIdentity | undefined> {
  const value = await readJson(files, join(folder, identityName));
  if (value === undefined) return undefined;
  const parsed = identityFile.safeParse(value);
  if (parsed.success) return parsed.data;
  throw new StemmaError(
    "TIER_INVALID",
    `${join(folder, identityName)} is damaged, or a newer Stemma wrote it. Use another folder, or the Stemma that wrote it.`,
    { folder },
  );
}

export async function writeIdentity(files: Files, folder: string, identity: TierIdentity): Promise<void> {
  await writeDurably(files, join(folder, identityName), Buffer.from(`${JSON.stringify(identity)}\n`));
}

/** Reads JSON; undefined where there is no such file; null where it is not JSON. */
async function readJson(files: Files, path: string): Promise<unknown> {
  try {
    const stat = await files.stat(path);
    if (stat === undefined) return undefined;
    if (stat.kind !== "file" || stat.size > maxFileBytes) return null;
    return JSON.parse(Buffer.from(await files.read(path)).toString("utf8")) as unknown;
  } catch (error) {
    if (isStemmaError(error, "FILE_MISSING")) return undefined;
    if (error instanceof SyntaxError) return null;
    throw error;
  }
}

export function newIdentifier(random: { bytes(count: number): Uint8Array }): string {
  return Buffer.from(random.bytes(16)).toString("hex");
}
