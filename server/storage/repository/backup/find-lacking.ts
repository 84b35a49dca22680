/**
 * Finds what a backup lacks: damaged packs, and what versions need and the store does not have. Where the last backup
 * in its folder lacked nothing, its packs hold all that was needed then, and a pack's content never changes. So packs
 * that it has need not be read again, and a version needs another look only where facts name it since, unless an object
 * that something still needs is gone with its pack.
 */
import { join } from "node:path";
import { isStemmaError } from "../../../../shared/errors.js";
import { PackFiles } from "../../../../shared/objects/pack-files.js";
import { packSuffix } from "../../../../shared/objects/pack-file-writer.js";
import { isHash } from "../../../../shared/tensor/hash.js";
import type { Hash } from "../../../../shared/tensor/tensor.js";
import type { CheckReport } from "../answers/store-answers.js";
import { findMissing, packProblems } from "../check-fleet.js";
import { liveObjects } from "../collection.js";
import type { RepositoryContext } from "../context.js";
import type { FleetState } from "../state/state.js";
import type { VersionState } from "../state/version-state.js";
import { versionsInUse } from "../state/versions-in-use.js";
import type { BackupManifest } from "./backup-manifest.js";

export interface EarlierBackup {
  readonly manifest: BackupManifest;
  /** The folder that was named, as facts state it. */
  readonly location: string;
  /** The fleet's folder in it. */
  readonly target: string;
}

/** @param earlier the last backup in the same folder */
export async function findLacking(
  context: RepositoryContext,
  earlier: EarlierBackup | undefined,
): Promise<CheckReport["problems"]> {
  const whole = earlier && lackedNothing(context.state, earlier) ? earlier : undefined;
  const inPacks = await packProblems(context, new Set(whole && packsOf(whole.manifest)));
  const versions = whole && (await versionsToLookAt(context, whole));
  return [...inPacks, ...(await findMissing(context, versions))];
}

/** True if a fact states the backup: one with problems has none. */
function lackedNothing(
  { backups }: Pick<FleetState, "backups">,
  { manifest, location }: EarlierBackup,
): boolean {
  return backups.some((backup) => backup.position === manifest.head.length && backup.location === location);
}

function packsOf({ packs }: BackupManifest): readonly string[] {
  return packs.flatMap(({ name }) => (name.endsWith(packSuffix) ? name.slice(0, -packSuffix.length) : []));
}

/** Returns them in no order; undefined: all. */
async function versionsToLookAt(
  context: RepositoryContext,
  earlier: EarlierBackup,
): Promise<Iterable<VersionState> | undefined> {
  if (await hasLost(context, earlier)) return undefined;
  const { versions } = context.state;
  const ids = await namedSince(context, earlier.manifest.head.length);
  // A retired version is needed again once something uses it.
  for (const id of versionsInUse(context.state).keys())
    if (versions.get(id)?.retired !== undefined) ids.add(id);
  return [...ids].flatMap((id) => versions.get(id) ?? []);
}

/** True if an object may be needed that is gone with a pack of the earlier backup. */
async function hasLost(context: RepositoryContext, { manifest, target }: EarlierBackup): Promise<boolean> {
  const here = new Set(context.objects.packs().map(({ name }) => name));
  const gone = packsOf(manifest).filter((pack) => !here.has(pack));
  try {
    const lost = await lostWith(context, target, gone);
    if (lost.length === 0) return false;
    const live = await liveObjects(context);
    return lost.some((id) => live.has(id));
  } catch (error) {
    // A pack cannot be read, or the counts cannot be made: a look at everything tells why.
    if (isStemmaError(error)) return true;
    throw error;
  }
}

/** The objects of these packs of a backup that the store has nowhere else. @throws PACK_CORRUPT, FILE_MISSING, … */
async function lostWith(
  { files, objects }: Pick<RepositoryContext, "files" | "objects">,
  target: string,
  packs: readonly string[],
): Promise<readonly Hash[]> {
  const copies = new PackFiles(files, join(target, "packs"));
  const lost: Hash[] = [];
  for (const pack of packs) {
    const { entries } = await copies.scan(pack);
    for (const { id } of entries) if (!objects.has(id)) lost.push(id);
  }
  return lost;
}

/** The versions that the facts from a position on name. */
async function namedSince(
  { journal, state: { versions } }: Pick<RepositoryContext, "journal" | "state">,
  position: number,
): Promise<Set<Hash>> {
  const named = new Set<Hash>();
  for await (const { fact } of journal.entries(position))
    for (const text of textsIn(fact)) if (isHash(text) && versions.has(text)) named.add(text);
  return named;
}

function* textsIn(value: unknown): Generator<string, void, undefined> {
  if (typeof value === "string") yield value;
  else if (typeof value === "object" && value !== null)
    for (const part of Object.values(value)) yield* textsIn(part);
}
