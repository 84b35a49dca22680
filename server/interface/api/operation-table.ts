/**
 * Every operation of the server, once. Routes (server/interface/http/routes), client (client.ts of that folder), the
 * interface of both (server-operations.ts), the API description (api-description.ts) and checks of commands
 * derive from this table.
 */
import { authorityOperations } from "./devices/authority-definitions.js";
import { batchOperations } from "./devices/batch-definitions.js";
import { bundleOperations } from "./models/bundle-definitions.js";
import { damageOperations } from "./stores/damage-definitions.js";
import { datasetOperations } from "./models/dataset-definitions.js";
import { deviceOperations } from "./devices/device-definitions.js";
import { deviceUpkeepOperations } from "./devices/device-upkeep-definitions.js";
import { dropOperations } from "./stores/drop-definitions.js";
import { engineOperations } from "./models/engine-definitions.js";
import { journalOperations } from "./stores/journal-definitions.js";
import { leaseOperations } from "./stores/lease-definitions.js";
import { lineageOperations } from "./models/lineage-definitions.js";
import { modelOperations } from "./models/model-definitions.js";
import { planningOperations } from "./stores/planning-definitions.js";
import { queryOperations } from "./models/query-definitions.js";
import { recipeOperations } from "./models/recipe-definitions.js";
import { releaseOperations } from "./rollouts/release-definitions.js";
import { replayOperations } from "./models/replay-definitions.js";
import { rolloutOperations } from "./rollouts/rollout-definitions.js";
import { serverOperations } from "./server-definitions.js";
import { storageOperations } from "./stores/storage-definitions.js";
import { tierOperations } from "./stores/tier-definitions.js";
import { traceOperations } from "./trace-definitions.js";
import { trainingOperations } from "./models/training-definitions.js";
import { webhookOperations } from "./webhook-definitions.js";

/** The operations in the order and under the headings of the API description. */
export const operationGroups = {
  "The server": serverOperations,
  "The journal of a fleet": { ...journalOperations, ...traceOperations },
  "Facts for other programs": webhookOperations,
  "Devices of a fleet": {
    ...deviceOperations,
    ...batchOperations,
    ...authorityOperations,
    ...deviceUpkeepOperations,
  },
  "Rollouts of a fleet": rolloutOperations,
  "Signed releases of a fleet": releaseOperations,
  "Models and their versions": {
    ...modelOperations,
    ...queryOperations,
    ...lineageOperations,
    ...trainingOperations,
  },
  "Models that travel": bundleOperations,
  "Named data": datasetOperations,
  "Replays, training engines and recipes": { ...replayOperations, ...engineOperations, ...recipeOperations },
  "Storage and retention": {
    ...storageOperations,
    ...dropOperations,
    ...tierOperations,
    ...planningOperations,
    ...leaseOperations,
    ...damageOperations,
  },
};

export const operationTable = {
  ...serverOperations,
  ...journalOperations,
  ...traceOperations,
  ...webhookOperations,
  ...deviceOperations,
  ...batchOperations,
  ...authorityOperations,
  ...deviceUpkeepOperations,
  ...rolloutOperations,
  ...releaseOperations,
  ...modelOperations,
  ...queryOperations,
  ...lineageOperations,
  ...trainingOperations,
  ...bundleOperations,
  ...datasetOperations,
  ...replayOperations,
  ...engineOperations,
  ...recipeOperations,
  ...storageOperations,
  ...dropOperations,
  ...planningOperations,
  ...damageOperations,
  ...leaseOperations,
  ...tierOperations,
};
export type OperationTable = typeof operationTable;
