/**
 * Performs the commands that the server sends to a device. They are report, train, activate, evaluate,
 * settings, logs, those that renew its certificate, and those that bring recipes of the fleet's own.
 */
import * as z from "zod";
import { callerText } from "../shared/journal/caller.js";
import { isHash } from "../shared/tensor/hash.js";
import type { Hash } from "../shared/tensor/tensor.js";
import type { Command, CommandResult } from "../shared/wire/messages.js";
import { logLevels } from "../shared/adapters/log-forms.js";
import {
  conditionNeeds,
  type ConditionAnswer,
  type ConditionNeeds,
} from "../shared/wire/device-conditions.js";
import type { GateAnswers } from "../shared/wire/gate-answers.js";
import {
  trialEnd,
  trialRequest,
  type TrialAnswer,
  type TrialEnd,
  type TrialRequest,
} from "../shared/wire/live-trial.js";
import type { DeviceSettings } from "../shared/wire/device-settings.js";
import {
  keptStateCommand,
  keptStateRequest,
  type KeptStatePart,
  segmentLeavesCommand,
  segmentLeavesRequest,
  type KeptStateRequest,
  type SegmentLeavesRequest,
} from "../shared/wire/kept-states.js";
import {
  endTrainingCommand,
  endTrainingRequest,
  trainingCourseCommand,
  trainingCourseRequest,
  type EndTrainingRequest,
  type TrainingCourse,
  type TrainingCourseRequest,
} from "../shared/wire/judged-training.js";
import type { NamedRecipes } from "../shared/wire/recipe-commands.js";
import type { LogPage, LogQuery } from "../shared/adapters/recent-log.js";
import {
  bodyNotJson,
  bodyNotObject,
  conditionsInvalid,
  evaluateInvalid,
  trainingNotNamed,
  trialInvalid,
  segmentNotNamed,
  stateNotNamed,
  versionNotNamed,
} from "./command-errors.js";
import type { AgentStatus } from "./status.js";
import type { EvaluationRequest, LineEvaluation } from "./trainer/evaluator.js";
import type { SegmentAnswer } from "./trainer/segments-again.js";
import type { TrainingRequest } from "./trainer/training-job.js";

/** The part of the agent that the commands need. */
export interface CommandTarget {
  status(): Promise<AgentStatus>;
  /** Starts a training; does not wait for it. @throws LINE_UNKNOWN, TRAINING_REFUSED */
  train(line: string, request: TrainingRequest): void;
  /** The losses of the training that runs. @throws NOT_FOUND where another one runs, or none */
  trainingCourse(asked: TrainingCourseRequest): Promise<TrainingCourse>;
  /** Ends the training that runs, without a model; resolves when it has ended. @throws NOT_FOUND */
  endTraining(asked: EndTrainingRequest): Promise<void>;
  activate(line: string, versionId: Hash): Promise<void>;
  /** @throws LINE_UNKNOWN, MODEL_NOT_FOUND, TRAINING_REFUSED while a training runs, DATASET_EMPTY */
  evaluate(line: string, request: EvaluationRequest): Promise<LineEvaluation>;
  /** Replaces what the server has set on this device. @throws SETTING_INVALID, FILE_FAILED, DISK_FULL */
  setSettings(settings: unknown): Promise<DeviceSettings>;
  /** The newest events of the log. */
  recentEvents(query: LogQuery): LogPage;
  /** The recipes of the fleet's own that lines name, and what is here of them. */
  namedRecipes(): Promise<NamedRecipes>;
  /** Takes a part of one, or takes one back. @throws what OwnRecipes.receive throws */
  receiveRecipe(body: unknown): Promise<NamedRecipes>;
  /** Returns whether the device's power and link are such as a rollout asks for. */
  conditions(needs: ConditionNeeds): Promise<ConditionAnswer>;
  /** Returns the gates of a rollout that the device can answer. @throws LINE_UNKNOWN */
  gates(line: string): Promise<GateAnswers>;
  /** Begins a trial on live inputs, tells how far it is, or ends it. @throws LINE_UNKNOWN, what LiveTrials throws */
  trial(asked: TrialRequest | TrialEnd): Promise<TrialAnswer | undefined>;
  /** Gives a part of a state of a training. @throws NOT_FOUND */
  keptState(asked: KeptStateRequest): Promise<KeptStatePart>;
  /**
   * Runs a segment of an earlier training again, for its leaves or for the state at its end.
   * @throws NOT_FOUND, TRAINING_REFUSED while a training runs
   */
  segmentLeaves(asked: SegmentLeavesRequest): Promise<SegmentAnswer>;
  /** A request for a new certificate. @throws NOT_ALLOWED where this device has a token */
  requestCertificate(): Promise<object>;
  /** Takes the answer to it; resolves with the end of the new certificate. @throws ENROLMENT_INVALID */
  takeCertificate(answer: unknown): Promise<number>;
}

/** A report has to fit into one message: it names this many of the newest versions of each line. */
const reportedVersions = 8;
/** The events of one answer, as JSON. */
const maxLogBytes = 40 * 1024;
const maxLogEvents = 500;

/**
 * Runs a command. A training is answered when it is requested, not when it is done.
 * @param request the server's request that it belongs to
 */
export async function runServerCommand(
  command: Command,
  target: CommandTarget,
  request?: string,
): Promise<CommandResult> {
  const body = parseBody(command);
  const line = textOf(body["line"]);
  switch (command.name) {
    case "report": {
      const status = await target.status();
      const lines = status.lines.map((one) => ({ ...one, versions: one.versions.slice(-reportedVersions) }));
      return resultOf({ ...status, lines });
    }
    case "train":
      return requestTraining(target, line, body, request);
    case trainingCourseCommand:
      return await trainingCourseAnswer(target, body);
    case endTrainingCommand:
      return await endTraining(target, body);
    case "activate":
      return await activate(target, line, body["versionId"]);
    case "evaluate":
      return await evaluate(target, line, body);
    case "settings":
      return resultOf({ settings: await target.setSettings(body["settings"]) });
    case "logs":
      return resultOf(target.recentEvents(logQueryOf(body)));
    case "recipes":
      return resultOf(await target.namedRecipes());
    case "recipe":
      return resultOf(await target.receiveRecipe(body));
    case "gates":
      return resultOf(await target.gates(line));
    case "trial":
      return await runTrial(target, body);
    case "conditions":
      return await answerConditions(target, body);
    case keptStateCommand:
      return await keptState(target, body);
    case segmentLeavesCommand:
      return await segmentLeaves(target, body);
    case "certificate-request":
      return resultOf(await target.requestCertificate());
    case "certificate":
      return resultOf({ notAfterMs: await target.takeCertificate(body["answer"]) });
    default:
      return {
        type: "commandResult",
        code: "USAGE",
        json: JSON.stringify({
          message: `This agent knows the commands report, train, training-course, end-training, activate, evaluate, settings, logs, gates, trial, conditions, recipes, recipe, kept-state, segment-leaves, certificate-request and certificate, not "${command.name.slice(0, 40)}".`,
        }),
      };
  }
}

type CommandBody = Readonly<Record<string, unknown>>;

function requestTraining(
  target: CommandTarget,
  line: string,
  body: CommandBody,
  request: string | undefined,
): CommandResult {
  target.train(line, {
    recipe: body["recipe"] as string | undefined,
    parameters: body["parameters"] as TrainingRequest["parameters"],
    isJudged: body["judged"] === true,
    by: { who: callerText(textOf(body["by"])) ?? "server", through: "server" },
    request,
  });
  return resultOf({ line, message: `${line} trains as soon as it can` });
}

/** @throws USAGE, NOT_FOUND */
async function trainingCourseAnswer(target: CommandTarget, body: CommandBody): Promise<CommandResult> {
  const asked = trainingCourseRequest.safeParse(body);
  if (!asked.success) throw trainingNotNamed();
  return resultOf(await target.trainingCourse(asked.data));
}

/** @throws USAGE, NOT_FOUND */
async function endTraining(target: CommandTarget, body: CommandBody): Promise<CommandResult> {
  const asked = endTrainingRequest.safeParse(body);
  if (!asked.success) throw trainingNotNamed();
  await target.endTraining(asked.data);
  return resultOf({});
}

/** @throws MODEL_NOT_FOUND */
async function activate(target: CommandTarget, line: string, versionId: unknown): Promise<CommandResult> {
  if (!isHash(versionId)) throw versionNotNamed();
  await target.activate(line, versionId);
  return resultOf({ line, versionId });
}

/** @throws USAGE */
async function evaluate(target: CommandTarget, line: string, body: CommandBody): Promise<CommandResult> {
  const { versionIds = [], limit } = body;
  if (!Array.isArray(versionIds) || versionIds.length > 2 || !versionIds.every(isHash))
    throw evaluateInvalid();
  const evaluated = await target.evaluate(line, {
    versionIds,
    ...(typeof limit === "number" ? { limit } : {}),
  });
  return resultOf(evaluated);
}

/** @throws USAGE */
async function runTrial(target: CommandTarget, body: CommandBody): Promise<CommandResult> {
  const asked = z.union([trialEnd, trialRequest]).safeParse(body);
  if (!asked.success) throw trialInvalid();
  return resultOf((await target.trial(asked.data)) ?? {});
}

/** @throws USAGE */
async function answerConditions(target: CommandTarget, body: CommandBody): Promise<CommandResult> {
  const needs = conditionNeeds.safeParse(body);
  if (!needs.success) throw conditionsInvalid();
  return resultOf(await target.conditions(needs.data));
}

/** @throws USAGE, NOT_FOUND */
async function keptState(target: CommandTarget, body: CommandBody): Promise<CommandResult> {
  const asked = keptStateRequest.safeParse(body);
  if (!asked.success) throw stateNotNamed();
  return resultOf(await target.keptState(asked.data));
}

/** @throws USAGE, NOT_FOUND, TRAINING_REFUSED */
async function segmentLeaves(target: CommandTarget, body: CommandBody): Promise<CommandResult> {
  const asked = segmentLeavesRequest.safeParse(body);
  if (!asked.success) throw segmentNotNamed();
  return resultOf(await target.segmentLeaves(asked.data));
}

/** Parses the query for log lines, within what one answer can contain. */
function logQueryOf({ before, limit, level, about }: CommandBody): LogQuery {
  const most = typeof limit === "number" && limit >= 1 ? Math.floor(limit) : maxLogEvents;
  return {
    before: typeof before === "number" ? before : undefined,
    limit: Math.min(most, maxLogEvents),
    level: logLevels.find((known) => known === level),
    about: typeof about === "string" ? about : undefined,
    maxBytes: maxLogBytes,
  };
}

/** @throws USAGE where the body is not a JSON object */
function parseBody({ name, json }: Command): CommandBody {
  let value: unknown;
  try {
    value = json === "" ? {} : JSON.parse(json);
  } catch (cause) {
    throw bodyNotJson(name, cause);
  }
  if (typeof value !== "object" || value === null || Array.isArray(value)) throw bodyNotObject(name);
  return value as Record<string, unknown>;
}

function textOf(value: unknown): string {
  return typeof value === "string" ? value : "";
}

function resultOf(value: unknown): CommandResult {
  return { type: "commandResult", code: "", json: JSON.stringify(value) };
}
