/**
 * The operations on a home that is open in this process, assembled from the other files of this folder and
 * from evaluation, progressive and training. A command without a server uses them directly; a server offers
 * them over HTTP.
 */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { nextTurn } from "../../shared/concurrency/in-steps.js";
import { defined } from "../../shared/defined.js";
import { nodeFiles } from "../../shared/files/node-files.js";
import { changeRefused } from "../../shared/files/reading-files.js";
import { callNames, otherOperations } from "../interface/api/operation-groups.js";
import { hasHome, type Home } from "../storage/repository/home.js";
import type { HomeChanges } from "../storage/repository/home-changes.js";
import { noServerRuns } from "./devices/device-errors.js";
import { openNodeHome, openNodeHomeToRead } from "../storage/repository/node-home.js";
import { currentUser } from "../../shared/adapters/current-user.js";
import { programVersion } from "../../shared/adapters/program-version.js";
import { noHome } from "../storage/repository/repository-errors.js";
import { archiveOperations } from "./stores/archive-operations.js";
import { deviceOperations } from "./devices/device-operations.js";
import { journalOperations } from "./stores/journal-operations.js";
import { lineageOperations } from "./models/lineage-operations.js";
import { modelOperations } from "./models/model-operations.js";
import { refuseMisspeltScope } from "../services/context/expected-names.js";
import { fleetsAs, openFleets, type OpenFleets } from "../services/context/open-fleets.js";
import type {
  CallName,
  CallOperations,
  OperationInput,
  ServerOperations,
} from "../interface/api/server-operations.js";
import type { OperationsContext } from "../services/context/operations-context.js";
import { rebuildVersion } from "../learning/replay/rebuild-on-demand.js";
import { storageOperations } from "./stores/storage-operations.js";
import { clearWorkFolder } from "../services/context/work-folder.js";

/** Operations that may begin a home: they store something that needs nothing before it. */
export const beginsHome: ReadonlySet<string> = new Set<keyof ServerOperations>([
  "enroll",
  "invite",
  "createBatch",
  "addAuthority",
  "addDataset",
  "approveRecipe",
  "approveEngine",
  "addToken",
  "addTier",
  "import",
  "train",
  "beginDeposit",
  "replayChangedStory",
]);

/** Operations that store nothing: without a home they work in one that is removed again. */
export const needsNoHome: ReadonlySet<string> = new Set<keyof ServerOperations>(["replayStory"]);

/**
 * The operations of a home without a server; closing them closes the home. A home that is not there is begun by the
 * operations that store something first; of the others, those that need none leave nothing, and all else throws
 * NOT_FOUND.
 * @throws HOME_LOCKED, HOME_FORMAT_UNKNOWN
 */
export async function openLocalOperations({ home }: { readonly home: string }): Promise<ServerOperations> {
  return (await hasHome(nodeFiles(), home)) ? openHomeOperations(home) : operationsWithoutHome(home);
}

function operationsWithoutHome(path: string): ServerOperations {
  let begun: Promise<ServerOperations> | undefined;
  let passing: Promise<ServerOperations> | undefined;
  const operation =
    (name: CallName | (typeof otherOperations)[number]) =>
    async (...given: readonly unknown[]): Promise<unknown> => {
      const isDryRun = given.some(
        (each) => (each as { readonly dryRun?: unknown } | undefined)?.dryRun === true,
      );
      const isPassing = begun === undefined && needsNoHome.has(name);
      if (begun === undefined && !isPassing && (isDryRun || !beginsHome.has(name))) throw noHome(path);
      const operations = await (isPassing
        ? (passing ??= openPassingOperations(path))
        : (begun ??= openHomeOperations(path)));
      return await (operations[name] as (...input: readonly unknown[]) => Promise<unknown>)(...given);
    };
  const names = [...callNames, ...otherOperations];
  return {
    // Object.fromEntries loses the type of the names; there is one method for every operation.
    ...(Object.fromEntries(names.map((name) => [name, operation(name)])) as unknown as ServerOperations),
    events: () => {
      throw noHome(path);
    },
    close: async () => {
      for (const opened of [begun, passing]) await (await opened?.catch(() => undefined))?.close();
    },
  };
}

/** The operations of a home of their own, in the folder for temporary files, that is removed when they are closed. */
async function openPassingOperations(settingsFolder: string): Promise<ServerOperations> {
  const folder = await mkdtemp(join(tmpdir(), "stemma-"));
  const remove = (): Promise<void> => rm(folder, { recursive: true, force: true });
  try {
    const operations = await openHomeOperations(folder, settingsFolder);
    return { ...operations, close: () => operations.close().finally(remove) };
  } catch (error) {
    await remove();
    throw error;
  }
}

/** @param settingsFolder where server.json is */
async function openHomeOperations(path: string, settingsFolder = path): Promise<ServerOperations> {
  const home = await openNodeHome(path);
  await clearWorkFolder(home);
  return operationsOf(home, openFleets(home, rebuildVersion), settingsFolder);
}

/** A home that is read without its lock. */
export interface OpenedHome {
  readonly operations: ServerOperations;
  readonly changes: HomeChanges;
  /** True if something of a fleet that was read is missing or damaged. */
  isDamaged(): boolean;
  /** Resolves to true if the index of a fleet was found damaged: the home has to be opened again. */
  hasFailed(): Promise<boolean>;
}

/** @throws NOT_FOUND, HOME_FORMAT_UNKNOWN, KEY_INVALID, FILE_FAILED */
export async function openHomeForReading(path: string): Promise<OpenedHome> {
  const home = await openNodeHomeToRead(path);
  // A training is begun once, where its tensors can be stored.
  const fleets = openFleets(home, () =>
    Promise.reject(changeRefused("store tensors that were dropped in", path)),
  );
  let isFailed = false;
  void fleets.failed.then(() => {
    isFailed = true;
  });
  return {
    operations: operationsOf(home, fleets, path),
    changes: home.changes,
    isDamaged: () =>
      fleets.opened().some((repository) => {
        const { packs, versions } = repository.knownDamage();
        return packs.length > 0 || versions.length > 0;
      }),
    hasFailed: async () => {
      // Who finds an index damaged reports it in the same turn.
      await nextTurn();
      return isFailed;
    },
  };
}

function operationsOf(home: Home, fleets: OpenFleets, settingsFolder: string): ServerOperations {
  const operations = localOperations({
    home,
    fleets,
    version: programVersion(),
    caller: { who: currentUser(), through: "command" },
    plannedEnrolment: async () =>
      (await import("./configuration/planned-enrolment.js")).plannedEnrolment(home.path, async () =>
        (await import("../access/identity/authority.js")).openAuthority(home.signer, home.ports.random),
      ),
    recipeConfinement: async () =>
      (await import("./configuration/config-file.js")).recipeConfinementOf(settingsFolder),
    trainingLimits: async () =>
      (await import("./configuration/config-file.js")).trainingLimitsOf(settingsFolder),
    isHub: () => Promise.resolve(true),
    rolloutApproval: async () =>
      (await import("./configuration/config-file.js")).rolloutApprovalOf(settingsFolder),
  });
  return {
    ...operations,
    close: async () => {
      await fleets.close();
      await home.close();
    },
  };
}

/** The operations as `context.caller` uses them. */
export function localOperations({ caller, ...parts }: OperationsContext): ServerOperations {
  const context =
    caller === undefined ? parts : { ...parts, caller, fleets: fleetsAs(parts.fleets, { caller, ...parts }) };
  const devices = deviceOperations(context);
  return {
    ...homeOperations(context),
    ...journalOperations(context),
    ...devices,
    ...fleetGroups(context, devices),
    ...modelOperations(context),
    ...lineageOperations(context),
    ...modelGroups(context),
    ...storageOperations(context),
    ...archiveOperations(context),
    ...replayCalls(context),
    ...trainingCalls(context),
    events: (signal) => {
      const { live } = context;
      if (live === undefined) throw noServerRuns("Events come");
      return live.events.listen(signal, context.grant?.fleets);
    },
    close: () => Promise.resolve(),
  };
}

function homeOperations({
  home,
  fleets,
  live,
  version,
}: OperationsContext): Pick<ServerOperations, "health" | "fleets"> {
  return {
    health: async () => ({
      version,
      pid: process.pid,
      home: home.path,
      ...(live === undefined ? {} : defined({ mqttUrl: live.mqttUrl, httpUrl: live.httpUrl() })),
      publicKey: home.signer.publicKey,
      fleets: await fleets.names(),
    }),
    fleets: async () =>
      Promise.all(
        (await fleets.names()).map(async (fleet) => {
          const repository = await fleets.get(fleet);
          return {
            fleet,
            versions: repository.versionCount(),
            devices: repository.devices().length,
            online: (await live?.fleet(fleet))?.onlineCount ?? 0,
            journalLength: repository.journal.head().length,
          };
        }),
      ),
  };
}

/** Groups on a fleet and its devices, each loaded when one of its operations is used first. */
function fleetGroups(context: OperationsContext, devices: ReturnType<typeof deviceOperations>) {
  return {
    ...onUse(["restoreToSign", "approveRestore"], async () =>
      (await import("./stores/restore-operations.js")).restoreOperations(context),
    ),
    ...onUse(["journalCheckpoint", "cosignJournal"], async () =>
      (await import("./stores/checkpoint-operations.js")).checkpointOperations(context),
    ),
    ...onUse(["tokens", "addToken", "removeToken"], async () =>
      (await import("./token-operations.js")).tokenOperations(context),
    ),
    ...onUse(["webhooks", "addWebhook", "moveWebhook", "testWebhook", "removeWebhook"], async () =>
      (await import("./webhook-operations.js")).webhookOperations(context),
    ),
    ...onUse(["createBatch", "batches", "revokeBatch", "acceptDevices"], async () =>
      (await import("./devices/batch-enrolment.js")).batchOperations(context),
    ),
    ...onUse(["authorities", "addAuthority", "removeAuthority", "takeRevocationList"], async () =>
      (await import("./devices/authority-operations.js")).authorityOperations(context),
    ),
    ...onUse(
      ["setDevices", "deviceEvents", "deviceLogs", "quarantineDevice", "eraseDevices", "removeDevice"],
      async () => (await import("./devices/device-upkeep.js")).deviceUpkeep(context, devices),
    ),
    ...onUse(
      [
        "rollouts",
        "rollout",
        "rolloutReport",
        "planRollout",
        "createRollout",
        "setRollout",
        "undoRollout",
        "approveRollout",
      ],
      async () => (await import("./rollouts/rollout-operations.js")).rolloutOperations(context, devices),
    ),
    ...onUse(["releases", "releaseManifest", "publishReleases", "publishOwnerTime"], async () =>
      (await import("./rollouts/release-operations.js")).releaseOperations(context),
    ),
  };
}

/** Groups on models and what is stored of them, each loaded when one of its operations is used first. */
function modelGroups(context: OperationsContext) {
  return {
    trace: async (input: OperationInput<"trace">) => (await import("./trace.js")).trace(context, input),
    ...onUse(
      ["datasets", "addDataset", "checkDataset", "showDataset", "pushDataset", "removeDataset"],
      async () => (await import("./models/dataset-operations.js")).datasetOperations(context),
    ),
    fetchDataset: async (input: OperationInput<"fetchDataset">) =>
      (await import("./models/dataset-operations.js")).datasetOperations(context).fetchDataset(input),
    ...onUse(["savedQueries", "saveQuery", "deleteQuery"], async () =>
      (await import("./models/saved-queries.js")).savedQueryOperations(context),
    ),
    evaluateQuery: async (
      input: OperationInput<"evaluateQuery">,
      options?: Parameters<ServerOperations["evaluateQuery"]>[1],
    ) =>
      (await import("./models/evaluate-query.js")).evaluateQuery(context, input, {
        ...options,
        operations: () => localOperations(context),
      }),
    ...onUse(["describeBundle", "proveBundle", "beginDeposit", "finishDeposit", "searchHub"], async () =>
      (await import("./hub/bundle-operations.js")).bundleOperations(context),
    ),
    bundleObjects: async (input: OperationInput<"bundleObjects">) =>
      (await import("./hub/bundle-operations.js")).bundleOperations(context).bundleObjects(input),
    depositObjects: async (input: OperationInput<"depositObjects">, entries: AsyncIterable<Uint8Array>) =>
      (await import("./hub/bundle-operations.js")).bundleOperations(context).depositObjects(input, entries),
    ...onUse(["engines", "approveEngine", "removeEngine"], async () =>
      (await import("./models/engine-operations.js")).engineOperations(context),
    ),
    ...onUse(["replays", "queueReplay", "cancelReplay"], async () =>
      (await import("../learning/replay/replay-operations.js")).replayOperations(context),
    ),
    ...onUse(["recipes", "approveRecipe", "revokeRecipe"], async () =>
      (await import("./models/recipe-operations.js")).recipeOperations(context),
    ),
    ...onUse(["retention", "setRetention", "forecastRetention", "applyRetention"], async () =>
      (await import("./stores/retention-operations.js")).retentionOperations(context),
    ),
    ...onUse(["tiers", "addTier", "removeTier", "planTier", "applyTier"], async () =>
      (await import("./stores/tier-operations.js")).tierOperations(context),
    ),
    explainRecovery: async (input: OperationInput<"explainRecovery">) =>
      (await import("./models/explain-recovery.js")).explainRecovery(context, input),
  };
}

type ReplayCalls = Pick<
  ServerOperations,
  | "replay"
  | "rebaseEngine"
  | "spotCheck"
  | "replayStory"
  | "replayChangedStory"
  | "replayChanged"
  | "dropTensors"
  | "dropPolicies"
  | "setDropPolicy"
  | "applyDropPolicies"
  | "keepTensors"
>;

/** Loaded when first used, because they take as long to load as all the rest of a short command. */
function replayCalls(context: OperationsContext): ReplayCalls {
  const { fleets } = context;
  return {
    replay: async (input, { signal } = {}) =>
      (await import("../learning/replay/replay-version.js")).replayVersion(context, input, { signal }),
    rebaseEngine: async (input, { signal } = {}) =>
      (await import("../learning/replay/rebase-engine.js")).rebaseEngine(context, input, signal),
    spotCheck: async (input, { signal } = {}) =>
      (await import("../learning/replay/spot-check.js")).spotCheck(context, input, { signal }),
    replayStory: async (input, { signal } = {}) =>
      (await import("../learning/replay/replay-story.js")).replayStory(context, input, signal),
    replayChanged: async (input, { signal } = {}) =>
      (await import("../learning/replay/replay-changed.js")).replayChanged(context, input, signal),
    replayChangedStory: async (input, { signal } = {}) =>
      (await import("../learning/replay/replay-changed.js")).replayChangedStory(context, input, signal),
    dropTensors: async (input, { signal } = {}) =>
      (await import("../learning/replay/drop-tensors.js")).dropByReplay(context, input, signal),
    dropPolicies: async ({ fleet }) => (await fleets.get(fleet)).dropPolicies(),
    setDropPolicy: async ({ fleet, scope, policy, force }) => {
      const repository = await fleets.get(fleet);
      if (policy !== null && force !== true) refuseMisspeltScope(repository, scope);
      return repository.setDropPolicy(scope, policy);
    },
    applyDropPolicies: async (input, { signal } = {}) =>
      (await import("../learning/replay/drop-by-policy.js")).dropByPolicy(context, input, signal),
    keepTensors: async ({ fleet, model, because = "" }, { signal } = {}) => {
      const repository = await fleets.get(fleet);
      const { versionId } = repository.resolve(model);
      await repository.ensureTensors(versionId, signal);
      return await repository.keepTensors(versionId, because);
    },
  };
}

type TrainingCalls = Pick<
  ServerOperations,
  | "train"
  | "reduce"
  | "mergeModels"
  | "averageFleet"
  | "evaluate"
  | "evaluations"
  | "evaluation"
  | "evaluateProgressively"
>;

/** Loaded when first used, as replays are. */
function trainingCalls(context: OperationsContext): TrainingCalls {
  return {
    train: async (input, options) =>
      (await import("../learning/training/train-on-server.js")).trainOnServer(context, input, options),
    reduce: async (input) =>
      (await import("../learning/evaluation/reduce-version.js")).reduceOnServer(context, input),
    mergeModels: async (input, options) =>
      (await import("../learning/average/average-models.js")).averageModels(context, input, options?.signal),
    averageFleet: async (input, options) =>
      (await import("./devices/average-fleet.js")).averageFleet(context, input, options?.signal),
    evaluate: async (input, options) =>
      (await import("../learning/evaluation/evaluate-on-server.js")).evaluateOnServer(
        context,
        input,
        options?.signal,
      ),
    evaluations: async (input) =>
      (await import("../learning/evaluation/stored-evaluations.js")).listEvaluations(context, input),
    evaluation: async (input) =>
      (await import("../learning/evaluation/stored-evaluations.js")).showEvaluation(context, input),
    evaluateProgressively: async (input, options) =>
      (await import("../learning/progressive/progressive-on-server.js")).progressiveOnServer(
        context,
        input,
        options?.signal,
      ),
  };
}

/**
 * Operations whose module is loaded when one of them is used first: short commands need few.
 * @param load called once
 */
function onUse<Name extends CallName>(
  names: readonly Name[],
  load: () => Promise<Pick<ServerOperations, Name>>,
): Pick<CallOperations, Name> {
  let loaded: ReturnType<typeof load> | undefined;
  type AnyCall = (input: unknown, options?: unknown) => Promise<unknown>;
  const operation =
    (name: Name): AnyCall =>
    async (input, options) => {
      const operations = (await (loaded ??= load())) as unknown as Readonly<Record<Name, AnyCall>>;
      return await operations[name](input, options);
    };
  return Object.fromEntries(names.map((name) => [name, operation(name)])) as unknown as Pick<
    CallOperations,
    Name
  >;
}
