/** The work on one candidate of an evaluation after the other: its base, its data, its job, and its version. */
import { readFile, rm } from "node:fs/promises";
import { join } from "node:path";
import { defined } from "../../../shared/defined.js";
import { nodeFiles } from "../../../shared/files/node-files.js";
import { architectureHash, decodeArchitecture } from "../../../shared/model/architecture.js";
import { contentId, treeRoot } from "../../../shared/model/tree.js";
import { Streams } from "../../../shared/random/streams.js";
import { writeModelFiles } from "../../../shared/save/model-folder.js";
import { modelSourceOfSafetensors } from "../../../shared/save/model-source.js";
import type { Hash } from "../../../shared/tensor/tensor.js";
import { EngineWorker } from "../../../shared/train/engine-worker.js";
import { usedEngine } from "../../../shared/train/own-engine.js";
import type { Parameters } from "../../../shared/train/recipes/recipe.js";
import { recipeByName } from "../../../shared/train/recipes/registry.js";
import type { TrainingOutcome } from "../../../shared/train/train-in-child.js";
import { jobFormat, type TrainingJob } from "../../../shared/train/training.js";
import type { TrainProgress } from "../../interface/api/models/evaluation-schemas.js";
import {
  trainCandidate,
  type TrainedSoFar,
  type WantedFigure,
} from "../../learning/enumeration/train-candidate.js";
import type { Combination } from "../../learning/query/evaluate/compile-evaluation.js";
import {
  parametersOf,
  type EvaluationPlan,
  type PlannedCandidate,
  type PlannedModel,
} from "../../learning/query/evaluate/plan-evaluation.js";
import { plannedCost } from "../../learning/training/bounded-cost.js";
import { declaredFor, findOwnRecipe, jobRecipe } from "../../learning/training/own-recipes.js";
import { saveOutcome } from "../../learning/training/save-outcome.js";
import type { CostLimits } from "../../learning/training/training-cost.js";
import { writeModelFolder } from "../../services/context/model-folder.js";
import { referenceOf, requireDataset } from "../../services/context/named-data.js";
import type { OperationsContext } from "../../services/context/operations-context.js";
import { storeNamedEngine } from "../../services/context/own-engine.js";
import { workFolderOf } from "../../services/context/work-folder.js";
import { dataOfTraining } from "../../services/data/data-of-training.js";
import { explainRefusedData } from "../../services/data/raw-files.js";
import { readableDataset, type ReadableDataset } from "../../services/data/readable-dataset.js";
import type { DatasetSummary } from "../../interface/api/models/dataset-schemas.js";
import type { RecipeSummary } from "../../storage/repository/answers/code-answers.js";
import type { VersionSummary } from "../../storage/repository/answers/version-answers.js";
import type { FleetRepository } from "../../storage/repository/fleet-repository.js";
import { baseVersionOf, metadataOf, savedBefore, titleOf } from "./candidate-versions.js";
import { derivedSource, inheritableLeaves } from "./save-derived.js";

export interface CandidateWorkOptions {
  readonly repository: FleetRepository;
  readonly fleet: string;
  readonly plan: EvaluationPlan;
  readonly query: string;
  readonly seed: string;
  readonly folder: string;
  readonly limits: CostLimits;
  /** The lease on the versions that candidates come from. */
  readonly lease: string;
  readonly signal?: AbortSignal;
  readonly onProgress?: (progress: TrainProgress) => void;
}

interface OpenData extends ReadableDataset {
  readonly registered: DatasetSummary;
}

export class CandidateWork {
  readonly #bases = new Map<PlannedModel, string>();
  readonly #opened = new Map<string, OpenData>();
  readonly #worker: EngineWorker;

  private constructor(
    private readonly context: OperationsContext,
    private readonly options: CandidateWorkOptions,
    private readonly recipes: ReadonlyMap<string, RecipeSummary | undefined>,
  ) {
    this.#worker = new EngineWorker(join(options.folder, "worker"));
  }

  /** Looks at all data and recipes before anything is trained. @throws DATASET_UNKNOWN, RECIPE_UNKNOWN */
  static async open(context: OperationsContext, options: CandidateWorkOptions): Promise<CandidateWork> {
    const { repository, fleet, plan } = options;
    const recipes = new Map<string, RecipeSummary | undefined>();
    const registered = new Map<string, DatasetSummary>();
    for (const combination of plan.query.combinations) {
      const { recipe, data } = byEngine(combination);
      recipes.set(recipe, findOwnRecipe(repository, recipe));
      registered.set(data, await requireDataset(context, fleet, data));
    }
    const work = new CandidateWork(context, options, recipes);
    try {
      for (const [name, summary] of registered)
        work.#opened.set(name, {
          registered: summary,
          ...(await readableDataset(context, fleet, referenceOf(summary))),
        });
      return work;
    } catch (error) {
      await work.close();
      throw error;
    }
  }

  async close(): Promise<void> {
    await this.#worker.close();
    for (const { release } of this.#opened.values()) await release?.();
  }

  /** The server trains one candidate after the other. */
  readonly concurrency = 1;

  /** Removes what a candidate left on the disk. */
  forget(candidate: number): Promise<void> {
    return rm(this.#folderOf(candidate), { recursive: true, force: true });
  }

  #folderOf(candidate: number): string {
    return join(this.options.folder, `candidate-${candidate}`);
  }

  async train(number: number, wanted: WantedFigure | undefined): Promise<TrainedSoFar> {
    const { plan, repository, limits, signal, onProgress } = this.options;
    const candidate = this.#candidate(number);
    const { clock } = this.context.home.ports;
    const title = titleOf(plan, candidate);
    const { recipe, data } = byEngine(candidate.combination);
    const own = this.recipes.get(recipe);
    const reference = own
      ? { bundle: own.recipe }
      : { name: recipe, version: String(recipeByName(recipe).version) };
    return await trainCandidate(
      {
        job: await this.#jobOf(candidate),
        what: `candidate ${number}`,
        clock,
        limits,
        predict: (planned) => plannedCost(repository, reference, planned),
        workFolder: this.#folderOf(number),
        worker: this.#worker,
        ...defined({ signal }),
        onProgress: ({ iteration, loss, phase }) =>
          onProgress?.({
            state: "running",
            line: `${title}: ${iteration === undefined ? phase : `step ${iteration}`}`,
            ...defined({ iteration, loss }),
          }),
      },
      wanted,
    ).catch((error: unknown) =>
      explainRefusedData(error, this.#data(data).registered, workFolderOf(this.context.home)),
    );
  }

  /** Saves what a candidate became, with its base where that is not a version yet. */
  async save(number: number, outcome: TrainingOutcome): Promise<Hash> {
    const { repository, lease } = this.options;
    const candidate = this.#candidate(number);
    const { model, combination } = candidate;
    const { data } = byEngine(combination);
    const base = await baseVersionOf(this.context, this.options, model);
    const known = await this.#savedBefore(model.keptName, base, outcome);
    if (known !== undefined) return known;
    const engine = await usedEngine(outcome.result.engine);
    await storeNamedEngine(repository, engine?.id);
    const { registered } = this.#data(data);
    const summary = await saveOutcome(this.context, {
      repository,
      engine,
      name: model.keptName,
      called: Object.keys(combination.parameters),
      dataName: data,
      metadata: metadataOf(candidate, this.options),
      base,
      lease,
      outcome,
      data: await dataOfTraining(repository, outcome.result.datasetHash, registered.kind),
    });
    (await this.context.live?.fleet(repository.fleet))?.saved(summary.versionId);
    return summary.versionId;
  }

  #candidate(number: number): PlannedCandidate {
    return this.options.plan.candidates[number - 1] as PlannedCandidate;
  }

  #data(name: string): OpenData {
    return this.#opened.get(name) as OpenData;
  }

  async #jobOf(candidate: PlannedCandidate): Promise<TrainingJob> {
    const { repository, seed } = this.options;
    const { number, model, combination } = candidate;
    const { recipe, data } = byEngine(combination);
    const own = this.recipes.get(recipe);
    const passed: Parameters = parametersOf(candidate);
    return defined({
      format: jobFormat,
      recipe: own?.name ?? recipe,
      ownRecipe:
        own &&
        (await jobRecipe(this.context, {
          repository,
          recipe: own.recipe,
          workFolder: this.#folderOf(number),
        })),
      parameters: await declaredFor(this.context, { repository, own, name: recipe }, passed),
      dataset: this.#data(data).dataset,
      seed,
      invocation: number,
      base: {
        folder: await this.#baseFolder(model),
        ...(model.derived === undefined ? { versionId: model.row.versionId } : {}),
      },
    });
  }

  /** Written once; one that a killed process left may be half there. */
  async #baseFolder(model: PlannedModel): Promise<string> {
    const known = this.#bases.get(model);
    if (known !== undefined) return known;
    const { repository, folder, seed, lease } = this.options;
    const { versionId } = model.row;
    const path = join(folder, `base-${this.#bases.size}`);
    await rm(path, { recursive: true, force: true });
    await repository.ensureTensors(versionId, this.options.signal);
    if (model.derived === undefined)
      await writeModelFolder(repository, repository.resolve(versionId), path, lease);
    else {
      const leaves = await inheritableLeaves(repository, versionId, { ...model.derived, lease });
      await writeModelFiles(
        await derivedSource(repository, leaves, model.derived.model, new Streams(seed, 0)),
        path,
      );
    }
    this.#bases.set(model, path);
    return path;
  }

  /** The version that a killed process saved, and did not note. */
  async #savedBefore(
    name: string,
    base: VersionSummary,
    outcome: TrainingOutcome,
  ): Promise<Hash | undefined> {
    const file = await nodeFiles().open(outcome.modelFile, "read");
    try {
      const architecture = decodeArchitecture(await readFile(outcome.architectureFile));
      const model = await modelSourceOfSafetensors(file, outcome.modelFile, {
        architecture: { architecture },
      });
      const id = contentId(architectureHash(architecture), treeRoot(model.leaves));
      return savedBefore(this.options.repository, { name, base: base.versionId, contentId: id });
    } finally {
      await file.close();
    }
  }
}

/** The combination of an evaluation whose recipes were required before. */
function byEngine({
  recipe,
  data,
  ...combination
}: Combination): Combination & { readonly recipe: string; readonly data: string } {
  if (recipe !== undefined && data !== undefined) return { ...combination, recipe, data };
  throw new TypeError("an engine trains by a recipe, on data");
}
