/** Measures models that are to be averaged: whether their numbers are finite, and how far they are from the others. */
import { canAverage, numbersOf } from "../../../shared/average/average-numbers.js";
import { alignedPieces, requireFinite } from "../../../shared/average/averaged-tensor.js";
import { addSquaredDistances } from "../../../shared/average/outliers.js";
import { isStemmaError } from "../../../shared/errors.js";
import type { Hash } from "../../../shared/tensor/tensor.js";
import type { VersionSummary } from "../../storage/repository/answers/version-answers.js";
import type { FleetRepository } from "../../storage/repository/fleet-repository.js";
import type { AverageBases } from "./average-bases.js";

/**
 * The path of the first tensor that has a NaN or infinite number; undefined where all numbers are finite.
 * @param finite tensors that were looked at before; those that are found to be finite are added
 * @throws what reading damaged or dropped tensors throws
 */
export async function firstTensorNotFinite(
  repository: Pick<FleetRepository, "objects" | "leaves" | "ensureTensors">,
  { versionId, name }: VersionSummary,
  finite: Set<Hash>,
  signal?: AbortSignal,
): Promise<string | undefined> {
  await repository.ensureTensors(versionId, signal);
  for (const { path, dtype, shape, tensor } of await repository.leaves(versionId)) {
    if (!canAverage(dtype) || finite.has(tensor)) continue;
    const source = repository.objects.openTensor(tensor);
    try {
      await requireFinite({ name: path, dtype, shape, parts: [{ model: name, source }] }, signal);
    } catch (error) {
      if (isStemmaError(error, "NOT_A_NUMBER")) return path;
      throw error;
    }
    finite.add(tensor);
  }
  return undefined;
}

/** The distance of each model from the median at each position, over all tensors that are averaged. */
export async function distancesOf(
  { bases, tensors }: AverageBases,
  signal?: AbortSignal,
): Promise<readonly number[]> {
  const sums = new Float64Array(bases.length);
  for (const tensor of tensors) {
    if (tensor.isSame) continue;
    for await (const { pieces } of alignedPieces(tensor, signal))
      addSquaredDistances(
        pieces.map((bytes) => numbersOf(tensor.dtype, bytes)),
        sums,
      );
  }
  return [...sums].map(Math.sqrt);
}
