/** A file with the names of the one that its base was imported from: it is read in the layout that the base has. */
import { StemmaError } from "../errors.js";
import { weightSlots } from "../model/architecture.js";
import type { DescribedModel } from "../model/model-json.js";
import type { ModelSource, SaveRecord } from "../model/model.js";
import { openSafetensors } from "../save/open-safetensors.js";
import { hasSameHeader } from "../tensor/same-header.js";
import type { ByteFile } from "../tensor/safetensors-reader.js";
import { tensorOfSource, type Hash, type TensorSource } from "../tensor/tensor.js";
import type { NamedHeader } from "./file-modules.js";
import { fileOfLayout, rootOfFile } from "./file-of-layout.js";
import { layOutFile, type LaidOutFile } from "./laid-out-file.js";
import { keepsOrder } from "./axis-order.js";
import {
  decodeLayout,
  encodeLayout,
  isAddend,
  isWeight,
  layoutName,
  type Layout,
  type LayoutTensor,
} from "./layout.js";
import type { PlannedLayout } from "./planned-layout.js";

/** Names that a message lists. */
const maxListed = 3;

/** The id of a version's own layout; undefined where it has none. */
export function layoutIdOf({ objects }: Pick<SaveRecord, "objects">): Hash | undefined {
  return objects.attachments?.find(({ name }) => name === layoutName)?.hash;
}

export interface BaseForm {
  readonly described: Pick<DescribedModel, "architecture" | "names">;
  /** The base's layout: the attachment's bytes. */
  readonly layout: Uint8Array;
  /** True: the file is in this layout. False: it is where its names are rather those of the layout. */
  readonly isStated?: boolean;
}

/**
 * @param file a safetensors file; it stays open as long as the result is read
 * @param where its path, for messages
 * @returns the weights, and the file's own layout; undefined for a file with the architecture's names
 * @throws ARCHITECTURE_MISMATCH naming tensors that do not fit the layout, and where it may be either, which moves
 * elements; MODEL_FILE_MALFORMED, and what reading
 * safetensors throws
 */
export async function layOutAsBase(
  file: ByteFile,
  where: string,
  { described, layout: bytes, isStated = false }: BaseForm,
): Promise<LaidOutFile | undefined> {
  const slots = weightSlots(described.architecture);
  const layout = decodeLayout(bytes, slots);
  if (!isStated) {
    const { tensors } = await openSafetensors(file, where);
    const inLayout = new Set(layout.tensors.map(({ name }) => name));
    const inModel = new Set(slots.flatMap(({ path }, at) => [path, described.names.leaves[at] ?? path]));
    const count = (names: ReadonlySet<string>): number =>
      tensors.filter(({ name }) => names.has(name)).length;
    const rather = count(inLayout) - count(inModel);
    if (count(inLayout) === 0 || rather < 0) return undefined;
    // Read in the wrong one of the two, a square weight would be transposed, and nothing would tell.
    if (rather === 0 && layout.tensors.some(isOther)) throw eitherNames(where);
  }
  return await layOutFile(file, where, {
    described,
    plan: (tensors) => planOf(layout, tensors, where),
  });
}

/** True if a tensor is not a weight as it is. */
function isOther(tensor: LayoutTensor): boolean {
  if (!isWeight(tensor)) return isAddend(tensor);
  return tensor.part !== undefined || (tensor.order !== undefined && !keepsOrder(tensor.order));
}

function eitherNames(where: string): StemmaError {
  return new StemmaError(
    "ARCHITECTURE_MISMATCH",
    `${where} has names that both the model and the file that it was imported from have, for other orders of axes, so ` +
      "it is not known in which it is. State it: `stemma model import FILE --base MODEL --layout original`, or --arch.",
  );
}

/** The layout of tensors with the names, types and shapes of another layout's, in any order. */
function planOf(layout: Layout, tensors: readonly NamedHeader[], where: string): PlannedLayout {
  const wanted = new Map(layout.tensors.map((tensor) => [tensor.name, tensor]));
  const differences: string[] = [];
  const planned = tensors.flatMap(({ name, dtype, shape }) => {
    const found = wanted.get(name);
    wanted.delete(name);
    if (found === undefined) {
      differences.push(`${shown(name)} is not among them`);
      return [];
    }
    if (!hasSameHeader(found, { dtype, shape }))
      differences.push(
        `${shown(name)} is ${dtype} [${shape.join(", ")}] instead of ${found.dtype} [${found.shape.join(", ")}]`,
      );
    if (isWeight(found)) return [found];
    return isAddend(found)
      ? [{ name, dtype, shape, leaf: found.leaf, addend: found.addend }]
      : [{ name, dtype, shape }];
  });
  for (const name of wanted.keys()) differences.push(`${shown(name)} is missing`);
  if (differences.length === 0) return { tensors: planned, notes: [] };
  const more = differences.length - maxListed;
  throw new StemmaError(
    "ARCHITECTURE_MISMATCH",
    `${where} does not have the tensors of the file that its base was imported from: ` +
      `${differences.slice(0, maxListed).join("; ")}${more > 0 ? `; and ${more} more` : ""}. Save the state dict of the ` +
      "same network, or import the model with --arch and --layout.",
  );
}

/**
 * The layout of a model that came in the architecture's names, from its base's: what the base kept beside stays.
 * @throws MODEL_FILE_MALFORMED, and what reading a tensor throws
 */
export async function inheritedLayout(
  { sources }: Pick<ModelSource, "sources">,
  given: Uint8Array,
): Promise<Uint8Array> {
  const layout = decodeLayout(given, sources);
  const file = fileOfLayout(sources, given);
  const tensors = await Promise.all(
    layout.tensors.map(async (tensor, at) =>
      isAddend(tensor)
        ? { ...tensor, bytes: (await tensorOfSource(file.sources[at] as TensorSource)).bytes }
        : tensor,
    ),
  );
  return encodeLayout({ ...layout, tensors, root: await rootOfFile(file) });
}

function shown(name: string): string {
  return JSON.stringify(name.slice(0, 80));
}
