/** Operations on queued replays, which a server runs one at a time. */
import * as z from "zod";
import { replayReport } from "./evaluation-schemas.js";
import { count, fleetParams, fleetPath, hash, modelParams, modelPath, shortText } from "../fields.js";
import { call } from "../operation.js";
import {
  changedReplayBody,
  changedReplayReport,
  changedStoryBody,
  maxMinutes,
  maxReplayStoryBytes,
  replayJob,
  replayPriority,
  replayStoryBody,
} from "./replay-schemas.js";
import { segmentNumber, spotCheckReport } from "./spot-check-schemas.js";

export const replayOperations = {
  replayChanged: call({
    summary: "Replay a version's training with other parameters, and save the result as a new version",
    method: "POST",
    path: `${modelPath}/replay/changed`,
    right: "change-models",
    params: modelParams,
    body: changedReplayBody,
    output: changedReplayReport,
    isLong: true,
    stopsWithClient: true,
  }),
  rebaseEngine: call({
    summary:
      "Replay a version with another engine, and keep that it can replay it too where it gives the same bytes",
    method: "POST",
    path: `${modelPath}/replay/rebase`,
    right: "change-models",
    params: modelParams,
    body: {
      engine: shortText
        .optional()
        .describe("Id of an approved engine, at least 8 digits; default: the server's own"),
      maxMinutes,
    },
    output: replayReport,
    isLong: true,
    stopsWithClient: true,
  }),
  spotCheck: call({
    summary: "Run some segments of a version's training again, from states that its device committed to",
    method: "POST",
    path: `${modelPath}/replay/spot-check`,
    right: "change-models",
    params: modelParams,
    body: { segments: segmentNumber.optional(), maxMinutes },
    output: spotCheckReport,
    isLong: true,
    stopsWithClient: true,
  }),
  replayStory: call({
    summary:
      "Replay the story of an exported file or of a record alone, with the data that are here; no verdict is kept",
    method: "POST",
    path: `${fleetPath}/replay/story`,
    right: "change-models",
    params: fleetParams,
    body: replayStoryBody,
    output: replayReport,
    isLong: true,
    stopsWithClient: true,
    maxBodyBytes: maxReplayStoryBytes,
  }),
  replayChangedStory: call({
    summary:
      "Replay the story of an exported file with other parameters, and save the result as a new version",
    method: "POST",
    path: `${fleetPath}/replay/story/changed`,
    right: "change-models",
    params: fleetParams,
    body: changedStoryBody,
    output: changedReplayReport,
    isLong: true,
    stopsWithClient: true,
    maxBodyBytes: maxReplayStoryBytes,
  }),
  story: call({
    summary: "How a model was made, as its exported file carries it: the record alone, without the model",
    method: "GET",
    path: `${modelPath}/story`,
    right: "read",
    params: modelParams,
    output: z.object({ versionId: hash, name: z.string(), version: count, story: z.string() }),
  }),
  replays: call({
    summary: "Queued replays: the one that runs, those that wait in their order, and the latest that ended",
    method: "GET",
    path: `${fleetPath}/replays`,
    right: "read",
    params: fleetParams,
    output: z.array(replayJob),
  }),
  queueReplay: call({
    summary: "Queue the replay of a version; a server runs it, also after a restart",
    method: "POST",
    path: `${modelPath}/replay/queue`,
    right: "change-models",
    params: modelParams,
    body: { priority: replayPriority.optional(), maxMinutes },
    output: replayJob,
  }),
  cancelReplay: call({
    summary: "Take a replay from the queue, or end it where it runs; it leaves no verdict",
    method: "POST",
    path: `${modelPath}/replay/cancel`,
    right: "change-models",
    params: modelParams,
    output: replayJob,
  }),
};
