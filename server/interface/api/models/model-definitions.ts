/** Operations on models and their versions. */
import * as z from "zod";
import {
  count,
  fleetParams,
  fleetPath,
  leaseText,
  modelParams,
  modelPath,
  modelText,
  reasonText,
  shortText,
  timeMs,
} from "../fields.js";
import { recoveryExplanation } from "./recovery-schemas.js";
import { askingArchitecture, maxArchitectureBodyBytes, nearestModel } from "./nearest-schemas.js";
import { call, stream } from "../operation.js";
import {
  attachedFile,
  diffLabels,
  environmentPolicy,
  fleetMoment,
  listModelsQuery,
  modelDescription,
  modelDiff,
  modelJson,
  modelsQuery,
  recoveryForm,
  recoveryLayout,
  recoveryPart,
  recoveryReport,
  verificationReport,
  versionPage,
  versionSummary,
} from "./version-schemas.js";
import { importLayout, importReport, storyOption } from "./import-schemas.js";

export const importContentType = "application/vnd.stemma.import";

export const modelOperations = {
  models: call({
    summary: "All models of a fleet, newest versions last",
    method: "GET",
    path: `${fleetPath}/models`,
    right: "read",
    params: fleetParams,
    query: modelsQuery,
    output: z.array(versionSummary),
  }),
  listModels: call({
    summary: "One page of a fleet's models, found by their fields and metadata",
    method: "GET",
    path: `${fleetPath}/versions`,
    right: "read",
    params: fleetParams,
    query: listModelsQuery,
    output: versionPage,
  }),
  model: call({
    summary: "One model: tensors, layers, lineage, measurements, environment",
    method: "GET",
    path: modelPath,
    right: "read",
    params: modelParams,
    output: modelDescription,
  }),
  log: call({
    summary: "The models that this one was trained from, newest first",
    method: "GET",
    path: `${modelPath}/log`,
    right: "read",
    params: modelParams,
    query: {
      offset: z.number().int().min(0).max(1e9).optional().describe("How many of the newest to skip"),
      limit: z.number().int().min(1).max(1e6).optional().describe("How many at most; absent: all"),
    },
    output: z.array(versionSummary),
  }),
  nearest: call({
    summary: "The model whose layers an architecture shares the longest, and what it can take over from it",
    method: "POST",
    path: `${fleetPath}/nearest`,
    right: "change-models",
    params: fleetParams,
    body: askingArchitecture,
    output: nearestModel,
    maxBodyBytes: maxArchitectureBodyBytes,
  }),
  diff: call({
    summary: "Which tensors differ between two models, and what some follow from",
    method: "GET",
    path: `${fleetPath}/diff`,
    right: "read",
    params: fleetParams,
    query: {
      a: modelText,
      b: modelText,
      otherFleet: shortText.optional().describe("The fleet of b, where it is another (refused)"),
      labels: diffLabels
        .optional()
        .describe(
          "What both sides are called in the differences of their trainings: two words, a comma between",
        ),
    },
    output: modelDiff,
    isLong: true,
  }),
  asOf: call({
    summary: "What every device of a fleet ran at a moment",
    method: "GET",
    path: `${fleetPath}/as-of`,
    right: "read",
    params: fleetParams,
    query: { at: timeMs },
    output: z.array(fleetMoment),
  }),
  recover: stream({
    summary: "A model's tensors, recovered bit for bit, as one safetensors file",
    method: "GET",
    path: `${modelPath}/tensors`,
    right: "read",
    params: modelParams,
    query: {
      environment: environmentPolicy.optional(),
      form: recoveryForm.optional(),
      layout: recoveryLayout.optional(),
      part: recoveryPart.optional(),
      checkpoint: count
        .optional()
        .describe("The model after this many training steps, where the version has such a checkpoint"),
      layers: z
        .array(shortText)
        .min(1)
        .max(64)
        .optional()
        .describe("Only the tensors of these layers; * stands for any characters, ? for one (repeatable)"),
      lease: leaseText.optional(),
      story: z
        .enum(["include", "omit"])
        .optional()
        .describe("Whether the file of a model that Stemma trained also carries its story (include)"),
    },
    responseType: "application/octet-stream",
    output: recoveryReport,
    details:
      "The body is the file. The header `stemma-recovery` has the report below as base64url JSON; `stemma-root`, `stemma-version-id`, `stemma-environment`, `etag` and `content-length` have parts of it. The last bytes are sent only when all tensors are verified: a body as long as `content-length` is right, a shorter one must not be used.",
  }),
  explainRecovery: call({
    summary: "From what a model would be recovered, and how long that takes on this machine",
    method: "GET",
    path: `${modelPath}/recovery`,
    right: "read",
    params: modelParams,
    output: recoveryExplanation,
  }),
  modelJson: call({
    summary: "The model.json by which TensorFlow.js loads a model's weights (see recover, form tfjs)",
    method: "GET",
    path: `${modelPath}/model.json`,
    right: "read",
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
  attachment: call({
    summary: "One of the files that are kept with a version",
    method: "GET",
    path: `${modelPath}/files/:file`,
    right: "read",
    params: { ...modelParams, file: shortText.describe("Its name, as in record.objects.attachments") },
    output: attachedFile,
  }),
  verify: call({
    summary: "Read a model, its checkpoints and all it uses from the disk and compare them with the record",
    method: "POST",
    path: `${modelPath}/verify`,
    right: "change-models",
    params: modelParams,
    output: verificationReport,
    isLong: true,
  }),
  import: stream({
    summary: "Save a safetensors or PyTorch file as a version of a model",
    method: "POST",
    path: `${fleetPath}/import`,
    right: "change-models",
    params: fleetParams,
    query: {
      name: shortText.optional().describe("Name of the model (required with a bare file)"),
      base: shortText.optional(),
      lease: leaseText.optional(),
      onto: shortText.optional().describe("Instead of base: the file has only some of this model's tensors"),
      layout: importLayout,
      device: shortText.optional(),
      line: shortText.optional(),
      story: storyOption,
    },
    requestTypes: ["application/octet-stream", importContentType],
    responseType: "application/json",
    output: importReport,
    details: `As \`application/octet-stream\` the body is the file and options are in the query. As \`${importContentType}\` the body is a length (u32, little-endian), that many bytes of JSON (\`ImportOptions\`), then the file.`,
  }),
  tag: call({
    summary: "Let a tag point to a version, or remove it",
    method: "POST",
    path: `${modelPath}/tag`,
    right: "change-models",
    params: modelParams,
    body: { tag: shortText, remove: z.boolean().optional().describe("Remove the tag") },
    output: versionSummary,
  }),
  hold: call({
    summary: "Keep a version from retention rules and retirement, or let it go",
    method: "POST",
    path: `${modelPath}/hold`,
    right: "change-models",
    params: modelParams,
    body: { held: z.boolean(), because: reasonText.optional() },
    output: versionSummary,
  }),
  retire: call({
    summary: "Retire a version: its name, parents and times are kept; a later collection frees its tensors",
    method: "POST",
    path: `${modelPath}/retire`,
    right: "delete",
    params: modelParams,
    body: {
      because: reasonText.optional(),
      dryRun: z.boolean().optional().describe("Check whether it can be retired, retire nothing"),
    },
    output: versionSummary,
  }),
  redact: call({
    summary:
      "Redact how a version was trained: parameters, seed, data description, times and caller cannot " +
      "be read any more; their commitments stay",
    method: "POST",
    path: `${modelPath}/redact`,
    right: "administer",
    params: modelParams,
    body: {
      because: reasonText.optional(),
      dryRun: z.boolean().optional().describe("Check whether there is something to redact, redact nothing"),
    },
    output: versionSummary,
  }),
};
