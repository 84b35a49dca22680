/** Each operation names the right that it needs and what a scoped token gets of it; roles are sets of rights. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { OperationDefinition } from "../../../../../server/interface/api/operation.js";
import { operationTable } from "../../../../../server/interface/api/operation-table.js";
import { rights, rightsOfRole, roles } from "../../../../../server/interface/api/rights.js";

const operations = Object.entries<OperationDefinition>(operationTable);

/** Every operation under the right that it needs. An operation that is added is added here, by decision. */
const namesByRight: Readonly<Record<string, string>> = {
  none: "certify health",
  read:
    "addresses asOf attachment authorities batches bundleObjects commonAncestor datasets descendants describeBundle device deviceEvents devices diff " +
    "dropPolicies engines evaluations events explainRecovery fleets journal journalCheckpoint journalHead knownDamage " +
    "leases lineage listModels log model modelJson models owners planCollection planRollout planTier proveBundle proveFact recipes recover " +
    "releaseManifest releases replays restoreToSign retention rollout rolloutReport rollouts runQuery savedQueries searchHub stats story successors tiers",
  "read-predictions": "evaluation",
  "read-data": "fetchDataset showDataset",
  "read-logs": "deviceLogs trace",
  publish: "approveRestore publishOwnerTime publishReleases",
  "roll-out": "approveRollout createRollout setRollout undoRollout",
  deploy: "assign command leaseLine rollbackDevice",
  "publish-models": "beginDeposit depositObjects finishDeposit",
  "change-models":
    "averageFleet cancelReplay deleteQuery endLease evaluate evaluateProgressively evaluateQuery hold import " +
    "mergeModels nearest queueReplay rebaseEngine reduce replay replayChanged replayChangedStory replayStory saveDerived saveQuery setSuccessor spotCheck tag train transfer verify",
  "change-data": "addDataset checkDataset pushDataset",
  "change-devices": "cosignJournal evaluateOnDevice labelDevices quarantineDevice setDevices trainOnDevice",
  enrol: "acceptDevices createBatch enroll invite renewDevice revoke revokeBatch takeRevocationList",
  "change-storage": "applyStorage applyTier check forecastRetention keepTensors planStorage reindex",
  delete:
    "applyDropPolicies applyRetention collect dropTensors removeDataset removeDevice retire setDropPolicy setRetention",
  administer:
    "addAuthority addTier addToken addWebhook approveEngine approveRecipe backup eraseDevices journalEntries moveWebhook " +
    "redact removeAuthority removeEngine removeTier removeToken removeWebhook revokeRecipe testWebhook tokens webhooks",
};

describe("rights", () => {
  it("are named by every operation", () => {
    const found: Record<string, string> = {};
    for (const right of ["none", ...Object.keys(rights)])
      found[right] = operations
        .filter(([, definition]) => (definition.right ?? "none") === right)
        .map(([name]) => name)
        .sort()
        .join(" ");
    assert.deepEqual(found, namesByRight);
  });

  it("are sets: no role but admin contains all others, and the releaser has what the viewer has not", () => {
    const sorted = Object.fromEntries(roles.map((role) => [role, [...rightsOfRole[role]].sort()]));
    const all = Object.keys(rights).sort();
    assert.deepEqual(sorted, {
      viewer: ["read", "read-predictions"],
      publisher: ["publish-models", "read"],
      releaser: ["publish", "read", "roll-out"],
      operator: all.filter((right) => right !== "administer"),
      admin: all,
    });
  });

  it("leave a scoped token no operation that neither names a fleet nor says what it gets", () => {
    const without = operations.filter(([, { path }]) => !path.includes("/:fleet"));
    assert.deepEqual(
      without.filter(([, { scoped }]) => scoped === undefined).map(([name]) => name),
      [],
    );
    const own = operations.filter(([, { scoped }]) => scoped === "own").map(([name]) => name);
    assert.deepEqual(own.sort(), ["addresses", "certify", "events", "fleets", "health"]);
    const refused = operations.filter(
      ([, { scoped, path }]) => scoped === "refused" && path.includes(":fleet"),
    );
    // A backup has the server's key; an engine is code that the server runs with its own rights.
    assert.deepEqual(refused.map(([name]) => name).sort(), ["approveEngine", "backup"]);
  });
});
