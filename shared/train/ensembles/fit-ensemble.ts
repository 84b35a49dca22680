/**
 * Trains the members of an ensemble, each with the random state of an invocation of its own (ME9). The first has that
 * of the training, i, the next i + 1, and so on, whichever is trained first, and whatever else draws numbers meanwhile.
 * So members can be trained one after the other or at the same time, to the same bits. Another process can continue.
 */
import { StemmaError } from "../../errors.js";
import type { Tensor } from "../../tensor/tensor.js";
import type { SampleSet } from "../datasets/dataset.js";
import type { FitInputs, FitOutcome } from "../fit.js";
import type { EnsemblePlan } from "../fit-plan.js";
import { checkShapes } from "../model-outputs.js";
import type { Trainable } from "../trainable.js";
import type { Measurement } from "../training.js";
import type { FitSnapshot, FitState, MemberPosition, StateArray } from "../training-state.js";
import { columnsOf, membersOf, type EnsembleMember } from "./ensemble-model.js";
import { trainMember, type MemberHooks, type MemberResult, type MemberTask } from "./train-member.js";

/** Trains members, several at a time. */
export interface MemberPool {
  /** The number of members that are trained at the same time. */
  readonly size: number;
  train(task: MemberTask, hooks: MemberHooks): Promise<MemberResult>;
  close(): Promise<void>;
}

/** Starts a pool for members that see these samples; undefined where they are better trained here. */
export type StartPool = (set: SampleSet, members: number, steps: number) => MemberPool | undefined;

/** Approximate maximum number of measurements that are kept of all members. */
const maxMeasurements = 120;

/**
 * Trains all members of a model that `joinMembers` made, in place.
 * @throws NOT_A_NUMBER, TENSORS_LEAKED, OPTIMIZER_REFUSED, MEMORY_EXHAUSTED, TRAINING_STOPPED
 */
export async function fitEnsemble(
  inputs: FitInputs,
  ensemble: EnsemblePlan,
  startPool?: StartPool,
): Promise<FitOutcome> {
  const { tf, model, samples, plan } = inputs;
  checkShapes(model, samples);
  const members = membersOf(model.architecture);
  const count = ensemble.drawn ?? samples.train.count;
  const steps = members.length * plan.epochs * Math.ceil(count / plan.batchSize);
  const pool = startPool?.(samples, members.length, steps) ?? {
    size: 1,
    train: (task: MemberTask, hooks: MemberHooks) => trainMember(tf, samples, task, hooks),
    close: () => Promise.resolve(),
  };
  try {
    return await new EnsembleTraining(inputs, ensemble, members, pool).run(steps);
  } finally {
    await pool.close();
  }
}

/** The state of a member. */
type MemberState =
  | { readonly kind: "waiting" }
  | { readonly kind: "running"; readonly snapshot: () => FitSnapshot }
  | { readonly kind: "cut-short"; readonly state: FitState }
  | { readonly kind: "done"; readonly result: MemberResult };

class EnsembleTraining {
  readonly #states: MemberState[];
  readonly #measurements: Measurement[] = [];
  #iterations = 0;
  #next = 0;
  #isSaving = false;

  constructor(
    private readonly inputs: FitInputs,
    private readonly ensemble: EnsemblePlan,
    private readonly members: readonly EnsembleMember[],
    private readonly pool: MemberPool,
  ) {
    const saved = inputs.continueFrom;
    this.#states = members.map((_, index) => stateOf(inputs.model, members, index, saved));
    if (saved === undefined) return;
    for (const state of this.#states)
      this.#iterations +=
        state.kind === "done"
          ? state.result.outcome.iterations
          : state.kind === "cut-short"
            ? state.state.position.iteration
            : 0;
    inputs.streams.restore(saved.position.streams);
  }

  async run(steps: number): Promise<FitOutcome> {
    await Promise.all(
      Array.from({ length: Math.min(this.pool.size, this.members.length) }, () => this.#work(steps)),
    );
    const results = this.#states.map((state) => (state as Extract<MemberState, { kind: "done" }>).result);
    this.#write(results);
    await this.inputs.hooks?.onState?.(() => this.#snapshot(), true);
    const { plan } = this.inputs;
    const most = (of: (outcome: MemberResult["outcome"]) => number): number =>
      results.reduce((max, { outcome }) => Math.max(max, of(outcome)), 0);
    return {
      measurements: measurementsOf(results),
      epochs: most(({ epochs }) => epochs),
      bestEpoch: most(({ bestEpoch }) => bestEpoch),
      iterations: results.reduce((sum, { outcome }) => sum + outcome.iterations, 0),
      stoppedEarly: results.some(({ outcome }) => outcome.stoppedEarly),
      optimizer: { name: plan.optimizer.name, iterations: this.#iterations, shared: {}, slots: [] },
    };
  }

  /** Trains members until none is left. */
  async #work(steps: number): Promise<void> {
    for (let index = this.#next++; index < this.members.length; index = this.#next++) {
      const state = this.#states[index] as MemberState;
      if (state.kind === "done") continue;
      const result = await this.pool.train(
        this.#taskOf(index, state.kind === "cut-short" ? state.state : undefined),
        this.#hooksOf(index, steps),
      );
      this.inputs.streams.following(index).restore(result.streams);
      this.#states[index] = { kind: "done", result };
      await this.#offerState();
    }
  }

  #taskOf(index: number, continueFrom: FitState | undefined): MemberTask {
    const { model, streams } = this.inputs;
    const { architecture, firstTensor, tensorCount, selection } = this.members[index] as EnsembleMember;
    const tensors = model.readTensors();
    const own = streams.following(index);
    return {
      index,
      architecture,
      tensors: tensors.slice(firstTensor, firstTensor + tensorCount),
      plan: this.ensemble.member,
      columns: selection === undefined ? undefined : columnsOf(tensors[selection] as Tensor),
      drawn: this.ensemble.drawn,
      seed: own.seed,
      invocation: own.invocation,
      streams: own.counts(),
      continueFrom,
    };
  }

  #hooksOf(index: number, steps: number): MemberHooks {
    const { hooks } = this.inputs;
    return {
      onSteps: async (measurement, done) => {
        this.#iterations += done;
        await hooks?.onIteration?.({ ...measurement, iteration: this.#iterations }, steps);
      },
      onState: async (snapshot) => {
        this.#states[index] = { kind: "running", snapshot };
        await this.#offerState();
      },
    };
  }

  /** Offers the present state to be saved, unless one that another member offered is being saved. */
  async #offerState(): Promise<void> {
    if (this.#isSaving) return;
    this.#isSaving = true;
    try {
      await this.inputs.hooks?.onState?.(() => this.#snapshot(), false);
    } finally {
      this.#isSaving = false;
    }
  }

  #write(results: readonly MemberResult[]): void {
    const { model } = this.inputs;
    const tensors = model.readTensors();
    results.forEach((result, index) => {
      const { firstTensor } = this.members[index] as EnsembleMember;
      result.tensors.forEach((tensor, at) => {
        tensors[firstTensor + at] = tensor;
      });
    });
    model.writeTensors(tensors);
  }

  #snapshot(): FitSnapshot {
    const { plan, streams } = this.inputs;
    const arrays: StateArray[] = [];
    const members = this.#states.map((state, index): MemberPosition | null => {
      const add = (name: string, rest: Omit<StateArray, "name">): void => {
        arrays.push({ ...rest, name: `${index}/${name}` });
      };
      switch (state.kind) {
        case "waiting":
          return null;
        case "cut-short":
          for (const [name, values] of state.state.arrays)
            add(name, { shape: [values.length], read: () => values });
          return { position: state.state.position, optimizer: state.state.optimizer };
        case "running": {
          const { position, optimizer, arrays: own } = state.snapshot();
          for (const { name, ...array } of own) add(name, array);
          return { position, optimizer };
        }
        case "done":
          state.result.tensors.forEach((tensor, at) => {
            add(`done/${at}`, {
              shape: tensor.shape,
              read: () => new Float32Array(tensor.bytes.slice().buffer),
            });
          });
          return { outcome: state.result.outcome, streams: state.result.streams };
      }
    });
    return {
      position: {
        epoch: 0,
        iteration: this.#iterations,
        order: null,
        streams: streams.counts(),
        best: { epoch: 0, loss: null },
        measurements: [],
        members,
      },
      optimizer: { name: plan.optimizer.name, iterations: this.#iterations, shared: {} },
      arrays,
    };
  }
}

/** Returns the state in which an earlier process left a member. */
function stateOf(
  model: Trainable,
  members: readonly EnsembleMember[],
  index: number,
  saved: FitState | undefined,
): MemberState {
  const member = saved?.position.members?.[index];
  if (saved === undefined || member === undefined || member === null) return { kind: "waiting" };
  const prefix = `${index}/`;
  const arrays = new Map(
    [...saved.arrays].flatMap(([name, values]) =>
      name.startsWith(prefix) ? [[name.slice(prefix.length), values] as const] : [],
    ),
  );
  if ("position" in member) return { kind: "cut-short", state: { ...member, arrays } };
  const { firstTensor, tensorCount } = members[index] as EnsembleMember;
  const tensors = model.readTensors().slice(firstTensor, firstTensor + tensorCount);
  return {
    kind: "done",
    result: {
      ...member,
      tensors: tensors.map((tensor, at) => {
        const values = arrays.get(`done/${at}`);
        if (values === undefined || values.byteLength !== tensor.bytes.length)
          throw new StemmaError(
            "INTERNAL",
            `The saved state of the training does not have the tensor ${at} of member ${index}. Remove the state ` +
              "file and train again; report this.",
          );
        return { ...tensor, bytes: new Uint8Array(values.slice().buffer) };
      }),
    },
  };
}

/** Measurements of all members one after the other, their steps counted on. */
function measurementsOf(results: readonly MemberResult[]): readonly Measurement[] {
  const all: Measurement[] = [];
  let before = 0;
  for (const { outcome } of results) {
    const last = outcome.measurements.at(-1);
    const every = Math.max(1, Math.ceil((outcome.measurements.length * results.length) / maxMeasurements));
    for (const [at, measurement] of outcome.measurements.entries())
      if (measurement === last || (at + 1) % every === 0)
        all.push({ ...measurement, iteration: before + measurement.iteration });
    before += outcome.iterations;
  }
  return all;
}
