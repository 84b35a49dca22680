/**
 * Compares a model with what its line has had, and with the base that it is said to be trained from: by the shapes of
 * their tensors, and by their inputs where both have an architecture. Names, values and types may differ.
 */
import { isStemmaError } from "../../../shared/errors.js";
import { decodeArchitecture } from "../../../shared/model/architecture.js";
import { isKeptFile } from "../../../shared/model/kept-file.js";
import type { Architecture, Leaf } from "../../../shared/model/model.js";
import type { Hash } from "../../../shared/tensor/tensor.js";
import type { VersionSummary } from "../../storage/repository/answers/version-answers.js";
import type { FleetRepository } from "../../storage/repository/fleet-repository.js";
import { ownLine } from "../../storage/repository/state/naming.js";
import { otherNetwork, otherShape } from "./context-errors.js";

/** Versions of a line that a model is compared with, at most. */
const maxCompared = 20;

const fileShape = "a file as it is";

export interface ModelShape {
  /** The shape of each tensor, as text, sorted; of a file that is kept as it is, that it is one. */
  readonly tensors: readonly string[];
  /** The shape of each input, without the batch; absent without an architecture. */
  readonly inputs?: readonly string[];
}

export function shapeOfModel(
  leaves: readonly Pick<Leaf, "path" | "dtype" | "shape">[],
  architecture?: Architecture,
): ModelShape {
  return {
    // A file that is kept as it is may have another length.
    tensors: isKeptFile(leaves) ? [fileShape] : leaves.map(({ shape }) => shapeText(shape)).sort(),
    ...(architecture === undefined ? {} : { inputs: inputsOf(architecture) }),
  };
}

function inputsOf({ layers }: Architecture): readonly string[] {
  return layers.flatMap(({ className, config }) => {
    const shape = config["batch_input_shape"];
    return className === "InputLayer" && Array.isArray(shape) ? [shapeText(shape.slice(1))] : [];
  });
}

function shapeText(shape: readonly unknown[]): string {
  return `[${shape.map((extent) => (typeof extent === "number" ? extent : "any")).join(", ")}]`;
}

type Reads = Pick<FleetRepository, "objects" | "leaves">;

/** @returns undefined where its tensors' shapes are not here any more */
async function shapeOf(
  repository: Reads,
  { versionId, record }: VersionSummary,
): Promise<ModelShape | undefined> {
  try {
    const { architecture } = record.objects;
    return shapeOfModel(
      await repository.leaves(versionId),
      architecture && decodeArchitecture(await repository.objects.read("architecture", architecture)),
    );
  } catch (error) {
    if (isStemmaError(error)) return undefined;
    throw error;
  }
}

/** Returns in what two shapes differ, as text; undefined where they are the same. */
export function differenceOf(model: ModelShape, other: ModelShape): string | undefined {
  const [inputs, before] = [model.inputs?.join(" and "), other.inputs?.join(" and ")];
  if (inputs !== undefined && before !== undefined && inputs !== before)
    return `inputs of ${inputs} in place of ${before}`;
  const added = without(model.tensors, other.tensors);
  const missing = without(other.tensors, model.tensors);
  if (added.length === 0 && missing.length === 0) return undefined;
  return `${tensorsText(added)} in place of ${tensorsText(missing)}`;
}

function tensorsText(tensors: readonly string[]): string {
  if (tensors.length === 0) return "no tensor";
  if (tensors[0] === fileShape) return fileShape;
  const shown = tensors.slice(0, 4).join(" ");
  return `${tensors.length === 1 ? "a tensor" : `${tensors.length} tensors`} ${shown}${tensors.length > 4 ? " …" : ""}`;
}

/** The first list without what the second has, each as often as it is there. */
function without(list: readonly string[], others: readonly string[]): readonly string[] {
  const counts = new Map<string, number>();
  for (const each of others) counts.set(each, (counts.get(each) ?? 0) + 1);
  return list.filter((each) => {
    const left = counts.get(each) ?? 0;
    if (left > 0) counts.set(each, left - 1);
    return left === 0;
  });
}

/**
 * Returns in what a model differs from everything that a line has had lately on any device, as text; undefined where
 * something there is of its shape, where the line is new, or where nothing of it can be read any more.
 */
export async function differenceFromLine(
  repository: Reads & Pick<FleetRepository, "versionsOnLine" | "get" | "list">,
  line: string,
  model: ModelShape,
): Promise<string | undefined> {
  if (line === ownLine) return undefined;
  const newest = await repository.list({ line, order: "newest", limit: maxCompared });
  const compared = new Map<Hash, VersionSummary>(newest.versions.map((each) => [each.versionId, each]));
  for (const versionId of repository.versionsOnLine(line)) {
    if (compared.size >= 2 * maxCompared) break;
    const version = repository.get(versionId);
    if (version !== undefined) compared.set(versionId, version);
  }
  let first: string | undefined;
  for (const version of compared.values()) {
    const shape = await shapeOf(repository, version);
    if (shape === undefined) continue;
    const difference = differenceOf(model, shape);
    if (difference === undefined) return undefined;
    first ??= `(${version.name}:${version.version}): ${difference}`;
  }
  return first;
}

/** @throws SHAPE_DIFFERENT */
export async function refuseOtherShape(
  repository: Parameters<typeof differenceFromLine>[0],
  line: string,
  version: VersionSummary,
): Promise<void> {
  // It is of the line already, since a device trained it there, or a person said so.
  if (version.record.line === line) return;
  const shape = await shapeOf(repository, version);
  const difference = shape && (await differenceFromLine(repository, line, shape));
  if (difference !== undefined) throw otherShape(line, `${version.name}:${version.version}`, difference);
}

/** @throws BASE_UNRELATED where a model has less than half of its base's tensors by shape, or the base of its own */
export async function refuseOtherNetwork(
  repository: Reads,
  base: VersionSummary,
  model: ModelShape,
  name: string,
): Promise<void> {
  const shape = await shapeOf(repository, base);
  if (shape === undefined) return;
  const common = model.tensors.length - without(model.tensors, shape.tensors).length;
  if (2 * common >= Math.min(model.tensors.length, shape.tensors.length)) return;
  throw otherNetwork(name, base, { common, all: model.tensors.length, ofBase: shape.tensors.length });
}
