/** A model file of another tool as an architecture's weights: one safetensors file that exists while it is read. */
import { StemmaError } from "../errors.js";
import { assembledFile } from "../forms/assembled-file.js";
import type { FormTensor, OpenedPart } from "../forms/form.js";
import { weightSlots } from "../model/architecture.js";
import type { DescribedModel } from "../model/model-json.js";
import { openSafetensors, type OpenedSafetensors } from "../save/open-safetensors.js";
import { dtypeBits } from "../tensor/dtype.js";
import { tensorIdOfSource } from "../tensor/hash.js";
import { readFully, type ByteFile } from "../tensor/safetensors-reader.js";
import type { SafetensorsEntry } from "../tensor/safetensors-header.js";
import { tensorOfSource } from "../tensor/tensor.js";
import { keepsOrder, reordered } from "./axis-order.js";
import { rootOf } from "./file-of-layout.js";
import type { NamedHeader } from "./file-modules.js";
import { sumOf } from "./addends.js";
import {
  checkLayout,
  encodeLayout,
  isAddend,
  isWeight,
  maxLayoutBytes,
  type LayoutTensor,
  type WeightTensor,
} from "./layout.js";
import type { PlannedBeside, PlannedLayout, PlannedTensor } from "./planned-layout.js";

export interface LaidOutFile {
  /** The weights by their names in the architecture, in canonical order. */
  readonly part: OpenedPart;
  /** The attachment with which the file comes back. */
  readonly layout: Uint8Array;
  readonly notes: readonly string[];
}

export interface LayOutOptions {
  readonly described: Pick<DescribedModel, "architecture" | "names">;
  /** Makes the layout of the file's tensors. */
  readonly plan: (tensors: readonly NamedHeader[]) => PlannedLayout;
}

/**
 * @param file any model file, as one safetensors file; it stays open as long as the result is read
 * @param where its path, for messages
 * @throws ARCHITECTURE_MISMATCH, MODEL_FILE_MALFORMED, and what reading safetensors throws
 */
export async function layOutFile(
  file: ByteFile,
  where: string,
  { described, plan }: LayOutOptions,
): Promise<LaidOutFile> {
  const opened = await openSafetensors(file, where);
  const entries = new Map(opened.tensors.map((tensor) => [tensor.name, tensor]));
  const planned = plan(opened.tensors.map(({ name, dtype, shape }) => ({ name, dtype, shape })));
  const slots = weightSlots(described.architecture);
  const tensors: LayoutTensor[] = [];
  for (const tensor of planned.tensors)
    tensors.push(isWeightPlan(tensor) ? tensor : await besideOf(tensor, entries, opened));
  checkLayout(tensors, slots);
  const leaves = [];
  for (const [name, entry] of entries) {
    const { dtype, shape } = entry;
    leaves.push({ path: name, dtype, shape, tensor: await tensorIdOfSource(opened.source(entry)) });
  }
  const weights = new Map<number, WeightTensor[]>();
  for (const tensor of tensors.filter(isWeight))
    weights.set(tensor.leaf, [...(weights.get(tensor.leaf) ?? []), tensor]);
  const sums = sumsOf(tensors);
  const reader = new WeightReader(file, where, opened.dataStart);
  const part = assembledFile({
    tensors: slots.map(({ dtype, shape, path }, at): FormTensor => {
      const header = { name: described.names.leaves[at] ?? path, dtype, shape };
      const parts = weights.get(at);
      const sum = sums.get(at);
      if (parts !== undefined)
        return {
          ...header,
          async read(target, from) {
            for (const part of parts)
              await reader.read(part, entries.get(part.name) as SafetensorsEntry, { target, from });
          },
        };
      return {
        ...header,
        read(target, from) {
          if (sum !== undefined) target.set(sum.subarray(from, from + target.length));
          return Promise.resolve();
        },
      };
    }),
  });
  const { metadata } = opened;
  const layout = encodeLayout({
    tensors,
    root: rootOf(leaves),
    ...(metadata === undefined ? {} : { metadata }),
  });
  return { part, layout, notes: [...planned.notes, ...notesOf(tensors)] };
}

function isWeightPlan(tensor: PlannedTensor): tensor is WeightTensor {
  return "leaf" in tensor && !("addend" in tensor);
}

/** The weights that are sums, by their leaves. */
function sumsOf(tensors: readonly LayoutTensor[]): ReadonlyMap<number, Uint8Array> {
  const sums = new Map<number, Uint8Array>();
  for (const { leaf, bytes } of tensors.filter(isAddend)) {
    const other = sums.get(leaf);
    sums.set(leaf, other === undefined ? bytes : sumOf(other, bytes));
  }
  return sums;
}

function notesOf(tensors: readonly LayoutTensor[]): readonly string[] {
  const beside = tensors.filter((tensor) => !isWeight(tensor) && !isAddend(tensor));
  if (beside.length === 0) return [];
  const [first] = beside as [LayoutTensor];
  const name = JSON.stringify(first.name.slice(0, 80));
  const which = beside.length === 1 ? `${name} is` : `${name} and ${beside.length - 1} more are`;
  return [`${which} kept beside the weights; the engine does not compute with them`];
}

/** @throws MODEL_FILE_MALFORMED where it is too long */
async function besideOf(
  planned: PlannedBeside,
  entries: ReadonlyMap<string, SafetensorsEntry>,
  opened: OpenedSafetensors,
): Promise<LayoutTensor> {
  const { name } = planned;
  const entry = entries.get(name) as SafetensorsEntry;
  const shown = JSON.stringify(name.slice(0, 80));
  if (entry.end - entry.begin > maxLayoutBytes)
    throw new StemmaError(
      "MODEL_FILE_MALFORMED",
      `The tensor ${shown} has more than ${maxLayoutBytes} bytes, too many to be kept beside the weights. ` +
        "Give the architecture a weight for it, or import the model without --arch.",
    );
  const { bytes } = await tensorOfSource(opened.source(entry));
  return { ...planned, bytes };
}

/** Reads weights and their parts in pieces; one that is put in another order is in memory meanwhile, one at a time. */
class WeightReader {
  #name: string | undefined;
  #bytes: Promise<Uint8Array> | undefined;

  constructor(
    private readonly file: ByteFile,
    private readonly where: string,
    private readonly dataStart: number,
  ) {}

  /** Fills what of the target the tensor is. @param wanted from: the target's place in the weight */
  async read(
    { name, dtype, order, part }: WeightTensor,
    { begin, end }: SafetensorsEntry,
    wanted: { readonly target: Uint8Array; readonly from: number },
  ): Promise<void> {
    const start = this.dataStart + begin;
    const before = (part?.at ?? 0) * (end - begin);
    const first = Math.max(wanted.from, before);
    const last = Math.min(wanted.from + wanted.target.length, before + end - begin);
    if (first >= last) return;
    const target = wanted.target.subarray(first - wanted.from, last - wanted.from);
    const from = first - before;
    if (order === undefined || keepsOrder(order)) {
      await readFully(this.file, target, start + from, this.where);
      return;
    }
    const read = async (): Promise<Uint8Array> => {
      const bytes = new Uint8Array(end - begin);
      await readFully(this.file, bytes, start, this.where);
      return reordered(bytes, order, dtypeBits(dtype) / 8);
    };
    if (this.#name !== name || this.#bytes === undefined) {
      this.#name = name;
      this.#bytes = read();
    }
    target.set((await this.#bytes).subarray(from, from + target.length));
  }
}
