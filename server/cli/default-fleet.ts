/** Names the default fleet where a command acts on it although nobody named a fleet. */
import type { ServerOperations } from "../interface/api/server-operations.js";

/** Operations on a fleet that change something, or have something done there. */
export const actingOperations: ReadonlySet<string> = new Set<keyof ServerOperations>([
  ...(["import", "tag", "hold", "retire", "redact", "setSuccessor", "transfer"] as const),
  ...(["saveDerived", "evaluateQuery", "saveQuery", "deleteQuery"] as const),
  ...([
    "train",
    "reduce",
    "mergeModels",
    "averageFleet",
    "evaluate",
    "replay",
    "spotCheck",
    "replayChanged",
    "replayChangedStory",
    "queueReplay",
    "cancelReplay",
  ] as const),
  ...(["rebaseEngine", "approveEngine", "removeEngine", "approveRecipe", "revokeRecipe"] as const),
  ...(["beginDeposit", "depositObjects", "finishDeposit"] as const),
  ...(["addDataset", "pushDataset", "removeDataset"] as const),
  ...(["enroll", "invite", "createBatch", "revokeBatch", "acceptDevices", "renewDevice", "revoke"] as const),
  ...(["leaseLine", "endLease"] as const),
  ...(["assign", "rollbackDevice", "labelDevices", "setDevices", "quarantineDevice"] as const),
  ...(["removeDevice", "eraseDevices", "trainOnDevice", "evaluateOnDevice", "command"] as const),
  ...(["addAuthority", "removeAuthority", "takeRevocationList"] as const),
  ...(["createRollout", "setRollout", "approveRollout", "undoRollout"] as const),
  ...(["publishReleases", "publishOwnerTime", "approveRestore", "cosignJournal"] as const),
  ...(["addWebhook"] as const),
  ...(["setRetention", "applyRetention", "setDropPolicy", "applyDropPolicies", "dropTensors"] as const),
  ...(["keepTensors", "collect", "reindex", "applyStorage", "applyTier", "backup"] as const),
]);

/** The same operations; before the first that acts, `say` is called with the line that names the fleet. */
export function namingDefaultFleet(
  operations: ServerOperations,
  fleet: string,
  say: (line: string) => void,
): ServerOperations {
  let isSaid = false;
  return new Proxy(operations, {
    get(target, name): unknown {
      const value: unknown = Reflect.get(target, name, target);
      if (isSaid || typeof value !== "function" || !actingOperations.has(String(name))) return value;
      return (...given: unknown[]): unknown => {
        if (!isSaid) say(`stemma: in the fleet ${fleet}, the default (--fleet names another)`);
        isSaid = true;
        return Reflect.apply(value, target, given) as unknown;
      };
    },
  });
}
