/**
 * Every operation of the server, once. Routes (server/http/routes), client (server/http/client.ts), the
 * interface of both (server-operations.ts), the API description (api-description.ts) and checks of commands
 * derive from this table.
 */
import { authorityOperations } from "./authority-definitions.js";
import { batchOperations } from "./batch-definitions.js";
import { damageOperations } from "./damage-definitions.js";
import { datasetOperations } from "./dataset-definitions.js";
import { deviceOperations } from "./device-definitions.js";
import { deviceUpkeepOperations } from "./device-upkeep-definitions.js";
import { dropOperations } from "./drop-definitions.js";
import { engineOperations } from "./engine-definitions.js";
import { journalOperations } from "./journal-definitions.js";
import { lineageOperations } from "./lineage-definitions.js";
import { modelOperations } from "./model-definitions.js";
import { planningOperations } from "./planning-definitions.js";
import { recipeOperations } from "./recipe-definitions.js";
import { releaseOperations } from "./release-definitions.js";
import { replayOperations } from "./replay-definitions.js";
import { rolloutOperations } from "./rollout-definitions.js";
import { serverOperations } from "./server-definitions.js";
import { storageOperations } from "./storage-definitions.js";
import { tierOperations } from "./tier-definitions.js";
import { traceOperations } from "./trace-definitions.js";
import { trainingOperations } from "./training-definitions.js";
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
  "Models and their versions": { ...modelOperations, ...lineageOperations, ...trainingOperations },
  "Named data": datasetOperations,
  "Replays, training engines and recipes": { ...replayOperations, ...engineOperations, ...recipeOperations },
  "Storage and retention": {
    ...storageOperations,
    ...dropOperations,
    ...tierOperations,
    ...planningOperations,
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
  ...lineageOperations,
  ...trainingOperations,
  ...datasetOperations,
  ...replayOperations,
  ...engineOperations,
  ...recipeOperations,
  ...storageOperations,
  ...dropOperations,
  ...planningOperations,
  ...damageOperations,
  ...tierOperations,
};
export type OperationTable = typeof operationTable;
