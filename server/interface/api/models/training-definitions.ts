/** Operations that train, evaluate and reduce models. */
import * as z from "zod";
import { averageFleetBody, fleetAverageReport, mergeBody, mergeReport } from "./average-schemas.js";
import {
  evaluateBody,
  evaluationDetails,
  evaluationQuery,
  evaluationReport,
  evaluationsQuery,
  listedEvaluation,
  replayReport,
  trainBody,
  trainProgress,
  trainReport,
} from "./evaluation-schemas.js";
import { evaluateProgressivelyBody, progressiveReport } from "./progressive-schemas.js";
import { reduceBody, reduceReport } from "./reduce-schemas.js";
import { fleetParams, fleetPath, modelParams, modelPath, shortText } from "../fields.js";
import { maxMinutes } from "./replay-schemas.js";
import { call, job } from "../operation.js";

export const trainingOperations = {
  reduce: call({
    summary: "Save a smaller, lossy form of a model as a version of its own whose base is the exact one",
    method: "POST",
    path: `${modelPath}/reduce`,
    right: "change-models",
    params: modelParams,
    body: reduceBody,
    output: reduceReport,
    isLong: true,
  }),
  mergeModels: call({
    summary:
      "Save the average of models as a version whose bases are all of them; a replay computes it again",
    method: "POST",
    path: `${fleetPath}/merge`,
    right: "change-models",
    params: fleetParams,
    body: mergeBody,
    output: mergeReport,
    isLong: true,
    stopsWithClient: true,
  }),
  averageFleet: call({
    summary: "Save the average of the newest models of a line on the selected devices",
    method: "POST",
    path: `${fleetPath}/average`,
    right: "change-models",
    params: fleetParams,
    body: averageFleetBody,
    output: fleetAverageReport,
    isLong: true,
    stopsWithClient: true,
  }),
  evaluate: call({
    summary: "Measure a model on the held-out part of named data; the evaluation is stored with it",
    method: "POST",
    path: `${modelPath}/evaluate`,
    right: "change-models",
    params: modelParams,
    body: evaluateBody,
    output: evaluationReport,
    isLong: true,
    stopsWithClient: true,
  }),
  evaluations: call({
    summary: "Stored evaluations, the latest first",
    method: "GET",
    path: `${fleetPath}/evaluations`,
    right: "read",
    params: fleetParams,
    query: evaluationsQuery,
    output: z.array(listedEvaluation),
  }),
  evaluation: call({
    summary: "A stored evaluation in detail, with predictions",
    method: "GET",
    path: `${fleetPath}/evaluations/:evaluation`,
    right: "read-predictions",
    params: { ...fleetParams, evaluation: shortText.describe("Its id, or at least 8 digits of it") },
    query: evaluationQuery,
    output: evaluationDetails,
  }),
  evaluateProgressively: call({
    summary: "The most likely classes, from part of the weights' bytes where that is certain",
    method: "POST",
    path: `${modelPath}/evaluate-progressively`,
    right: "change-models",
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
    right: "change-models",
    params: modelParams,
    body: { maxMinutes },
    output: replayReport,
    isLong: true,
    stopsWithClient: true,
  }),
  train: job({
    summary: "Train a model on the server and save it with its lineage",
    path: `${fleetPath}/train`,
    right: "change-models",
    jobsPath: `${fleetPath}/train`,
    canListJobs: true,
    params: fleetParams,
    body: { ...trainBody, maxMinutes },
    progress: trainProgress,
    report: trainReport,
  }),
};
