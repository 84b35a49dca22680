/**
 * Which file defines an operation, so that a client builds the schemas of the operations that it calls and no
 * others: building all of them takes as long as starting Node.
 */
import type { CallDefinition } from "./operation.js";
import type { CallName } from "./server-operations.js";

const groups = {
  damage: async () => (await import("./damage-definitions.js")).damageOperations,
  datasets: async () => (await import("./dataset-definitions.js")).datasetOperations,
  devices: async () => (await import("./device-definitions.js")).deviceOperations,
  engines: async () => (await import("./engine-definitions.js")).engineOperations,
  lineage: async () => (await import("./lineage-definitions.js")).lineageOperations,
  models: async () => (await import("./model-definitions.js")).modelOperations,
  replays: async () => (await import("./replay-definitions.js")).replayOperations,
  server: async () => (await import("./server-definitions.js")).serverOperations,
  storage: async () => (await import("./storage-definitions.js")).storageOperations,
  tiers: async () => (await import("./tier-definitions.js")).tierOperations,
  training: async () => (await import("./training-definitions.js")).trainingOperations,
};

export const groupOfCall: Readonly<Record<CallName, keyof typeof groups>> = {
  health: "server",
  fleets: "server",
  journal: "server",
  tokens: "server",
  addToken: "server",
  removeToken: "server",
  devices: "devices",
  device: "devices",
  enroll: "devices",
  addresses: "devices",
  revoke: "devices",
  assign: "devices",
  trainOnDevice: "devices",
  command: "devices",
  models: "models",
  listModels: "models",
  model: "models",
  log: "models",
  nearest: "models",
  descendants: "lineage",
  commonAncestor: "lineage",
  lineage: "lineage",
  owners: "lineage",
  transfer: "lineage",
  endTransfer: "lineage",
  successors: "lineage",
  setSuccessor: "lineage",
  diff: "models",
  asOf: "models",
  modelJson: "models",
  explainRecovery: "models",
  verify: "models",
  tag: "models",
  hold: "models",
  retire: "models",
  redact: "models",
  reduce: "training",
  replay: "training",
  evaluate: "training",
  evaluations: "training",
  evaluation: "training",
  evaluateProgressively: "training",
  datasets: "datasets",
  addDataset: "datasets",
  checkDataset: "datasets",
  showDataset: "datasets",
  pushDataset: "datasets",
  removeDataset: "datasets",
  engines: "engines",
  approveEngine: "engines",
  removeEngine: "engines",
  replays: "replays",
  replayStory: "replays",
  story: "replays",
  replayChanged: "replays",
  queueReplay: "replays",
  cancelReplay: "replays",
  stats: "storage",
  check: "storage",
  planCollection: "storage",
  collect: "storage",
  retention: "storage",
  setRetention: "storage",
  forecastRetention: "storage",
  applyRetention: "storage",
  reindex: "storage",
  backup: "storage",
  tiers: "tiers",
  addTier: "tiers",
  removeTier: "tiers",
  planTier: "tiers",
  applyTier: "tiers",
  knownDamage: "damage",
};

export const callNames = Object.keys(groupOfCall) as readonly CallName[];

/** The definition of a call; loads the file that it is in. */
export async function definitionOfCall(name: CallName): Promise<CallDefinition> {
  const group = (await groups[groupOfCall[name]]()) as Readonly<Record<string, unknown>>;
  return group[name] as CallDefinition;
}
