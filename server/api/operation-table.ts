/**
 * Every operation of the server, once. Routes (server/http/routes), client (server/http/client.ts), the
 * interface of both (server-operations.ts), the API description (api-description.ts) and checks of commands
 * follow from this table.
 */
import { z } from "zod";
import {
  commandAnswer,
  enrolment,
  enrolmentBody,
  fleetSummary,
  health,
  listedDevice,
  shownDevice,
} from "./device-schemas.js";
import {
  dataset,
  datasetBody,
  datasetCheck,
  evaluateBody,
  evaluateProgressivelyBody,
  evaluationReport,
  progressiveReport,
  reduceBody,
  reduceReport,
  trainBody,
  trainProgress,
  trainReport,
} from "./evaluation-schemas.js";
import { serverEvent } from "./event-schemas.js";
import {
  deviceParams,
  fleetParams,
  modelParams,
  modelText,
  parameters,
  reasonText,
  shortText,
  timeMs,
} from "./fields.js";
import { call, job, stream } from "./operation.js";
import {
  archivePlan,
  backupReport,
  checkReport,
  collectionPlan,
  collectionPlanMembers,
  maxCollectionPlanBytes,
  maxPlanBytes,
  retentionForecast,
  retentionReport,
  retentionRule,
  retentionScope,
  retentionSettings,
  storageApplied,
  storageApplyBody,
  storagePlanBody,
  storageStats,
} from "./storage-schemas.js";
import {
  environmentPolicy,
  fleetMoment,
  importReport,
  listModelsQuery,
  modelDescription,
  modelDiff,
  modelJson,
  modelsQuery,
  recoveryForm,
  recoveryReport,
  versionPage,
  versionSummary,
} from "./version-schemas.js";

export const importContentType = "application/vnd.stemma.import";

const fleet = "/v1/fleets/:fleet";
const device = `${fleet}/devices/:device`;
const model = `${fleet}/models/:model`;
const storage = `${fleet}/storage`;

const byText = shortText.optional().describe("Who asks, as they name themselves");

const serverOperations = {
  health: call({
    summary: "Whether the server runs, and where; without a token it answers its version only",
    method: "GET",
    path: "/v1/health",
    output: health,
  }),
  fleets: call({
    summary: "The fleets of the server's home",
    method: "GET",
    path: "/v1/fleets",
    output: z.array(fleetSummary),
  }),
  events: stream({
    summary: "What happens on the server, as server-sent events",
    method: "GET",
    path: "/v1/events",
    query: { fleet: shortText.optional().describe("Only events of this fleet") },
    responseType: "text/event-stream",
    output: serverEvent,
    details:
      "Each event has its name as `event` and a JSON object as `data`. The stream ends when the client leaves or the server stops. A client that reads too slowly loses the oldest events and gets `missed` with their number.",
  }),
};

const deviceOperations = {
  devices: call({
    summary: "The devices of a fleet and what they run now",
    method: "GET",
    path: `${fleet}/devices`,
    params: fleetParams,
    output: z.array(listedDevice),
  }),
  device: call({
    summary: "One device: lines, active models, session",
    method: "GET",
    path: device,
    params: deviceParams,
    output: shownDevice,
  }),
  enroll: call({
    summary: "Give a device its key, its token and the server's key; the answer is secret and given once",
    method: "POST",
    path: `${fleet}/devices`,
    params: fleetParams,
    body: enrolmentBody,
    output: enrolment,
  }),
  revoke: call({
    summary: "Cut a device off: its token and key open nothing any more; its models stay",
    method: "POST",
    path: `${device}/revoke`,
    params: deviceParams,
    body: { because: reasonText.optional() },
    output: z.undefined(),
  }),
  assign: call({
    summary: "Give a model to a device's line, as initial model or update",
    method: "POST",
    path: `${device}/assign`,
    params: deviceParams,
    body: {
      line: shortText,
      model: modelText,
      allowReduced: z.boolean().optional().describe("Whether the model may be a reduced (lossy) one"),
    },
    output: versionSummary,
  }),
  trainOnDevice: call({
    summary: "Ask a connected device to fine-tune a line now",
    method: "POST",
    path: `${device}/train`,
    params: deviceParams,
    body: { line: shortText, parameters: parameters.optional().describe("Parameters of the recipe") },
    output: z.object({ accepted: z.boolean(), message: z.string() }),
  }),
  command: call({
    summary: "Any command that a connected device answers: train, report, activate",
    method: "POST",
    path: `${device}/commands`,
    params: deviceParams,
    body: {
      name: shortText,
      body: z.unknown().optional().describe("What the command takes"),
      timeoutMs: z
        .number()
        .int()
        .min(1)
        .max(600_000)
        .optional()
        .describe("How long the device may take; default 30000"),
    },
    output: commandAnswer,
    isLong: true,
  }),
};

const modelOperations = {
  models: call({
    summary: "All models of a fleet, newest versions last",
    method: "GET",
    path: `${fleet}/models`,
    params: fleetParams,
    query: modelsQuery,
    output: z.array(versionSummary),
  }),
  listModels: call({
    summary: "One page of a fleet's models, found by their fields and metadata",
    method: "GET",
    path: `${fleet}/versions`,
    params: fleetParams,
    query: listModelsQuery,
    output: versionPage,
  }),
  model: call({
    summary: "One model: tensors, layers, lineage, measurements, environment",
    method: "GET",
    path: model,
    params: modelParams,
    output: modelDescription,
  }),
  log: call({
    summary: "The models that this one was trained from, newest first",
    method: "GET",
    path: `${model}/log`,
    params: modelParams,
    output: z.array(versionSummary),
  }),
  diff: call({
    summary: "Which tensors differ between two models; no tensor is read",
    method: "GET",
    path: `${fleet}/diff`,
    params: fleetParams,
    query: {
      a: modelText,
      b: modelText,
      otherFleet: shortText.optional().describe("The fleet of b, where it is another (refused)"),
    },
    output: modelDiff,
    isLong: true,
  }),
  asOf: call({
    summary: "What every device of a fleet ran at a moment",
    method: "GET",
    path: `${fleet}/as-of`,
    params: fleetParams,
    query: { at: timeMs },
    output: z.array(fleetMoment),
  }),
  recover: stream({
    summary: "A model's tensors, recovered bit for bit, as one safetensors file",
    method: "GET",
    path: `${model}/tensors`,
    params: modelParams,
    query: { environment: environmentPolicy.optional(), form: recoveryForm.optional() },
    responseType: "application/octet-stream",
    output: recoveryReport,
    details:
      "The body is the file. The header `stemma-recovery` has the report below as base64url JSON; `stemma-root`, `stemma-version-id`, `stemma-environment`, `etag` and `content-length` have parts of it. The last bytes are sent only when all tensors are verified: a body as long as `content-length` is right, a shorter one must not be used.",
  }),
  modelJson: call({
    summary: "The model.json by which TensorFlow.js loads a model's weights (see recover, form tfjs)",
    method: "GET",
    path: `${model}/model.json`,
    params: modelParams,
    query: {
      weightsFile: z
        .string()
        .regex(/^[\w.-]{1,128}$/, "is not a plain file name")
        .optional()
        .describe("Name of the weights' file, stored beside it; default weights.bin"),
    },
    output: modelJson,
  }),
  verify: call({
    summary: "Recover a model on the server and compare it with what was recorded",
    method: "POST",
    path: `${model}/verify`,
    params: modelParams,
    output: recoveryReport,
    isLong: true,
  }),
  import: stream({
    summary: "Save a safetensors file as a version of a model",
    method: "POST",
    path: `${fleet}/import`,
    params: fleetParams,
    query: {
      name: shortText.optional().describe("Name of the model (required with a bare file)"),
      base: shortText.optional(),
      device: shortText.optional(),
      line: shortText.optional(),
    },
    requestTypes: ["application/octet-stream", importContentType],
    responseType: "application/json",
    output: importReport,
    details: `As \`application/octet-stream\` the body is the file and options are in the query. As \`${importContentType}\` the body is a length (u32, little-endian), that many bytes of JSON (\`ImportOptions\`), then the file.`,
  }),
  tag: call({
    summary: "Let a tag point to a version, or take it away",
    method: "POST",
    path: `${model}/tag`,
    params: modelParams,
    body: { tag: shortText, remove: z.boolean().optional().describe("Take the tag away") },
    output: versionSummary,
  }),
  hold: call({
    summary: "Keep a version from retention rules and retirement, or let it go",
    method: "POST",
    path: `${model}/hold`,
    params: modelParams,
    body: { held: z.boolean(), because: reasonText.optional(), by: byText },
    output: versionSummary,
  }),
  retire: call({
    summary: "Retire a version: its name, parents and times stay; its tensors go with a later collection",
    method: "POST",
    path: `${model}/retire`,
    params: modelParams,
    body: {
      because: reasonText.optional(),
      dryRun: z.boolean().optional().describe("Check whether it can be retired, retire nothing"),
    },
    output: versionSummary,
  }),
  reduce: call({
    summary: "Save a smaller, lossy form of a model as a version of its own whose base is the exact one",
    method: "POST",
    path: `${model}/reduce`,
    params: modelParams,
    body: reduceBody,
    output: reduceReport,
    isLong: true,
  }),
  evaluate: call({
    summary: "Measure a model on the held-out part of named data; nothing is saved",
    method: "POST",
    path: `${model}/evaluate`,
    params: modelParams,
    body: evaluateBody,
    output: evaluationReport,
    isLong: true,
    stopsWithClient: true,
  }),
  evaluateProgressively: call({
    summary: "The most likely classes, from part of the weights' bytes where that is certain",
    method: "POST",
    path: `${model}/evaluate-progressively`,
    params: modelParams,
    body: evaluateProgressivelyBody,
    output: progressiveReport,
    isLong: true,
    stopsWithClient: true,
  }),
  train: job({
    summary: "Train a model on the server and save it with its lineage",
    path: `${fleet}/train`,
    jobsPath: `${fleet}/train`,
    canListJobs: true,
    params: fleetParams,
    body: trainBody,
    progress: trainProgress,
    report: trainReport,
  }),
};

const datasetOperations = {
  datasets: call({
    summary: "Registered data of a fleet",
    method: "GET",
    path: `${fleet}/datasets`,
    params: fleetParams,
    output: z.array(dataset),
  }),
  addDataset: call({
    summary: "Register data: it is read once, and its hash is kept",
    method: "POST",
    path: `${fleet}/datasets`,
    params: fleetParams,
    body: datasetBody,
    output: dataset,
    isLong: true,
  }),
  checkDataset: call({
    summary: "Read registered data again and compare its hash",
    method: "POST",
    path: `${fleet}/datasets/:name/check`,
    params: { ...fleetParams, name: shortText },
    output: datasetCheck,
    isLong: true,
  }),
};

const storageOperations = {
  stats: call({
    summary: "Versions, tensors, bytes on disk against full snapshots",
    method: "GET",
    path: `${storage}/stats`,
    params: fleetParams,
    output: storageStats,
  }),
  check: call({
    summary: "Read everything that is stored and compare it with its hashes",
    method: "POST",
    path: `${storage}/check`,
    params: fleetParams,
    body: {
      sample: z.number().positive().optional().describe("Hash only this many objects, picked at random"),
    },
    output: checkReport,
    isLong: true,
  }),
  planCollection: call({
    summary: "What no model refers to any more, and what freeing it would bring",
    method: "GET",
    path: `${storage}/collection`,
    params: fleetParams,
    output: collectionPlan,
    isLong: true,
  }),
  collect: call({
    summary: "Free what a collection plan names; a plan of an older state is refused",
    method: "POST",
    path: `${storage}/collection`,
    params: fleetParams,
    body: collectionPlanMembers,
    maxBodyBytes: maxCollectionPlanBytes,
    output: z.object({ freedBytes: z.number() }),
    isLong: true,
  }),
  retention: call({
    summary: "Retention rules that are set, the fleet's first",
    method: "GET",
    path: `${storage}/retention`,
    params: fleetParams,
    output: retentionSettings,
  }),
  setRetention: call({
    summary: "Set a scope's retention rule, or lift it",
    method: "POST",
    path: `${storage}/retention`,
    params: fleetParams,
    body: { scope: retentionScope, rule: retentionRule, by: byText },
    output: retentionSettings,
  }),
  forecastRetention: call({
    summary:
      "What would be retired now, or under a rule that is tried, and what a collection would free then",
    method: "POST",
    path: `${storage}/retention/forecast`,
    params: fleetParams,
    body: {
      trying: z.object({ scope: retentionScope, rule: retentionRule }).optional(),
      listKept: z.boolean().optional().describe("List what stays, too"),
    },
    output: retentionForecast,
    isLong: true,
  }),
  applyRetention: call({
    summary: "Retire what the retention rules take",
    method: "POST",
    path: `${storage}/retention/apply`,
    params: fleetParams,
    body: { collect: z.boolean().optional().describe("Free the space, too") },
    output: retentionReport,
    isLong: true,
  }),
  planStorage: job({
    summary:
      "How everything could be stored in less within a budget of what recoveries cost; changes nothing",
    path: `${storage}/plan`,
    jobsPath: `${storage}/jobs`,
    params: fleetParams,
    body: storagePlanBody,
    progress: z.string(),
    report: z.object({ plan: archivePlan }),
  }),
  applyStorage: job({
    summary: "Store everything as planned while everything else goes on; one that was stopped can be resumed",
    path: `${storage}/apply`,
    jobsPath: `${storage}/jobs`,
    params: fleetParams,
    body: storageApplyBody,
    maxBodyBytes: maxPlanBytes,
    progress: z.string(),
    report: z.object({ applied: storageApplied }),
  }),
  reindex: call({
    summary: "Rebuild the catalog from the journal",
    method: "POST",
    path: `${storage}/reindex`,
    params: fleetParams,
    output: z.object({ versions: z.number() }),
    isLong: true,
  }),
  backup: call({
    summary: "Copy a consistent state to a folder on the server's machine while the server serves",
    method: "POST",
    path: `${storage}/backup`,
    params: fleetParams,
    body: { folder: z.string().min(1).max(4096).describe("Absolute path") },
    output: backupReport,
    isLong: true,
  }),
};

/** The operations in the order and under the headings of the API description. */
export const operationGroups = {
  "The server": serverOperations,
  "Devices of a fleet": deviceOperations,
  "Models and their versions": modelOperations,
  "Named data": datasetOperations,
  "Storage and retention": storageOperations,
};

export const operationTable = {
  ...serverOperations,
  ...deviceOperations,
  ...modelOperations,
  ...datasetOperations,
  ...storageOperations,
};
export type OperationTable = typeof operationTable;
