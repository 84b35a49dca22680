/**
 * A small fleet of related models for tests of the archive: two families of fine-tunes, drawn from a seed,
 * the same in every process.
 */
import type { ArchiveRates } from "../../server/storage/archive/archive-rates.js";
import { planArchive, type PlanArchiveOptions } from "../../server/storage/archive/plan-archive.js";
import { applyPlan } from "../../server/storage/archive/apply-plan.js";
import type { ApplyOptions, ApplyReport } from "../../server/storage/archive/plan-application.js";
import type { ArchivePlan } from "../../server/storage/archive/archive-plan.js";
import { archiveCoder } from "../../server/storage/archive/archive-coder.js";
import type { FleetRepository } from "../../server/storage/repository/fleet-repository.js";
import { nodeClock } from "../../shared/adapters/node-ports.js";
import { loadDeltaCodec } from "../../shared/delta/load.js";
import type { Hash } from "../../shared/tensor/tensor.js";
import { modelOf, sameTensors, type NamedTensor } from "../integration/server/storage/repository/harness.js";
import { fineTuned, continueTuning, noiseTensor, weights } from "./related-tensors.js";

/** Fixed rates of a machine on which coding costs about as much as reading. */
export const testRates: ArchiveRates = {
  readUsPerByte: 0.005,
  hashUsPerByte: 0.0006,
  aloneUsPerNumber: 0.005,
  deltaUsPerNumber: 0.006,
  extrapolatedUsPerNumber: 0.007,
  lowRankUsPerNumber: 0.02,
  planesUsPerByte: 0.008,
  mixedUsPerByte: 1,
  objectUs: 5,
  encodeUsPerNumber: 0.01,
  lowRankEncodeUsPerNumber: 0.2,
};

export interface FleetModel {
  readonly name: string;
  readonly base?: string;
  readonly tensors: readonly NamedTensor[];
}

const kernels = [
  ["conv.weight", [32, 16, 3, 3]],
  ["dense.weight", [96, 64]],
  ["out.weight", [10, 64]],
] as const;

/**
 * A base model and a chain of `steps` fine-tunes, each one step further in the same direction. The batch
 * counter and a bias change too.
 */
export function fineTunedFamily(name: string, seed: number, steps: number): readonly FleetModel[] {
  const withSmallTensors = (
    tensors: readonly { readonly name: string }[],
    step: number,
  ): readonly NamedTensor[] => [
    ...(tensors as readonly NamedTensor[]),
    { ...noiseTensor("I64", [1], seed + step), name: "norm.batches" },
    { ...noiseTensor("F32", [10], seed + 100 * step), name: "out.bias" },
  ];
  let before = kernels.map(([own, shape], k) => ({ ...weights(shape, seed + 7 * k), name: own }));
  let previous = before;
  const models: FleetModel[] = [{ name: `${name}0`, tensors: withSmallTensors(before, 0) }];
  for (let step = 1; step <= steps; step++) {
    const next = before.map((tensor, k) => ({
      ...(step === 1
        ? fineTuned(tensor, 1e-4, seed + step + 31 * k)
        : continueTuning(tensor, previous[k]!, { share: 0.7, stepSize: 2e-5, seed: seed + step + 31 * k })),
      name: tensor.name,
    }));
    // The first layer of every second model is frozen.
    if (step % 2 === 0) next[0] = before[0]!;
    models.push({
      name: `${name}${step}`,
      base: `${name}${step - 1}`,
      tensors: withSmallTensors(next, step),
    });
    previous = before;
    before = next;
  }
  return models;
}

export function testFleetModels(): readonly FleetModel[] {
  return [...fineTunedFamily("a", 1, 4), ...fineTunedFamily("b", 1000, 3)];
}

/** Saves the models and returns their version ids by name. */
export async function saveModels(
  repository: FleetRepository,
  models: readonly FleetModel[],
): Promise<ReadonlyMap<string, Hash>> {
  const ids = new Map<string, Hash>();
  for (const { name, base, tensors } of models) {
    const { summary } = await repository.save(modelOf(tensors), {
      name,
      ...(base === undefined ? {} : { bases: [ids.get(base)!] }),
    });
    ids.set(name, summary.versionId);
  }
  return ids;
}

/** Names of the models whose recovered bytes differ from what was saved. */
export async function alteredModels(
  repository: FleetRepository,
  models: readonly FleetModel[],
  ids: ReadonlyMap<string, Hash>,
): Promise<readonly string[]> {
  const altered: string[] = [];
  for (const { name, tensors } of models)
    if (!(await sameTensors(repository, ids.get(name)!, tensors))) altered.push(name);
  return altered;
}

export async function planFleet(
  repository: FleetRepository,
  options: Partial<PlanArchiveOptions> & Pick<PlanArchiveOptions, "ratio">,
  rates: ArchiveRates = testRates,
): Promise<ArchivePlan> {
  return await planArchive(
    repository.fleet,
    repository,
    { codec: await loadDeltaCodec(), rates, clock: nodeClock() },
    { timeLimitMs: 500, ...options },
  );
}

export async function applyToFleet(
  repository: FleetRepository,
  plan: ArchivePlan,
  options: ApplyOptions = {},
  parts: { readonly freeBytes?: () => Promise<number>; readonly mostInlineBytes?: number } = {},
): Promise<ApplyReport> {
  const coder = archiveCoder(parts.mostInlineBytes);
  try {
    return await applyPlan(
      {
        target: repository,
        coder,
        clock: nodeClock(),
        freeBytes: parts.freeBytes ?? (() => Promise.resolve(2 ** 40)),
      },
      plan,
      { pauseMs: 0, ...options },
    );
  } finally {
    await coder.close();
  }
}
