/** A disk on which an agent has nothing yet. */
import type { DiskUse } from "../../agent/resources/disk-budget.js";

export const freeDisk: DiskUse = {
  packs: 0,
  versions: 0,
  samples: 0,
  transfers: 0,
  trials: 0,
  states: 0,
  journal: 0,
  free: 2 ** 40,
};
