/** The versions of a fleet by their positions in the journal: rows of the index, and what changed since. */
import { LayeredItems } from "../../index/layered-items.js";
import type { SavedRows } from "../../index/layers.js";
import { stateTables } from "./state-tables.js";
import { versionStateCodec } from "./version-state-codec.js";
import type { VersionState } from "./version-state.js";

export type VersionStates = LayeredItems<VersionState>;

export function versionStates(saved: SavedRows, size: number): VersionStates {
  return new LayeredItems<VersionState>(
    { items: stateTables.versions, ids: stateTables.versionIds },
    {
      ...versionStateCodec,
      idOf: ({ versionId }) => versionId,
      copy: (version) => ({ ...version }),
    },
    saved,
    size,
  );
}
