/** The server: tokens, webhooks, engines, recipes, the journal, tiers and backups. */
import { mkdtemp } from "node:fs/promises";
import type { SignedHead } from "../../../../../../shared/journal/journal.js";
import { nodeFiles } from "../../../../../../shared/files/node-files.js";
import type { Hash } from "../../../../../../shared/tensor/tensor.js";
import { builtInEngineFolder } from "../../../../../../shared/train/engine-folder.js";
import { scaffold } from "../../../../../../shared/train/own-recipes/scaffold.js";
import { packEngine } from "../../../../../../shared/train/unpack-engine.js";
import { testFleet as fleet } from "../../../../../helpers/test-server.js";
import type { Step } from "./step.js";

/** The discard port of this machine, where nothing listens. */
const nobodyListens = "http://127.0.0.1:9/";
const noHash = "0".repeat(64) as Hash;

/** A head without what differs between two homes. */
function anyHead(head: SignedHead): SignedHead {
  return { ...head, length: 0, chain: noHash, root: noHash, publicKey: "", signature: "" };
}

/** The archive of this build's engine, base64. */
async function ownArchive(): Promise<string> {
  return Buffer.from(await packEngine(nodeFiles(), builtInEngineFolder())).toString("base64");
}

/** @param backupFolder of which new folders get their names */
export function serverSteps(backupFolder: string): readonly Step[] {
  return [
    { name: "tokens", ask: (at) => at.tokens() },
    { name: "addToken", ask: async (at) => (await at.addToken({ name: "ci", role: "viewer" })).role },
    {
      name: "addToken",
      shows: "a name that is taken",
      ask: (at) => at.addToken({ name: "ci", role: "admin" }),
      fails: "NAME_INVALID",
    },
    { name: "removeToken", ask: (at) => at.removeToken({ name: "ci" }) },
    {
      name: "addWebhook",
      ask: (at) => at.addWebhook({ name: "ops", fleet, url: nobodyListens, types: ["restored"], from: 1 }),
    },
    {
      name: "addWebhook",
      shows: "a position that no fact has",
      ask: (at) => at.addWebhook({ name: "late", fleet, url: nobodyListens, from: 1_000_000 }),
      fails: "NOT_FOUND",
    },
    { name: "moveWebhook", ask: (at) => at.moveWebhook({ name: "ops", from: 2 }) },
    { name: "webhooks", ask: (at) => at.webhooks() },
    { name: "testWebhook", ask: (at) => at.testWebhook({ name: "ops" }) },
    { name: "removeWebhook", ask: (at) => at.removeWebhook({ name: "ops" }) },
    {
      name: "approveEngine",
      shows: "something else",
      ask: (at) => at.approveEngine({ fleet, archive: "AAAA" }),
      fails: "ENGINE_INVALID",
    },
    {
      name: "approveEngine",
      ask: async (at) => at.approveEngine({ fleet, archive: await ownArchive(), because: "vans" }),
    },
    { name: "engines", ask: (at) => at.engines({ fleet }) },
    {
      name: "removeEngine",
      shows: "one that is needed",
      ask: async (at) => at.removeEngine({ fleet, engine: (await at.engines({ fleet }))[0]?.engine ?? "" }),
      fails: "ENGINE_IN_USE",
    },
    {
      name: "removeEngine",
      shows: "an unknown one",
      ask: (at) => at.removeEngine({ fleet, engine: "0123456789" }),
      fails: "NOT_FOUND",
    },
    {
      name: "approveRecipe",
      shows: "something else",
      ask: (at) => at.approveRecipe({ fleet, bundle: "AAAA" }),
      fails: "RECIPE_INVALID",
    },
    {
      name: "approveRecipe",
      ask: (at) => at.approveRecipe({ fleet, bundle: Buffer.from(scaffold).toString("base64") }),
    },
    { name: "recipes", ask: (at) => at.recipes({ fleet }) },
    { name: "revokeRecipe", ask: (at) => at.revokeRecipe({ fleet, recipe: "my-recipe", because: "old" }) },
    {
      name: "trace",
      ask: async (at) => ({ ...(await at.trace({ fleet, id: "rollout:none" })), logSinceMs: 0 }),
    },
    { name: "journal", ask: async (at) => (await at.journal({ fleet, from: 0, limit: 1 })).facts },
    {
      name: "journalHead",
      ask: async (at) => {
        const { head, consistency } = await at.journalHead({ fleet, from: 1 });
        return { head: anyHead(head), consistency: consistency?.slice(0, 0) };
      },
    },
    {
      name: "journalCheckpoint",
      ask: async (at) => {
        const { cosigners, request } = await at.journalCheckpoint({ fleet, from: 0 });
        const request0 = request?.split("\n")[0] ?? null;
        return {
          origin: "",
          verifierKey: "",
          length: 0,
          root: noHash,
          text: "",
          cosigners,
          request: request0,
        };
      },
    },
    {
      name: "cosignJournal",
      shows: "what is not a checkpoint",
      ask: (at) => at.cosignJournal({ fleet, checkpoint: "{}" }),
      fails: "CHECKPOINT_INVALID",
    },
    {
      name: "proveFact",
      ask: async (at) => {
        const { position, head } = await at.proveFact({ fleet, position: 0 });
        const { log, leaf } = { log: { length: 0, root: noHash }, leaf: noHash };
        return { position, fact: null, leaf, log, inclusion: [], head: anyHead(head), consistency: [] };
      },
    },
    {
      name: "proveFact",
      shows: "neither or both of position and model",
      ask: (at) => at.proveFact({ fleet }),
      fails: "USAGE",
    },
    {
      name: "journalEntries",
      ask: async (at) => {
        const { head, facts } = await at.journalEntries({ fleet, from: 0, limit: 2 });
        return { head: anyHead(head), facts: facts.map((fact) => typeof fact) };
      },
    },
    {
      name: "restoreToSign",
      shows: "of a fleet that was not restored",
      ask: (at) => at.restoreToSign({ fleet }),
      fails: "NOT_FOUND",
    },
    {
      name: "approveRestore",
      shows: "what is not its file",
      ask: (at) => at.approveRestore({ fleet, file: "{}" }),
      fails: "RELEASE_METADATA_INVALID",
    },
    { name: "reindex", ask: (at) => at.reindex({ fleet }) },
    {
      name: "addTier",
      ask: async (at) => at.addTier({ name: "cold", folder: await mkdtemp(backupFolder) }),
    },
    {
      name: "addTier",
      shows: "a folder that is not empty",
      ask: (at) => at.addTier({ name: "full", folder: process.cwd() }),
      fails: "TIER_INVALID",
    },
    { name: "tiers", ask: (at) => at.tiers() },
    { name: "planTier", ask: (at) => at.planTier({ fleet, tier: "cold" }) },
    { name: "applyTier", ask: (at) => at.applyTier({ fleet, tier: "cold" }) },
    { name: "removeTier", ask: (at) => at.removeTier({ tier: "cold" }) },
    {
      name: "backup",
      ask: async (at) =>
        Object.keys(await at.backup({ fleet, folder: await mkdtemp(backupFolder), plainKey: true })),
    },
  ];
}
