/**
 * The standard flow's models in a store that was encoded (`storage apply`), beside the same store before: bytes, and
 * recoveries from a newly opened repository, which has decoded nothing yet.
 */
import { mkdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { archiveOf } from "../../server/operations/stores/archive-operations.js";
import { unhashedOpaqueModel } from "../../shared/save/model-source.js";
import type { Hash } from "../../shared/tensor/tensor.js";
import { medianSteps, openHomeAt, writeCached, type OpenedHome, type RecoveryFigures } from "./flows-home.js";
import type { FlowModel, UpdateKind } from "./flows-standard.js";
import type { BenchModel } from "./model-shapes.js";
import { median, recoverFloor } from "./save-floors.js";

export interface CodedUseCase {
  readonly useCase: string;
  /** Tensors that are decoded one after the other for the deepest of its tensors. */
  readonly chain: number;
  readonly raw: RecoveryFigures;
  readonly coded: RecoveryFigures;
}

export interface CodedStoreFigures {
  readonly model: BenchModel;
  readonly update: UpdateKind;
  /** Bytes of all files of the ten models' fleet, as they were saved and after `storage apply`. */
  readonly rawBytes: number;
  readonly codedBytes: number;
  readonly useCases: readonly CodedUseCase[];
}

const openings = 3;

/** @param folder removed at the end */
export async function measureCodedStore(
  models: readonly FlowModel[],
  folder: string,
): Promise<Omit<CodedStoreFigures, "model" | "update">> {
  const path = join(folder, "home");
  await mkdir(folder, { recursive: true });
  try {
    const { ids, bytes: rawBytes } = await withHome(path, async (opened) => ({
      ids: await saveModels(opened, models),
      bytes: await opened.stored(),
    }));
    const raw = await recoverAll(path, { models, ids, folder });
    const { codedBytes, chains } = await withHome(path, async (opened) => {
      await encode(opened);
      return {
        codedBytes: await opened.stored(),
        chains: await Promise.all(ids.map((id) => deepestOf(opened, id))),
      };
    });
    const coded = await recoverAll(path, { models, ids, folder });
    const useCases = models.map(({ step: { useCase } }, index) => ({
      useCase,
      chain: chains[index] ?? 0,
      raw: raw[index] as RecoveryFigures,
      coded: coded[index] as RecoveryFigures,
    }));
    return { rawBytes, codedBytes, useCases };
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

async function withHome<Result>(path: string, use: (opened: OpenedHome) => Promise<Result>): Promise<Result> {
  const opened = await openHomeAt(path);
  try {
    return await use(opened);
  } finally {
    await opened.close();
  }
}

async function saveModels(
  { repository }: OpenedHome,
  models: readonly FlowModel[],
): Promise<readonly Hash[]> {
  const ids: Hash[] = [];
  for (const { step, tensors } of models) {
    const bases = step.from === undefined ? [] : [ids[step.from] as Hash];
    const { summary } = await repository.save(unhashedOpaqueModel(tensors), { name: "m", bases });
    ids.push(summary.versionId);
  }
  return ids;
}

/** As `storage apply` does, with its default budget. @throws Error where the plan was not carried out */
async function encode({ home, repository }: OpenedHome): Promise<void> {
  const archive = await archiveOf(home);
  const plan = await archive.plan(repository, { ratio: "auto" });
  const { stopped, failed, left } = await archive.apply(repository, plan, { pauseMs: 0 });
  if (stopped !== null || failed.length > 0 || left > 0)
    throw new Error(`The storage plan was not carried out: ${JSON.stringify({ stopped, failed, left })}.`);
}

async function deepestOf({ repository }: OpenedHome, id: Hash): Promise<number> {
  const leaves = await repository.leaves(id);
  return Math.max(...leaves.map(({ tensor }) => repository.objects.encodingOf(tensor)?.depth ?? 0));
}

/** The first opening fills the operating system's cache; of those after it the medians are taken. */
async function recoverAll(
  path: string,
  {
    models,
    ids,
    folder,
  }: { readonly models: readonly FlowModel[]; readonly ids: readonly Hash[]; readonly folder: string },
): Promise<readonly RecoveryFigures[]> {
  const all: RecoveryFigures[] = [];
  for (const [index, model] of models.entries()) {
    const cached = await writeCached(folder, model.tensors);
    const measured: RecoveryFigures[] = [];
    for (let opening = 0; opening <= openings; opening++) {
      const recoverFloorMs = await recoverFloor(cached);
      const { steps } = await withHome(path, ({ repository }) => repository.recover(ids[index] as Hash));
      if (opening > 0) measured.push({ recover: steps, recoverFloorMs });
    }
    all.push({
      recover: medianSteps(measured.map(({ recover }) => recover)),
      recoverFloorMs: median(measured.map(({ recoverFloorMs }) => recoverFloorMs)),
    });
  }
  return all;
}
