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

/**
 * @param leaves of the version's model
 * @param announced the bytes of an object that came with the version; undefined: the store has it
 * @throws ARCHITECTURE_MISMATCH where no base has this layout, MODEL_FILE_MALFORMED
 */
export async function requireLayoutOfBase(
  { objects, get, claim }: Pick<FleetRepository, "objects" | "get" | "claim">,
  record: SaveRecord,
  leaves: LeafTable,
  announced: (id: Hash) => Uint8Array | undefined,
): Promise<void> {
  const own = layoutIdOf(record);
  if (own === undefined) return;
  const ofBases = record.bases.flatMap((id) => {
    const base = (get(id) ?? claim(id))?.record;
    return base?.architecture === record.architecture ? (layoutIdOf(base) ?? []) : [];
  });
  const layout = decodeLayout(announced(own) ?? (await objects.read("attachment", own)), leaves);
  let why = "none of its bases has one";
  for (const id of ofBases) {
    if (!objects.has(id)) {
      why = "that of its base is not stored any more";
      continue;
    }
    const difference = layoutDifference(
      layout,
      decodeLayout(await objects.read("attachment", id), leaves),
      leaves,
    );
    if (difference === undefined) return;
    why = difference;
  }
  throw new StemmaError(
    "ARCHITECTURE_MISMATCH",
    `The version comes with a layout of another tool's file that is not its base's: ${why}. Save the file that the ` +
      "program wrote with `stemma agent save`, or one with the names of the architecture.",
  );
}
