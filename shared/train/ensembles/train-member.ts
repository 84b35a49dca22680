/** Trains one member of an ensemble on its own samples with its own random streams. Runs here or in a worker. */
import { Streams } from "../../random/streams.js";
import type { Tensor } from "../../tensor/tensor.js";
import type { Architecture } from "../../model/model.js";
import type { SampleSet } from "../datasets/dataset.js";
import { fit, type FitOutcome } from "../fit.js";
import type { FitPlan } from "../fit-plan.js";
import type { TensorFlow } from "../tensorflow.js";
import { buildTrainable } from "../trainable.js";
import type { Measurement } from "../training.js";
import type { FitSnapshot, FitState } from "../training-state.js";
import { drawSamples, withColumns } from "./member-samples.js";

/**
 * The task of training a member: everything that decides its bits but the samples of the ensemble. Can be
 * sent to a worker.
 */
export interface MemberTask {
  readonly index: number;
  readonly architecture: Architecture;
  readonly tensors: readonly Tensor[];
  readonly plan: FitPlan;
  /** The columns that it sees; all where undefined. */
  readonly columns: readonly number[] | undefined;
  /** The number of training samples that are drawn with replacement; undefined: all of them, once. */
  readonly drawn: number | undefined;
  readonly seed: string;
  readonly invocation: number;
  /** The counts of its streams before it is trained: its initial values. */
  readonly streams: Readonly<Record<string, number>>;
  readonly continueFrom: FitState | undefined;
}

export interface MemberResult {
  readonly tensors: readonly Tensor[];
  readonly streams: Readonly<Record<string, number>>;
  readonly outcome: Omit<FitOutcome, "optimizer">;
}

export interface MemberHooks {
  /** Called after so many further steps. */
  onSteps(measurement: Measurement, steps: number): Promise<void> | void;
  /** Called with a function that gives the present state; it is valid until the next step. */
  onState(snapshot: () => FitSnapshot): Promise<void> | void;
}

/** The samples of a member. */
export function memberSamples(
  set: SampleSet,
  { columns, drawn }: Pick<MemberTask, "columns" | "drawn">,
  streams: Streams,
): SampleSet {
  const seen = columns === undefined ? set : withColumns(set, columns);
  return drawn === undefined ? seen : drawSamples(seen, drawn, streams.stream("samples"));
}

/** @throws NOT_A_NUMBER, TENSORS_LEAKED, OPTIMIZER_REFUSED, MEMORY_EXHAUSTED */
export async function trainMember(
  tf: TensorFlow,
  set: SampleSet,
  task: MemberTask,
  hooks: MemberHooks,
): Promise<MemberResult> {
  const streams = new Streams(task.seed, task.invocation);
  streams.restore(task.streams);
  const samples = memberSamples(set, task, streams);
  const model = buildTrainable(tf, task.architecture, task.tensors, {
    streams,
    frozenLayers: task.plan.frozenLayers,
  });
  try {
    const { optimizer: _, ...outcome } = await fit({
      tf,
      model,
      samples,
      plan: task.plan,
      streams,
      continueFrom: task.continueFrom,
      hooks: {
        onIteration: (measurement) => hooks.onSteps(measurement, 1),
        onState: (snapshot, isLast) => (isLast ? undefined : hooks.onState(snapshot)),
      },
    });
    return { tensors: model.readTensors(), streams: streams.counts(), outcome };
  } finally {
    model.dispose();
  }
}
