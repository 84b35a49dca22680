/**
 * The layout that a device announces with a version, compared with that of its base. It decides which weight each
 * tensor of another tool's file is: a layout of the device's own making would give programs another model than the one
 * that was measured.
 */
import { StemmaError } from "../../../../shared/errors.js";
import { decodeLayout } from "../../../../shared/layouts/layout.js";
import { layoutIdOf } from "../../../../shared/layouts/base-layout.js";
import { layoutDifference } from "../../../../shared/layouts/layout-difference.js";
import type { LeafTable, SaveRecord } from "../../../../shared/model/model.js";
import type { Hash } from "../../../../shared/tensor/tensor.js";
import type { FleetRepository } from "../../../storage/repository/fleet-repository.js";

type Store = Pick<FleetRepository, "objects" | "get" | "claim">;

/** Ancestors that are looked at. */
const maxAncestors = 1000;

/**
 * @param leaves of the version's model
 * @param announced the bytes of an object that came with the version; undefined: the store has it
 * @throws ARCHITECTURE_MISMATCH where the nearest version with a stored layout has another, MODEL_FILE_MALFORMED
 */
export async function requireLayoutOfBase(
  repository: Store,
  record: SaveRecord,
  leaves: LeafTable,
  announced: (id: Hash) => Uint8Array | undefined,
): Promise<void> {
  const { objects } = repository;
  const own = layoutIdOf(record);
  if (own === undefined) return;
  const layout = decodeLayout(announced(own) ?? (await objects.read("attachment", own)), leaves);
  let why = "none of the versions that it came from has one that is still stored";
  for (const id of storedLayouts(repository, record)) {
    const stored = decodeLayout(await objects.read("attachment", id), leaves);
    const difference = layoutDifference(layout, stored, leaves);
    if (difference === undefined) return;
    why = difference;
  }
  throw new StemmaError(
    "ARCHITECTURE_MISMATCH",
    `The version comes with a layout of another tool's file that is not its base's: ${why}. Save the file that the ` +
      "program wrote with `stemma agent save`, or one with the names of the architecture.",
  );
}

/** The layouts of the nearest versions that it came from: where a base's is collected, that of the base's own base. */
function storedLayouts(
  { objects, get, claim }: Store,
  { architecture, bases }: SaveRecord,
): ReadonlySet<Hash> {
  const found = new Set<Hash>();
  const seen = new Set(bases);
  for (const id of seen) {
    const base = (get(id) ?? claim(id))?.record;
    if (base === undefined || base.architecture !== architecture) continue;
    const layout = layoutIdOf(base);
    if (layout !== undefined && objects.has(layout)) found.add(layout);
    else for (const before of base.bases) if (seen.size < maxAncestors) seen.add(before);
  }
  return found;
}
