/**
 * Trains the candidates that a query with `evaluate` describes, and saves what its rule keeps. An evaluation that was
 * cut short stays in its folder below run/trainings, and the same request goes on there with the same seed.
 */
import { defined } from "../../../shared/defined.js";
import { isStemmaError, StemmaError } from "../../../shared/errors.js";
import type { Hash } from "../../../shared/tensor/tensor.js";
import { nodeFiles } from "../../../shared/files/node-files.js";
import type { EvaluatedModels } from "../../interface/api/models/enumeration-schemas.js";
import type { TrainProgress } from "../../interface/api/models/evaluation-schemas.js";
import type { JobOptions, OperationInput, ServerOperations } from "../../interface/api/server-operations.js";
import {
  openEnumerationLog,
  type EnumerationEvent,
  type EnumerationLog,
} from "../../learning/enumeration/enumeration-log.js";
import {
  runEnumeration,
  type CandidateEnd,
  type EnumerationPorts,
} from "../../learning/enumeration/run-enumeration.js";
import {
  holderOf,
  keepLeased,
  leaseIn,
  leaseSources,
  requireLeased,
} from "../../learning/enumeration/source-lease.js";
import type { ProgramFile, ProgramSettings } from "../../../shared/programs/program-settings.js";
import type { EndedTraining } from "../../learning/enumeration/train-candidate.js";
import { newWeightsOf } from "../../learning/query/evaluate/plan-answer.js";
import type { OwnProgram } from "../../learning/query/evaluate/compile-evaluation.js";
import type { EvaluationPlan, PlannedCandidate } from "../../learning/query/evaluate/plan-evaluation.js";
import { queryInvalid, versionGone } from "../../learning/query/query-errors.js";
import { repositorySource } from "../../learning/query/repository-source.js";
import { plannedEvaluation } from "../../learning/query/run-query.js";
import { costLimits } from "../../learning/training/bounded-cost.js";
import { openTraining, type KeptTraining } from "../../learning/training/kept-trainings.js";
import type { OperationsContext } from "../../services/context/operations-context.js";
import { requireRoom } from "../../services/context/room-for-models.js";
import type { Home } from "../../storage/repository/home.js";
import type { FleetRepository } from "../../storage/repository/fleet-repository.js";
import { CandidateWork } from "./candidate-work.js";

interface EvaluateOptions extends JobOptions<TrainProgress> {
  /** The operations by which devices are reached. */
  readonly operations: () => ServerOperations;
  /** The program of the caller's own that trains; absent: engines do, here or on devices. */
  readonly program?: ProgramFile | undefined;
}

/**
 * @throws as runQuery; DATASET_UNKNOWN, RECIPE_UNKNOWN, DISK_FULL, TRAINING_STOPPED where the signal ended it;
 * SEARCH_WORKER_LOST where no device is left
 */
export async function evaluateQuery(
  context: OperationsContext,
  request: OperationInput<"evaluateQuery">,
  { onProgress, signal, operations, program: file }: EvaluateOptions,
): Promise<EvaluatedModels> {
  const program = file && (await (await programSettings()).trustedProgram(file));
  const { fleet, query, config, rank, maxMinutes, on } = request;
  const { home, fleets } = context;
  await requireRoom(home);
  if (on !== undefined) (await devicesModule()).requireDevicesAllowed(context, request);
  const repository = await fleets.get(fleet);
  const kept = await openFolder(home, request, program?.id);
  let isUnfinished = true;
  let lease: string | undefined;
  let stopRenewing: (() => void) | undefined;
  try {
    const log = await openEnumerationLog(nodeFiles(), kept.folder);
    const begun = log.events.find((event) => event.event === "begun");
    isUnfinished = begun !== undefined;
    const asked = {
      query,
      config,
      ...defined({ rank, signal, program: program && ownProgramOf(program.settings) }),
    };
    const planned = await planLeased(context, { repository, kept, begun, ...asked });
    const { plan } = planned;
    lease = planned.lease;
    requireTrainer(plan, query, { program, on });
    stopRenewing = keepLeased(repository, home.ports.clock, lease);
    const of = {
      ...{ repository, fleet, plan, query, seed: kept.seed, folder: kept.folder, lease },
      ...defined({ signal, onProgress }),
    };
    const trainBy = async <Outcome extends EndedTraining>(work: Work<Outcome>): Promise<EvaluatedModels> => {
      try {
        if (begun === undefined)
          await log.append({ event: "begun", versions: versionsOf(plan), sources: sourcesOf(plan) });
        isUnfinished = true;
        const ends = await train(plan, log, work);
        isUnfinished = false;
        return { seed: kept.seed, ...reportOf(plan, ends, { repository, work }) };
      } finally {
        await work.close();
      }
    };
    if (on === undefined) {
      const limits = await costLimits(context, maxMinutes);
      if (program !== undefined) {
        const { ProgramCandidates } = await import("./program-candidates.js");
        const byProgram = { ...of, limits, program, hasMinutes: maxMinutes !== undefined };
        return await trainBy(await ProgramCandidates.open(context, byProgram));
      }
      return await trainBy(await CandidateWork.open(context, { ...of, limits }));
    }
    const { DeviceCandidates } = await devicesModule();
    const byDevices = { ...of, asked: { ...request, on }, operations: operations() };
    return await trainBy(await DeviceCandidates.open(context, byDevices));
  } catch (error) {
    throw isUnfinished && isStemmaError(error, "TRAINING_STOPPED") ? stopped(error) : error;
  } finally {
    stopRenewing?.();
    const goesOn = isUnfinished && kept.canContinue;
    if (!goesOn && lease !== undefined) await repository.leases.end(lease);
    await kept.release(goesOn);
  }
}

/** The same request goes on in the same folder. */
async function openFolder(
  home: Home,
  { fleet, query, config, seed, rank, on, line }: OperationInput<"evaluateQuery">,
  program: string | undefined,
): Promise<KeptTraining> {
  return await openTraining(home, {
    fleet,
    seed: seed ?? null,
    evaluate: query,
    config: config ?? null,
    ...defined({ rank, line: on === undefined ? undefined : (line ?? "search"), program }),
  });
}

interface Planning extends Pick<OperationInput<"evaluateQuery">, "query" | "config" | "rank"> {
  readonly repository: FleetRepository;
  readonly kept: KeptTraining;
  readonly begun: Extract<EnumerationEvent, { readonly event: "begun" }> | undefined;
  readonly signal?: AbortSignal;
  readonly program?: OwnProgram;
}

/** The plans that are made at most, where a collection removes a source between plan and lease. */
const maxPlans = 4;

/** The plan, and a lease on all versions that it comes from. */
async function planLeased(
  { home }: OperationsContext,
  { repository, kept, begun, query, config, rank, signal, program }: Planning,
): Promise<{ readonly plan: EvaluationPlan; readonly lease: string }> {
  const { folder, seed } = kept;
  const holder = holderOf({ seed, query });
  const { versions: found, sources = [] } = begun ?? {};
  const before = await leaseIn(repository, folder);
  if (found === undefined && before !== undefined) await repository.leases.end(before);
  if (found !== undefined)
    requireLeased(repository, [...found, ...sources.flatMap((id) => id ?? [])], before);
  for (let plans = 1; ; plans++) {
    const source = await repositorySource(repository, home.ports.clock, rank);
    const plan = await plannedEvaluation(source, query, {
      ...{ config, seed },
      ...defined({ found, sources: found && sources, program }),
    });
    requireModels(plan, found, query);
    if (found !== undefined && before !== undefined) return { plan, lease: before };
    const versions = new Set([...versionsOf(plan), ...sourcesOf(plan).flatMap((id) => id ?? [])]);
    try {
      return { plan, lease: await leaseSources(repository, [...versions], { folder, holder, signal }) };
    } catch (error) {
      const isGone = isStemmaError(error, "OBJECT_MISSING") || isStemmaError(error, "MODEL_RETIRED");
      if (!isGone || found !== undefined || plans === maxPlans) throw error;
    }
  }
}

const devicesModule = () => import("./device-candidates.js");
const programSettings = () => import("../../../shared/programs/program-settings.js");

const ownProgramOf = ({ samples, metric }: ProgramSettings): OwnProgram => ({
  samples,
  ...defined({ metric }),
});

/** @throws QUERY_INVALID where a recipe is missing, or a program trains, which follows none */
function requireTrainer(
  { query: { combinations } }: EvaluationPlan,
  query: string,
  { program, on }: { readonly program: unknown; readonly on: string | undefined },
): void {
  const hasRecipe = combinations.some(({ recipe }) => recipe !== undefined);
  if (program !== undefined && hasRecipe)
    throw queryInvalid(
      query,
      0,
      "the program that trains follows no recipe; leave recipe out of the configuration",
    );
  if (program === undefined && on === undefined && !hasRecipe)
    throw queryInvalid(
      query,
      0,
      "the configuration has no recipe; name one, or a program of your own with --trainer",
    );
}

/** The trainings of candidates, on the server or on devices. */
interface Work<Outcome extends EndedTraining> extends Pick<
  EnumerationPorts<Outcome>,
  "concurrency" | "mayTrainAgain" | "faults" | "train" | "save" | "forget"
> {
  /** The device that trained what a candidate became. */
  deviceOf?(candidate: number): string | undefined;
  readonly others?: EvaluatedModels["otherDevices"];
  close(): Promise<void>;
}

async function train<Outcome extends EndedTraining>(
  { query: { rule, figure }, rounds, candidates }: EvaluationPlan,
  log: EnumerationLog,
  work: Work<Outcome>,
): Promise<readonly CandidateEnd[]> {
  const numbers = candidates.map(({ number }) => number);
  return await runEnumeration(
    { rule, figure, rounds, candidates: numbers },
    {
      log,
      ...{ concurrency: work.concurrency, mayTrainAgain: work.mayTrainAgain === true, faults: work.faults },
      train: (candidate, wanted) => work.train(candidate, wanted),
      save: (candidate, outcome) => work.save(candidate, outcome),
      forget: (candidate) => work.forget(candidate),
    },
  );
}

function versionsOf({ candidates }: EvaluationPlan): PlannedCandidate["model"]["row"]["versionId"][] {
  return [...new Set(candidates.map(({ model }) => model.row.versionId))];
}

/** The sources of the models that a resumed evaluation plans: only versions with candidates are looked at again. */
function sourcesOf(plan: EvaluationPlan): (Hash | null)[] {
  const versions = new Set(versionsOf(plan));
  return plan.models
    .filter(({ row }) => versions.has(row.versionId))
    .map(({ derived }) => derived?.inherited?.row.versionId ?? null);
}

/** @throws QUERY_INVALID where there is nothing to train; MODEL_RETIRED where a model went since it began */
function requireModels(plan: EvaluationPlan, found: readonly string[] | undefined, query: string): void {
  const versions: readonly string[] = versionsOf(plan);
  const gone = found?.find((versionId) => !versions.includes(versionId));
  if (gone !== undefined) throw versionGone(gone);
  if (versions.length > 0) return;
  const [first] = plan.notMade;
  const why = first === undefined ? "the inner query finds no model" : `${first.name}: ${first.reason}`;
  throw queryInvalid(query, 0, `it has no candidate (${why})`);
}

function reportOf(
  { query, models, candidates, notMade }: EvaluationPlan,
  ends: readonly CandidateEnd[],
  {
    repository,
    work,
  }: {
    readonly repository: FleetRepository;
    readonly work: Pick<Work<EndedTraining>, "deviceOf" | "others">;
  },
): Omit<EvaluatedModels, "seed"> {
  const judgedAtEnd = ends.filter(({ isAtEnd }) => isAtEnd === true).length;
  return {
    rule: query.ruleText,
    newWeights: newWeightsOf(models),
    notMade: notMade.map((each) => ({ ...each })),
    candidates: ends.map(({ candidate, figure, iteration, versionId, reason }) => {
      const { model, combination } = candidates[candidate - 1] as PlannedCandidate;
      const summary = versionId && repository.resolve(versionId);
      return {
        candidate,
        model: model.title,
        settings: { ...combination.varied },
        figure,
        iteration,
        ...(summary && {
          saved: { versionId: summary.versionId, name: summary.name, version: summary.version },
        }),
        ...defined({ reason, device: work.deviceOf?.(candidate) }),
      };
    }),
    ...defined({ otherDevices: work.others, judgedAtEnd: judgedAtEnd || undefined }),
  };
}

function stopped(cause: StemmaError): StemmaError {
  return new StemmaError(
    "TRAINING_STOPPED",
    "The evaluation was stopped. What was judged is kept for a week: run the same command again, and it goes on there.",
    { cause },
  );
}
