/** Examines the storage tiers of a home: whether each can be reached, and how much space its disk has. */
import { nodeClock } from "../../../shared/adapters/node-ports.js";
import { messageWithCode } from "../../../shared/error-text.js";
import { formatBytes } from "../../../shared/cli/output.js";
import { nodeFiles } from "../../../shared/files/node-files.js";
import { GuardedTier } from "../../storage/repository/tiers/guarded-tier.js";
import { readTiersFile, type KnownTier } from "../../storage/repository/tiers/tiers-file.js";
import type { Finding, Subject } from "./finding.js";

const files = nodeFiles();
/** Less than this is too little for a move. */
const lowBytes = 1e9;

export async function examineTiers({ home }: Subject): Promise<Finding[]> {
  let tiers: readonly KnownTier[];
  try {
    tiers = (await readTiersFile(files, home))?.tiers ?? [];
  } catch (error) {
    return [
      {
        what: "storage tiers",
        state: "wrong",
        found: messageWithCode(error),
        advice: "No server or command opens this home until tiers.json is valid or gone.",
      },
    ];
  }
  return await Promise.all(tiers.map(examineTier));
}

async function examineTier(known: KnownTier): Promise<Finding> {
  const what = `storage tier ${known.name}`;
  try {
    const free = await new GuardedTier(known, { files, clock: nodeClock() }).freeBytes();
    const found = `${formatBytes(free)} free at ${known.folder}`;
    if (free >= lowBytes) return { what, state: "good", found };
    return {
      what,
      state: "warning",
      found,
      advice: "Free space there: storage apply --tier stops when it is full. Reading goes on.",
    };
  } catch (error) {
    return {
      what,
      state: "warning",
      found: messageWithCode(error),
      advice: `Mount ${known.folder}, or make it readable: until then complete recoveries of old versions fail. Nothing is lost by that.`,
    };
  }
}
