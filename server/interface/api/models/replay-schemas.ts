/** Inputs and answers of the operations on queued replays. */
import * as z from "zod";
import { replayReport, trainReport } from "./evaluation-schemas.js";
import {
  count,
  errorCode,
  hash,
  namedVersion,
  parameters,
  parameterValue,
  shortText,
  timeMs,
} from "../fields.js";
import type { ValueOf } from "../operation.js";

export const maxReplayPriority = 9;
export const defaultReplayPriority = 5;

export const replayPriority = z
  .number()
  .int()
  .min(0)
  .max(maxReplayPriority)
  .describe(`Higher ones run first, 0 to ${maxReplayPriority}; default ${defaultReplayPriority}`);

/** Nobody can allow a training or a replay more. */
export const maxMaxMinutes = 7 * 24 * 60;
export const maxMinutes = z
  .number()
  .int()
  .min(1)
  .max(maxMaxMinutes)
  .optional()
  .describe(
    `Minutes that it may take, at most ${maxMaxMinutes} and the server's limits.training.requestMinutes; default: its ` +
      "limits.training.maxMinutes",
  );

/** The largest request for a replay: a story, and the tensors of a large file. */
export const maxReplayStoryBytes = 64 * 1024 * 1024;

const storyText = z
  .string()
  .min(2)
  .max(4 * 1024 * 1024)
  .describe("Text of the key stemma.story of an exported file");
const storyData = z
  .string()
  .min(1)
  .max(4096)
  .optional()
  .describe(
    "Folder or file on the server's machine, or URL of a file, with its data, which are read as it says; absent: the " +
      "data that are stored or registered here",
  );

export const replayStoryBody = {
  story: storyText,
  tensors: z
    .array(z.object({ name: z.string().max(65_535), id: hash }))
    .max(300_000)
    .optional()
    .describe("The tensors of the file in their order in it; absent: only the recorded root is compared"),
  data: storyData,
  maxMinutes,
};

export const changedReplayBody = {
  set: parameters.describe("Parameters of the recipe that are to have other values, also as trainer.NAME"),
  name: shortText.describe("Name of the new model"),
  maxMinutes,
};
export const changedStoryBody = { story: storyText, data: storyData, ...changedReplayBody };
export const changedReplayReport = trainReport
  .extend({
    of: namedVersion.describe("The version whose training was replayed; that of a file has the number 0"),
    changes: z.array(z.object({ parameter: z.string(), before: parameterValue, after: parameterValue })),
  })
  .meta({ id: "ChangedReplayReport" });
export type ChangedReplayReport = ValueOf<typeof changedReplayReport>;

/** The progress of a replay's training. */
export const replayProgress = z.object({
  phase: z.string().describe("load, evaluate, train, …"),
  epoch: z.number().exactOptional(),
  epochs: z.number().exactOptional().describe("At most so many"),
  iteration: z.number().exactOptional(),
  iterations: z.number().exactOptional().describe("At most so many"),
});

export const replayJob = z
  .object({
    versionId: hash,
    name: z.string(),
    version: count.describe("0 for a claim, which is not a version yet"),
    kind: z
      .enum(["asked", "claim", "recovery"])
      .describe(
        "asked: a person queued it; claim: a device reported the version without its parameters; recovery: somebody " +
          "waits for the tensors of the version, which were dropped",
      ),
    device: z.string().exactOptional().describe("Of a claim"),
    line: z.string().exactOptional().describe("Of a claim"),
    state: z
      .enum(["waiting", "running", "ended", "failed", "cancelled", "wanted", "lost"])
      .describe(
        "ended: there is a verdict; failed: an error kept it from one; of a claim that was not proved, wanted: its " +
          "device is asked for the parameters, lost: the device is revoked or replaced",
      ),
    priority: replayPriority.exactOptional().describe("Absent for a recovery: it does not wait for replays"),
    queuedAtMs: timeMs,
    waitsFor: namedVersion
      .exactOptional()
      .describe("Of a recovery: the version that is made first, because its training begins from that"),
    predictedMs: count.exactOptional().describe("Milliseconds that its training takes"),
    maxMinutes: count.exactOptional().describe("Minutes that it may take"),
    by: z.string().exactOptional().describe("The caller that asked for it"),
    startedAtMs: timeMs.exactOptional(),
    progress: replayProgress.exactOptional(),
    endedAtMs: timeMs.exactOptional(),
    report: replayReport.exactOptional().describe("How it ended"),
    because: z.string().exactOptional().describe("Why a claim was not proved"),
    problem: z
      .object({ code: errorCode, message: z.string() })
      .exactOptional()
      .describe("Why it failed; ask for it again once that is mended"),
  })
  .meta({ id: "ReplayJob" });
export type ReplayJob = ValueOf<typeof replayJob>;
