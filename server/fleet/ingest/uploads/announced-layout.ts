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
import { versionWithLayout } from "../../../services/context/inherited-layout.js";
import type { VersionSummary } from "../../../storage/repository/answers/version-answers.js";
import type { FleetRepository } from "../../../storage/repository/fleet-repository.js";

type Store = Pick<FleetRepository, "objects" | "get" | "claim">;

type Base = Pick<VersionSummary, "versionId" | "record">;

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
  const get = (id: Hash): Base | undefined => repository.get(id) ?? repository.claim(id);
  for (const id of record.bases) {
    const base = get(id);
    if (base?.record.architecture !== record.architecture) continue;
    // The base's may be collected while the device was away: then that of the base's own base counts.
    const found = versionWithLayout({ get, objects }, base);
    if (found === undefined) continue;
    const stored = decodeLayout(await objects.read("attachment", found.layout), leaves);
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
