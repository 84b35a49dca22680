/** Reads the provenance of a version, with the openings that were not redacted. */
import type { SaveRecord } from "../../../shared/model/model.js";
import { isProvenance1 } from "../../../shared/provenance/encode-provenance.js";
import { openProvenance, type OpenedProvenance } from "../../../shared/provenance/openings.js";
import type { FleetRepository } from "../../storage/repository/fleet-repository.js";

export type ProvenanceStore = Pick<FleetRepository, "objects" | "isRedacted">;

/**
 * Reads an opened provenance; undefined where there is none, or one of an older form.
 * @throws PROVENANCE_INVALID, OPENINGS_MISMATCH
 */
export async function readOpenedProvenance(
  { objects, isRedacted }: ProvenanceStore,
  { provenance, openings }: Pick<SaveRecord["objects"], "provenance" | "openings">,
): Promise<OpenedProvenance | undefined> {
  if (provenance === undefined || !objects.has(provenance)) return undefined;
  const bytes = await objects.read("provenance", provenance);
  if (!isProvenance1(bytes)) return undefined;
  // A redacted opening may still be there until the next collection.
  const isOpen = openings !== undefined && !isRedacted(openings) && objects.has(openings);
  return openProvenance(bytes, isOpen ? await objects.read("openings", openings) : undefined);
}
