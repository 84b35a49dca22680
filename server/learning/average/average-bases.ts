/** Opens the models of an average: all of one form, in the order of their version ids, whoever named them how. */
import { decodeArchitecture } from "../../../shared/model/architecture.js";
import type { Architecture, Leaf, Names, UnhashedLeaf } from "../../../shared/model/model.js";
import { decodeNames } from "../../../shared/model/names.js";
import { canAverage, type AverageRule } from "../../../shared/average/average-numbers.js";
import { averagedSource, type AveragedTensor } from "../../../shared/average/averaged-tensor.js";
import { adapterConfigName } from "../../../shared/forms/peft/adapter-config.js";
import { hasSameHeader } from "../../../shared/tensor/same-header.js";
import type { TensorSource } from "../../../shared/tensor/tensor.js";
import type { VersionSummary } from "../../storage/repository/answers/version-answers.js";
import type { FleetRepository } from "../../storage/repository/fleet-repository.js";
import { refuseReduced } from "../evaluation/reduced-models.js";
import { isAdapter, namedTwice, notAverageable, otherForm, titleOf } from "./average-errors.js";

/** Models whose tensors are here, of one form. */
export interface AverageBases {
  /** Ascending by version id. */
  readonly bases: readonly VersionSummary[];
  readonly architecture: Architecture | undefined;
  /** The names of the first. */
  readonly names: Names;
  readonly tensors: readonly BaseTensor[];
}

export interface BaseTensor extends AveragedTensor {
  readonly path: string;
  /** True if all models have the very same tensor. */
  readonly isSame: boolean;
}

type Reads = Pick<FleetRepository, "objects" | "leaves" | "ensureTensors">;

/** Ascending by version id, which no order of arguments changes. @throws USAGE for one that is named twice */
export function inOrder<Base extends { readonly base: VersionSummary }>(
  given: readonly Base[],
): readonly Base[] {
  const sorted = [...given].sort((a, b) => (a.base.versionId < b.base.versionId ? -1 : 1));
  sorted.forEach(({ base }, i) => {
    if (base.versionId === sorted[i - 1]?.base.versionId) throw namedTwice(base);
  });
  return sorted;
}

/**
 * @param bases ascending by version id, at least two
 * @throws ARCHITECTURE_MISMATCH; MODEL_REDUCED; AVERAGE_REFUSED for adapters, and for tensors of types that are not
 * averaged and differ; what making dropped tensors again throws
 */
export async function openBases(
  repository: Reads,
  bases: readonly VersionSummary[],
  signal?: AbortSignal,
): Promise<AverageBases> {
  const [first] = bases as readonly [VersionSummary];
  const leaves: (readonly Leaf[])[] = [];
  for (const base of bases) {
    requireExact(base);
    leaves.push(await repository.leaves(base.versionId));
  }
  const { architecture: id, names: namesId } = first.record.objects;
  const [own = []] = leaves;
  const names = decodeNames(await repository.objects.read("names", namesId), own.length);
  bases.forEach((base, k) => {
    requireForm({ base, leaves: leaves[k] ?? [] }, { base: first, leaves: own });
  });
  for (const { versionId } of bases) await repository.ensureTensors(versionId, signal);
  return {
    bases,
    architecture: id && decodeArchitecture(await repository.objects.read("architecture", id)),
    names,
    tensors: own.map((leaf, i) =>
      tensorOf(repository, {
        bases,
        leaves: leaves.map((each) => each[i] as Leaf),
        name: names.leaves[i] ?? leaf.path,
      }),
    ),
  };
}

function requireExact(base: VersionSummary): void {
  refuseReduced(base);
  if (isAdapterVersion(base)) throw isAdapter(base);
}

export function isAdapterVersion({ record }: Pick<VersionSummary, "record">): boolean {
  return record.objects.attachments?.some(({ name }) => name === adapterConfigName) === true;
}

interface Formed {
  readonly base: VersionSummary;
  readonly leaves: readonly Leaf[];
}

function requireForm(model: Formed, first: Formed): void {
  if (model.base === first.base) return;
  const difference = differenceOfForm(model, first);
  if (difference !== undefined) throw otherForm(model.base, first.base, difference);
}

function differenceOfForm(model: Formed, first: Formed): string | undefined {
  const [a, b] = [model.base.record, first.base.record];
  if (a.kind !== b.kind) return "only one of them has an architecture";
  const byPath = new Map(first.leaves.map((leaf) => [leaf.path, leaf]));
  for (const leaf of model.leaves) {
    const other = byPath.get(leaf.path);
    if (other === undefined) return `only it has the tensor ${JSON.stringify(leaf.path.slice(0, 80))}`;
    if (!hasSameHeader(leaf, other))
      return `${JSON.stringify(leaf.path.slice(0, 80))} is ${headerText(leaf)} in it, and ${headerText(other)} there`;
    byPath.delete(leaf.path);
  }
  const [missing] = byPath.keys();
  if (missing !== undefined) return `it lacks the tensor ${JSON.stringify(missing.slice(0, 80))}`;
  return a.architecture === b.architecture ? undefined : "their layers have other settings";
}

function headerText({ dtype, shape }: Leaf): string {
  return `${dtype} [${shape.join(", ")}]`;
}

function tensorOf(
  { objects }: Pick<FleetRepository, "objects">,
  {
    bases,
    leaves,
    name,
  }: { readonly bases: readonly VersionSummary[]; readonly leaves: readonly Leaf[]; readonly name: string },
): BaseTensor {
  const [{ path, dtype, shape, tensor }] = leaves as readonly [Leaf];
  const other = leaves.findIndex((leaf) => leaf.tensor !== tensor);
  const isSame = other < 0;
  if (!isSame && !canAverage(dtype))
    throw notAverageable(name, dtype, bases[other] as VersionSummary, bases[0] as VersionSummary);
  const parts = (isSame ? leaves.slice(0, 1) : leaves).map((leaf, k) => ({
    model: titleOf(bases[k] as VersionSummary),
    source: objects.openTensor(leaf.tensor),
  }));
  return { path, name, dtype, shape, isSame, parts };
}

/** The tensors of the average, in the canonical order, each computed whenever it is read. */
export function sourcesOf(
  { tensors }: AverageBases,
  rule: AverageRule,
  signal?: AbortSignal,
): readonly TensorSource[] {
  return tensors.map((tensor) =>
    canAverage(tensor.dtype)
      ? averagedSource(tensor, rule, signal)
      : (tensor.parts[0] as AveragedTensor["parts"][number]).source,
  );
}

export function headersOf({ tensors }: AverageBases): readonly UnhashedLeaf[] {
  return tensors.map(({ path, dtype, shape }) => ({ path, dtype, shape }));
}
