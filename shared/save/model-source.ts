/**
 * Prepares models to be saved: from tensors in memory, or from a safetensors file with or without a
 * model.json. Hashes every tensor once.
 */
import { inSteps } from "../concurrency/in-steps.js";
import { defined } from "../defined.js";
import { StemmaError } from "../errors.js";
import { weightSlots } from "../model/architecture.js";
import { defaultNames } from "../model/model-json-export.js";
import { readModelJson } from "../model/model-json.js";
import type { Architecture, Leaf, ModelSource, Names, UnhashedModel } from "../model/model.js";
import { compareNames, positionOf } from "../model/tree.js";
import type { SafetensorsEntry } from "../tensor/safetensors-header.js";
import type { ByteFile } from "../tensor/safetensors-reader.js";
import { tensorId, tensorIdOfSource } from "../tensor/hash.js";
import { hasSameHeader } from "../tensor/same-header.js";
import { sourceOfTensor, type Hash, type Tensor, type TensorSource } from "../tensor/tensor.js";
import { openSafetensors, type OpenedSafetensors } from "./open-safetensors.js";

/** Models up to this size are kept in memory between hashing and writing, so that their file is read once. */
export const heldModelBytes = 256 * 1024 * 1024;

/**
 * The tensors of a file with their ids. A small file is read once, sequentially; a large one tensor by
 * tensor, and again when it is saved.
 */
async function hashedTensors(
  file: OpenedSafetensors,
  holdBytes: number,
): Promise<ReadonlyMap<string, { readonly id: Hash; readonly source: TensorSource }>> {
  const dataBytes = file.tensors.at(-1)?.end ?? 0;
  const held = dataBytes <= holdBytes ? await file.readData() : undefined;
  const found = new Map<string, { readonly id: Hash; readonly source: TensorSource }>();
  for await (const tensor of inSteps(file.tensors)) {
    const { name, dtype, shape, begin, end } = tensor;
    if (held === undefined) {
      const source = file.source(tensor);
      found.set(name, { id: await tensorIdOfSource(source), source });
    } else {
      const bytes = held.subarray(begin, end);
      const id = tensorId(tensor, bytes);
      found.set(name, { id, source: sourceOfTensor({ dtype, shape, bytes }, id) });
    }
  }
  return found;
}

function mismatch(reason: string): StemmaError {
  return new StemmaError(
    "ARCHITECTURE_MISMATCH",
    `The tensors do not belong to this architecture: ${reason}. Check that both come from one model.`,
  );
}

/**
 * A model with an architecture, from its tensors in canonical order. The bytes of the tensors must not change
 * any more.
 * @throws ARCHITECTURE_MISMATCH, TENSOR_SIZE_MISMATCH
 * @internal Programs read models from files; tests make them in memory.
 */
export function modelSourceOfTensors(
  architecture: Architecture,
  tensors: readonly Tensor[],
  names: Names = defaultNames(architecture),
): ModelSource {
  const slots = weightSlots(architecture);
  if (slots.length !== tensors.length)
    throw mismatch(`it has ${slots.length} weights, but there are ${tensors.length} tensors`);
  const leaves = slots.map((slot, i): Leaf => {
    const tensor = tensors[i] as Tensor;
    if (!hasSameHeader(slot, tensor))
      throw mismatch(`the weight ${slot.path} (${slot.name}) has another type or shape`);
    return {
      path: slot.path,
      dtype: tensor.dtype,
      shape: tensor.shape,
      tensor: tensorId(tensor, tensor.bytes),
    };
  });
  return {
    kind: "architecture",
    architecture,
    leaves,
    sources: tensors.map((tensor, i) => sourceOfTensor(tensor, leaves[i]?.tensor)),
    names,
  };
}

/**
 * A model of kind `opaque`, from named tensors in the order of their file. The bytes of the tensors must not
 * change any more. @throws TENSOR_SIZE_MISMATCH
 */
export function opaqueModelSource(
  tensors: readonly (Tensor & { readonly name: string })[],
  fileMetadata?: Readonly<Record<string, string>>,
): ModelSource {
  const { sorted, names } = inLeafOrder(tensors, fileMetadata);
  const leaves = sorted.map(({ name, dtype, shape, bytes }): Leaf => ({
    path: name,
    dtype,
    shape,
    tensor: tensorId({ dtype, shape }, bytes),
  }));
  return {
    kind: "opaque",
    leaves,
    sources: sorted.map(({ dtype, shape, bytes }, i) =>
      sourceOfTensor({ dtype, shape, bytes }, leaves[i]?.tensor),
    ),
    names,
  };
}

/**
 * Makes an opaque model as opaqueModelSource; the tensors are hashed while they are saved.
 * @internal Programs read models from files; tests and benchmarks make them in memory.
 */
export function unhashedOpaqueModel(
  tensors: readonly (Tensor & { readonly name: string })[],
  fileMetadata?: Readonly<Record<string, string>>,
): UnhashedModel {
  const { sorted, names } = inLeafOrder(tensors, fileMetadata);
  return {
    kind: "opaque",
    unhashedLeaves: sorted.map(({ name, dtype, shape }) => ({ path: name, dtype, shape })),
    sources: sorted.map(({ dtype, shape, bytes }) => sourceOfTensor({ dtype, shape, bytes })),
    names,
  };
}

function inLeafOrder<Named extends { readonly name: string }>(
  tensors: readonly Named[],
  fileMetadata: Readonly<Record<string, string>> | undefined,
): { readonly sorted: readonly Named[]; readonly names: Names } {
  const order = tensors
    .map((_, i) => i)
    .sort((a, b) => compareNames((tensors[a] as Named).name, (tensors[b] as Named).name));
  const sorted = order.map((i) => tensors[i] as Named);
  return {
    sorted,
    names: {
      leaves: sorted.map(({ name }) => name),
      ...fileOrderOf(order),
      ...defined({ fileMetadata }),
    },
  };
}

/** @param order the position in the file of each leaf. Returns {} where the file has canonical order. */
function fileOrderOf(order: readonly number[]): { readonly fileOrder?: readonly number[] } {
  const fileOrder = new Array<number>(order.length);
  order.forEach((position, leaf) => {
    fileOrder[position] = leaf;
  });
  return fileOrder.every((leaf, position) => leaf === position) ? {} : { fileOrder };
}

export interface ImportOptions {
  /** Bytes of the model's model.json; without it the model is of kind `opaque`. */
  readonly modelJson?: Uint8Array | undefined;
  /**
   * The model's architecture, where it is known in Stemma's form. Tensors are found by `names`, or by path
   * where all tensors of the file are named by their paths; the saved model has `names` in both cases.
   */
  readonly architecture?: { readonly architecture: Architecture; readonly names?: Names };
  /** Models of at most this many bytes are held in memory, so that their file is read once; default 256 MiB. */
  readonly holdBytes?: number;
}

/**
 * A model from a safetensors file. The file stays open until the model is saved, unless it is small enough to
 * be held in memory.
 * @param where the file's path, for messages
 * @throws SAFETENSORS_MALFORMED, SAFETENSORS_TRUNCATED, MODEL_JSON_MALFORMED, LAYER_NOT_ALLOWED,
 * ARCHITECTURE_MISMATCH
 */
export async function modelSourceOfSafetensors(
  file: ByteFile,
  where: string,
  options: ImportOptions = {},
): Promise<ModelSource> {
  return await hashModel(await openModel(file, where, options), options);
}

async function hashModel(
  { opened, wanted, model }: OpenedModel,
  { holdBytes = heldModelBytes }: Pick<ImportOptions, "holdBytes">,
): Promise<ModelSource> {
  const tensors = await hashedTensors(opened, holdBytes);
  const leaves: Leaf[] = [];
  const sources: TensorSource[] = [];
  for await (const { path, tensor } of inSteps(wanted)) {
    const { id, source } = tensors.get(tensor.name) as { readonly id: Hash; readonly source: TensorSource };
    leaves.push({ path, dtype: tensor.dtype, shape: tensor.shape, tensor: id });
    sources.push(source);
  }
  return { ...model, leaves, sources };
}

/**
 * Opens a model as modelSourceOfSafetensors, but one that is held in memory is hashed while it is saved. A
 * larger one is hashed here: what the store has of it is then not written.
 */
export async function modelToSaveOfSafetensors(
  file: ByteFile,
  where: string,
  options: ImportOptions = {},
): Promise<ModelSource | UnhashedModel> {
  const found = await openModel(file, where, options);
  const { opened, wanted, model } = found;
  if ((opened.tensors.at(-1)?.end ?? 0) > (options.holdBytes ?? heldModelBytes))
    return await hashModel(found, options);
  const held = await opened.readData();
  const unhashedLeaves: Omit<Leaf, "tensor">[] = [];
  const sources: TensorSource[] = [];
  for await (const { path, tensor } of inSteps(wanted)) {
    const { dtype, shape, begin, end } = tensor;
    unhashedLeaves.push({ path, dtype, shape });
    sources.push(sourceOfTensor({ dtype, shape, bytes: held.subarray(begin, end) }));
  }
  return { ...model, unhashedLeaves, sources };
}

/** A model as a file describes it, before its tensors are read. */
interface OpenedModel {
  readonly opened: OpenedSafetensors;
  /** The leaves in canonical order. */
  readonly wanted: readonly WantedLeaf[];
  readonly model: Omit<UnhashedModel, "unhashedLeaves" | "sources">;
}

async function openModel(file: ByteFile, where: string, options: ImportOptions): Promise<OpenedModel> {
  const opened = await openSafetensors(file, where);
  const byName = new Map<string, { readonly tensor: SafetensorsEntry; readonly position: number }>();
  for await (const [position, tensor] of inSteps(opened.tensors.entries()))
    byName.set(tensor.name, { tensor, position });
  const described =
    options.architecture ??
    (options.modelJson === undefined
      ? undefined
      : readModelJson(options.modelJson, new Map(opened.tensors.map((tensor) => [tensor.name, tensor]))));
  const given =
    described === undefined ? undefined : (described.names ?? defaultNames(described.architecture));
  const byPath =
    given !== undefined &&
    byName.size > 0 &&
    [...byName.keys()].every((name) => positionOf(name) !== undefined);
  const wanted =
    described === undefined
      ? await opaqueLeaves(opened)
      : architectureLeaves(described.architecture, byPath ? undefined : given, byName);
  const ofFile: Names = {
    ...given,
    leaves: wanted.map(({ tensor }) => tensor.name),
    ...fileOrderOf(wanted.map(({ tensor }) => byName.get(tensor.name)?.position as number)),
    ...defined({ fileMetadata: opened.metadata }),
    ...defined({ fileHeader: opened.keptText }),
  };
  const model = {
    kind: described === undefined ? ("opaque" as const) : ("architecture" as const),
    ...defined({ architecture: described?.architecture }),
    names: byPath ? given : ofFile,
  };
  return { opened, wanted, model };
}

interface WantedLeaf {
  readonly path: string;
  readonly tensor: SafetensorsEntry;
}

async function opaqueLeaves({ tensors, canonicalOrder }: OpenedSafetensors): Promise<readonly WantedLeaf[]> {
  const leaves: WantedLeaf[] = [];
  for await (const position of inSteps(canonicalOrder)) {
    const tensor = tensors[position] as SafetensorsEntry;
    leaves.push({ path: tensor.name, tensor });
  }
  return leaves;
}

/** The file's tensors by the weights' names, or by their paths where no names are given. */
function architectureLeaves(
  architecture: Architecture,
  names: Names | undefined,
  byName: ReadonlyMap<string, { readonly tensor: SafetensorsEntry }>,
): readonly WantedLeaf[] {
  const leaves = weightSlots(architecture).map((slot, i) => {
    const name = names?.leaves[i] ?? slot.path;
    const found = byName.get(name)?.tensor;
    if (found === undefined) throw mismatch(`the file has no tensor ${JSON.stringify(name.slice(0, 80))}`);
    if (!hasSameHeader(found, slot))
      throw mismatch(
        `${JSON.stringify(name.slice(0, 80))} is ${found.dtype} [${found.shape.join(", ")}], the architecture needs ${slot.dtype} [${slot.shape.join(", ")}]`,
      );
    return { path: slot.path, tensor: found };
  });
  if (leaves.length !== byName.size) {
    const used = new Set(leaves.map(({ tensor }) => tensor.name));
    const left = [...byName.keys()].find((name) => !used.has(name));
    throw mismatch(`no layer has the tensor ${JSON.stringify(left?.slice(0, 80))}`);
  }
  return leaves;
}
