/** Defines what the engine reports of how it trained, from which the provenance record is made. Pure. */
import { weightSlots } from "../model/architecture.js";
import { isOwnLoss, type FitPlan } from "./fit-plan.js";
import { resolveOptimizer } from "./optimizers.js";
import type { FinishedTraining, TrainingBase, TrainingPorts } from "./run-training.js";

function optimizerProvenance(
  plan: FitPlan,
  resume: TrainingBase["optimizer"],
): Readonly<Record<string, unknown>> {
  return {
    ...resolveOptimizer(plan.optimizer),
    stateBefore:
      resume === undefined ? "initial" : { sha256: resume.sha256, iterations: resume.state.iterations },
  };
}

/** The provenance record of this training. A replay needs only this, the base and the engine. */
export function provenanceOf(
  { job, recipe, parameters, plan, set, hash, outcome, streams, base, resume }: FinishedTraining,
  ports: TrainingPorts,
): Readonly<Record<string, unknown>> {
  const defaulted = Object.fromEntries(
    Object.entries(parameters).filter(([name]) => !Object.hasOwn(job.parameters, name)),
  );
  return {
    format: 1,
    recipe: {
      name: recipe.name,
      version: recipe.version,
      ...(job.ownRecipe === undefined ? {} : { bundle: job.ownRecipe.id }),
    },
    parameters: { passed: job.parameters, defaulted },
    dataset: {
      reader: job.dataset.reader,
      parameters: job.dataset.parameters,
      location: job.dataset.location ?? null,
      hash,
      samples: { train: set.train.count, validation: set.validation.count, heldOut: set.heldOut.count },
      source: set.description,
    },
    random: {
      generator: "philox4x32-10",
      seed: job.seed,
      invocation: job.invocation,
      streams: streams.counts(),
    },
    base:
      base === undefined
        ? null
        : { versionId: job.base?.versionId ?? null, tensors: weightSlots(base.model.architecture).length },
    ...(plan.method === undefined
      ? { optimizer: optimizerProvenance(plan, resume) }
      : { method: plan.method }),
    ...(plan.ensemble === undefined
      ? {}
      : { ensemble: { kind: plan.ensemble.kind, members: plan.ensemble.members } }),
    frozenLayers: plan.frozenLayers,
    earlyStopping: plan.patience === 0 ? null : { patience: plan.patience },
    loss: isOwnLoss(plan.loss) ? "own" : plan.loss,
    ...(plan.augmentation === undefined ? {} : { augmentation: "own" }),
    iterations: outcome.iterations,
    epochs: outcome.epochs,
    bestEpoch: outcome.bestEpoch,
    stoppedEarly: outcome.stoppedEarly,
    engine: ports.engine,
    backend: ports.backend,
    environment: { ...ports.environment, tensorflowJs: ports.tf.version_core },
  };
}
