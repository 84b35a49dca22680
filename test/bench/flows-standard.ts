/** The standard flow of one network, saved and recovered by each approach, for `stemma bench flows`. */
import { rm } from "node:fs/promises";
import { join } from "node:path";
import type { SaveReport } from "../../server/storage/repository/answers/save-answers.js";
import type { FleetRepository } from "../../server/storage/repository/fleet-repository.js";
import { loadDeltaCodec } from "../../shared/delta/load.js";
import type { RecoveredModel } from "../../shared/recover/recovery.js";
import { unhashedOpaqueModel } from "../../shared/save/model-source.js";
import type { Hash } from "../../shared/tensor/tensor.js";
import { fineTuned, weights } from "../helpers/related-tensors.js";
import { measureCodedStore, type CodedStoreFigures } from "./flows-coded.js";
import { medianSteps, openHomeAt, writeCached, type OpenedHome, type RecoveryFigures } from "./flows-home.js";
import { flowSteps, standardFlow, updateSize, type FlowStep } from "./flows-plan.js";
import { byteLengthOf, shapesOf, type BenchModel } from "./model-shapes.js";
import type { SavedParts } from "./saved-parts.js";
import { median, recoverFloor, saveFloor, type Named } from "./save-floors.js";

export type UpdateKind = "full" | "partial";
export type Approach = "snapshot" | "update";

export interface UseCaseFigures extends RecoveryFigures {
  readonly useCase: string;
  readonly depth: number;
  /** Bytes of all files that the save added to the disk. */
  readonly storedBytes: number;
  /** Bytes of the tensors that differ from those of the model before; all for snapshots. */
  readonly changedBytes: number;
  /** Bytes of the changed tensors as a device sends them, and as a server keeps them; undefined for snapshots. */
  readonly codedBytes: number | undefined;
  /** Milliseconds, medians over the rounds. */
  readonly save: SaveReport["steps"];
  readonly saveFloorMs: number;
}

export interface FlowFigures {
  readonly model: BenchModel;
  readonly update: UpdateKind;
  readonly approach: Approach;
  /** Of the whole model. */
  readonly modelBytes: number;
  readonly useCases: readonly UseCaseFigures[];
}

export const saveMs = ({ save }: UseCaseFigures): number => save.extractMs + save.persistMs;

export interface FlowModel {
  readonly step: FlowStep;
  readonly tensors: readonly Named[];
  /** The tensors that differ from those of the model it was trained from; all of U1. */
  readonly changed: readonly Named[];
}

/** The models of the flow: seeded weights, and updates of all tensors or of the last layer's two. */
export function flowModels(
  model: BenchModel,
  update: UpdateKind,
  steps: readonly FlowStep[],
): readonly FlowModel[] {
  const shapes = shapesOf(model);
  const models: FlowModel[] = [];
  for (const [index, step] of steps.entries()) {
    const base = step.from === undefined ? undefined : models[step.from]?.tensors;
    const tensors = shapes.map((shape, i): Named => {
      const name = `t${String(i).padStart(3, "0")}`;
      const before = base?.[i];
      if (before === undefined) return { name, ...weights(shape, i + 1) };
      if (update === "partial" && i < shapes.length - 2) return before;
      return { name, ...fineTuned(before, updateSize, 10_000 * index + i) };
    });
    models.push({ step, tensors, changed: tensors.filter((tensor, i) => tensor !== base?.[i]) });
  }
  return models;
}

export interface FlowRequest {
  readonly model: BenchModel;
  readonly update: UpdateKind;
  readonly rounds: number;
  /** A folder of the caller's. */
  readonly folder: string;
  /** How many of the first models the codec encodes; absent: all. */
  readonly coded?: number;
  /** How often each model is recovered after the first time; absent: five times. */
  readonly recoveries?: number;
  /** Whether to recover from an encoded store too; absent: true. */
  readonly codedStore?: boolean;
  /** Where finished rounds are kept. */
  readonly saved: SavedParts;
}

/** Both approaches on the same models, then recoveries from a store that was encoded. */
export async function measureStandardFlow(request: FlowRequest): Promise<{
  readonly flows: readonly FlowFigures[];
  readonly coded: CodedStoreFigures | undefined;
}> {
  const { model, update, rounds, folder, saved, recoveries, coded: codedCount = Infinity } = request;
  const steps = flowSteps(standardFlow);
  // Made only where something is left to measure: the largest take seconds and gigabytes.
  let made: readonly FlowModel[] | undefined;
  const models = (): readonly FlowModel[] => (made ??= flowModels(model, update, steps));
  const part = <Result>(name: string, measure: () => Promise<Result>): Promise<Result> =>
    saved.part(`${model}, ${update}, ${name}`, measure);
  const codedBytes = await part("bytes by the codec", () => codedBytesOf(models().slice(0, codedCount)));
  const flows: FlowFigures[] = [];
  for (const approach of ["snapshot", "update"] as const) {
    const measured: UseCaseFigures[][] = [];
    for (let round = 0; round < rounds; round++)
      measured.push(
        await part(`${approach}, round ${round + 1}`, () =>
          measureRound(models(), approach, join(folder, `${approach}-${round}`), recoveries),
        ),
      );
    const useCases = steps.map(({ from }, index) => {
      const own = measured.map((each) => each[index] as UseCaseFigures);
      const bytes = approach === "snapshot" || from === undefined ? undefined : codedBytes[index];
      return { ...medianOf(own), codedBytes: bytes };
    });
    const modelBytes = shapesOf(model).reduce((sum, shape) => sum + byteLengthOf(shape), 0);
    flows.push({ model, update, approach, modelBytes, useCases });
  }
  if (request.codedStore === false) return { flows, coded: undefined };
  const measured = await part("coded store", () => measureCodedStore(models(), join(folder, "coded")));
  return { flows, coded: { model, update, ...measured } };
}

/** What the codec makes of each model's changed tensors, against the model it was trained from. */
async function codedBytesOf(models: readonly FlowModel[]): Promise<readonly number[]> {
  const codec = await loadDeltaCodec();
  return models.map(({ step, changed }) => {
    if (step.from === undefined) return 0;
    const bases = new Map(models[step.from]?.tensors.map((tensor) => [tensor.name, tensor]));
    return changed.reduce((sum, tensor) => {
      const base = bases.get(tensor.name);
      return sum + codec.encodeTensor(tensor, tensor.bytes, base === undefined ? {} : { base }).bytes.length;
    }, 0);
  });
}

/** Each snapshot is kept in a home of its own, so that it shares nothing; updates share one. */
export async function measureRound(
  models: readonly FlowModel[],
  approach: Approach,
  folder: string,
  recoveries = defaultRecoveries,
): Promise<UseCaseFigures[]> {
  const figures: UseCaseFigures[] = [];
  const isSnapshot = approach === "snapshot";
  let opened = isSnapshot ? undefined : await openHomeAt(join(folder, "home"));
  const ids: Hash[] = [];
  try {
    for (const [index, model] of models.entries()) {
      if (isSnapshot) opened = await openHomeAt(join(folder, `home-${index}`));
      const { repository, stored } = opened as OpenedHome;
      const bases = isSnapshot || model.step.from === undefined ? [] : [ids[model.step.from] as Hash];
      const before = await stored();
      const floor = (): Promise<number> =>
        saveFloor(folder, model.tensors, isSnapshot ? model.tensors : model.changed);
      // Which side is first alternates, so that neither always profits from the other's caches.
      const early = index % 2 === 0 ? await floor() : undefined;
      const { summary, steps } = await repository.save(unhashedOpaqueModel(model.tensors), {
        name: "m",
        bases,
      });
      const saveFloorMs = early ?? (await floor());
      ids.push(summary.versionId);
      const storedBytes = (await stored()) - before;
      const recovered = isSnapshot
        ? await measureRecovery(repository, summary.versionId, model, { folder, recoveries })
        : undefined;
      figures.push({
        useCase: model.step.useCase,
        depth: model.step.depth,
        storedBytes,
        changedBytes: (isSnapshot ? model.tensors : model.changed).reduce(
          (sum, { bytes }) => sum + bytes.length,
          0,
        ),
        codedBytes: undefined,
        save: steps,
        saveFloorMs,
        ...(recovered ?? { recover: noSteps, recoverFloorMs: 0 }),
      });
      if (isSnapshot) {
        await opened?.close();
        opened = undefined;
      }
    }
    if (!isSnapshot)
      for (const [index, model] of models.entries()) {
        const { repository } = opened as OpenedHome;
        const recovered = await measureRecovery(repository, ids[index] as Hash, model, {
          folder,
          recoveries,
        });
        figures[index] = { ...(figures[index] as UseCaseFigures), ...recovered };
      }
    return figures;
  } finally {
    await opened?.close();
    await rm(folder, { recursive: true, force: true });
  }
}

const noSteps: RecoveredModel["steps"] = { loadMs: 0, rebuildMs: 0, checkEnvironmentMs: 0, verifyMs: 0 };

const defaultRecoveries = 5;

/**
 * The first recovery, and read of the floor, fill the operating system's cache; of those after it the medians are
 * taken. Garbage collection is not forced: code runs slower after it.
 */
async function measureRecovery(
  repository: FleetRepository,
  versionId: Hash,
  { tensors }: FlowModel,
  { folder, recoveries }: { readonly folder: string; readonly recoveries: number },
): Promise<RecoveryFigures> {
  const cached = await writeCached(folder, tensors);
  const floors: number[] = [];
  const recovered: RecoveredModel["steps"][] = [];
  for (let time = 0; time <= recoveries; time++) {
    const floorMs = await recoverFloor(cached);
    const { steps } = await repository.recover(versionId);
    if (time === 0) continue;
    floors.push(floorMs);
    recovered.push(steps);
  }
  return { recover: medianSteps(recovered), recoverFloorMs: median(floors) };
}

function medianOf(rounds: readonly UseCaseFigures[]): UseCaseFigures {
  const [first] = rounds as readonly [UseCaseFigures];
  const middle = (value: (figures: UseCaseFigures) => number): number => median(rounds.map(value));
  return {
    ...first,
    save: {
      extractMs: middle(({ save }) => save.extractMs),
      persistMs: middle(({ save }) => save.persistMs),
    },
    saveFloorMs: middle((figures) => figures.saveFloorMs),
    recover: medianSteps(rounds.map(({ recover }) => recover)),
    recoverFloorMs: middle((figures) => figures.recoverFloorMs),
  };
}
