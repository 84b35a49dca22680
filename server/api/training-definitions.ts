/** Operations that train, evaluate and reduce models. */
import {
  evaluateBody,
  evaluateProgressivelyBody,
  evaluationReport,
  progressiveReport,
  reduceBody,
  reduceReport,
  replayReport,
  trainBody,
  trainProgress,
  trainReport,
} from "./evaluation-schemas.js";
import { fleetParams, fleetPath, modelParams, modelPath } from "./fields.js";
import { call, job } from "./operation.js";

export const trainingOperations = {
  reduce: call({
    summary: "Save a smaller, lossy form of a model as a version of its own whose base is the exact one",
    method: "POST",
    path: `${modelPath}/reduce`,
    params: modelParams,
    body: reduceBody,
    output: reduceReport,
    isLong: true,
  }),
  evaluate: call({
    summary: "Measure a model on the held-out part of named data; nothing is saved",
    method: "POST",
    path: `${modelPath}/evaluate`,
    params: modelParams,
    body: evaluateBody,
    output: evaluationReport,
    isLong: true,
    stopsWithClient: true,
  }),
  evaluateProgressively: call({
    summary: "The most likely classes, from part of the weights' bytes where that is certain",
    method: "POST",
    path: `${modelPath}/evaluate-progressively`,
    params: modelParams,
    body: evaluateProgressivelyBody,
    output: progressiveReport,
    isLong: true,
    stopsWithClient: true,
  }),
  replay: call({
    summary: "Train a version once more from its provenance and compare it bit for bit; nothing is saved",
    method: "POST",
    path: `${modelPath}/replay`,
    params: modelParams,
    output: replayReport,
    isLong: true,
    stopsWithClient: true,
  }),
  train: job({
    summary: "Train a model on the server and save it with its lineage",
    path: `${fleetPath}/train`,
    jobsPath: `${fleetPath}/train`,
    canListJobs: true,
    params: fleetParams,
    body: trainBody,
    progress: trainProgress,
    report: trainReport,
  }),
};
