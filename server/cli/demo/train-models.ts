/** Trains the demo's models on its server: the base models, and an update of one of them. */
import { formatBytes, formatDuration } from "../../../shared/cli/output.js";
import type { DatasetReference } from "../../../shared/train/training.js";
import type { CallOutput, ServerOperations } from "../../interface/api/server-operations.js";
import { demoFleet, type DemoPlan } from "./demo-plan.js";
import type { FleetWatch } from "./fleet-watch.js";

type TrainedModel = CallOutput<"models">[number];

/** A training on the demo's server. */
export interface ServerTraining {
  readonly name: string;
  /** What it is, for the reader: "the base model soh-base (battery state of health)". */
  readonly text: string;
  readonly recipe: string;
  readonly parameters: Readonly<Record<string, string | number | boolean>>;
  readonly dataset: DatasetReference;
  /** The name under which the data are registered. */
  readonly dataName: string;
  readonly seed: string;
  /** The model that it starts from; absent: from scratch. */
  readonly base?: string;
}

export interface Trainer {
  readonly operations: ServerOperations;
  readonly watch: FleetWatch;
  readonly options: { readonly signal: AbortSignal };
}

/** Trains the base models that earlier runs have not trained. */
export async function trainBases(trainer: Trainer, plan: DemoPlan): Promise<void> {
  const { operations, watch } = trainer;
  const known = new Set((await operations.models({ fleet: demoFleet })).map((model) => model.name));
  for (const base of plan.bases) {
    if (known.has(base.name)) watch.printLine(`base model ${base.name} was trained in an earlier run`);
    else await trainModel(trainer, { ...base, text: `the base model ${base.name} (${base.task})` });
  }
}

export async function trainModel(
  { operations, watch, options: { signal } }: Trainer,
  { name, text, recipe, parameters, dataset, dataName, seed, base }: ServerTraining,
): Promise<TrainedModel> {
  const registered = await operations.datasets({ fleet: demoFleet });
  if (!registered.some((known) => known.name === dataName))
    await operations.addDataset({
      fleet: demoFleet,
      name: dataName,
      kind: dataset.reader,
      location: dataset.location ?? "",
      parameters: dataset.parameters,
    });
  watch.printLine(`the server trains ${text} …`);
  const { summary, result } = await operations.train(
    { fleet: demoFleet, recipe, data: dataName, name, parameters, seed, ...(base !== undefined && { base }) },
    {
      onProgress: (progress) => {
        watch.progress(`${name}: ${progress.line}`);
      },
      signal,
    },
  );
  const { metric } = result;
  watch.printLine(
    `${summary.name}:${summary.version} trained in ${formatDuration(result.durationMs)}: ` +
      `${metric?.name} ${metric?.after.toFixed(1)} ${metric?.unit} on held-out data, ` +
      formatBytes(summary.tensorBytes),
  );
  return summary;
}
