/**
 * Answers who descends from whom: descendants, the most recent common ancestor, and generations between two versions.
 * Follows the index of children, so that an answer costs what it weighs, not what the fleet holds. Pure.
 */
import type { Hash } from "../../../../shared/tensor/tensor.js";
import type { VersionSummary } from "../answers/version-answers.js";
import type { VersionState } from "./version-state.js";
import { requireVersion, summaryOf, versionsIn, type VersionTable } from "./version-table.js";

/** A version that descends from another one. */
export interface Descendant {
  readonly version: VersionSummary;
  /** Trainings between the two, by the shortest way: 1 for a child. */
  readonly generation: number;
}

export interface DescendantPage {
  /** Children first, then their children; of one generation in journal order. */
  readonly descendants: readonly Descendant[];
  /** The number on all pages together. */
  readonly total: number;
}

/** The version from which two others both descend, and that was recorded last of all such versions. */
export interface CommonAncestor {
  readonly version: VersionSummary;
  /** Trainings from it to either, by the shortest way; 0: it is that version itself. */
  readonly generations: { readonly a: number; readonly b: number };
}

/** @throws MODEL_NOT_FOUND */
export function descendantsOf(
  table: VersionTable,
  versionId: Hash,
  { offset = 0, limit = Number.MAX_SAFE_INTEGER }: { readonly offset?: number; readonly limit?: number } = {},
): DescendantPage {
  requireVersion(table, versionId);
  const seen = new Set<Hash>([versionId]);
  const found: { readonly version: VersionState; readonly generation: number }[] = [];
  let parents: readonly Hash[] = [versionId];
  for (let generation = 1; parents.length > 0; generation++) {
    const children: VersionState[] = [];
    for (const parent of parents)
      for (const child of versionsIn(table.state, table.byBase.of(parent))) {
        if (seen.has(child.versionId)) continue;
        seen.add(child.versionId);
        children.push(child);
      }
    children.sort((a, b) => a.position - b.position);
    for (const version of children) found.push({ version, generation });
    parents = children.map((child) => child.versionId);
  }
  const descendants = found.slice(offset, offset + limit).flatMap(({ version, generation }) => {
    const record = table.records.get(version.versionId);
    return record === undefined ? [] : [{ version: summaryOf(version, record), generation }];
  });
  return { descendants, total: found.length };
}

/** Every known ancestor and the version itself, with the trainings between them by the shortest way. */
export function generationsTo(
  { state, records }: Pick<VersionTable, "state" | "records">,
  versionId: Hash,
): ReadonlyMap<Hash, number> {
  const generations = new Map<Hash, number>([[versionId, 0]]);
  // A map gives its entries in the order in which they came, also those that come meanwhile.
  for (const [id, generation] of generations)
    for (const base of records.get(id)?.bases ?? [])
      if (!generations.has(base) && state.versions.has(base)) generations.set(base, generation + 1);
  return generations;
}

/** Finds the most recent common ancestor; undefined where the two have none. @throws MODEL_NOT_FOUND */
export function commonAncestorOf(table: VersionTable, a: Hash, b: Hash): CommonAncestor | undefined {
  requireVersion(table, a);
  requireVersion(table, b);
  const toA = generationsTo(table, a);
  const toB = generationsTo(table, b);
  let newest: VersionState | undefined;
  for (const id of toA.keys()) {
    if (!toB.has(id)) continue;
    const version = table.state.versions.get(id);
    if (version === undefined || !table.records.has(id)) continue;
    // A version is recorded after its bases, so the newest one is no ancestor of another common ancestor.
    if (newest === undefined || version.position > newest.position) newest = version;
  }
  if (newest === undefined) return undefined;
  const { versionId } = newest;
  return {
    version: requireVersion(table, versionId),
    generations: { a: toA.get(versionId) ?? 0, b: toB.get(versionId) ?? 0 },
  };
}
