/**
 * The tensors of a LoRA adapter, compared with its base: each pair `NAME.lora_A.weight` [r, in] and
 * `NAME.lora_B.weight` [out, r] changes the base's `NAME.weight` [out, in] (peft, tuners/lora/layer.py). Pure.
 */
import { canScale } from "../../delta/derived/float-numbers.js";
import { StemmaError } from "../../errors.js";
import type { TensorHeader } from "../../tensor/tensor.js";
import { listed, quoted } from "../form.js";
import type { AdapterConfig } from "./adapter-config.js";

/** The header of a tensor with its name in the file. */
export interface NamedTensor extends TensorHeader {
  readonly name: string;
}

export interface LoraPair<Tensor extends NamedTensor> {
  readonly a: Tensor;
  readonly b: Tensor;
}

const namePattern = /^(?:base_model\.model\.)?(.+)\.lora_([AB])\.weight$/;

/** True for names as peft gives them to the tensors of a LoRA adapter. */
export function isAdapterName(name: string): boolean {
  return namePattern.test(name);
}

/**
 * @returns pairs by the name of the base's tensor
 * @throws ARCHITECTURE_MISMATCH for tensors of another kind, without their counterpart, of other types or shapes
 */
export function loraPairs<Tensor extends NamedTensor>(
  adapter: readonly Tensor[],
  base: readonly NamedTensor[],
  { rank }: Pick<AdapterConfig, "rank">,
): ReadonlyMap<string, LoraPair<Tensor>> {
  const halves = { A: new Map<string, Tensor>(), B: new Map<string, Tensor>() };
  for (const tensor of adapter) {
    const [, layer, half] = namePattern.exec(tensor.name) ?? [];
    if (layer === undefined) throw mismatch(`its tensor ${quoted(tensor.name)} is neither lora_A nor lora_B`);
    const side = halves[half as "A" | "B"];
    if (side.has(`${layer}.weight`)) throw mismatch(`it has two tensors for ${quoted(tensor.name)}`);
    side.set(`${layer}.weight`, tensor);
  }
  const lone = [...halves.A.keys(), ...halves.B.keys()].filter(
    (name) => !halves.A.has(name) || !halves.B.has(name),
  );
  if (lone.length > 0) throw mismatch(`it has only one of lora_A and lora_B for ${listed(lone)}`);
  const changed = new Map(base.filter(({ name }) => halves.A.has(name)).map((each) => [each.name, each]));
  const unknown = [...halves.A.keys()].filter((name) => !changed.has(name));
  if (unknown.length > 0) throw mismatch(`its base has no tensor ${listed(unknown)}`);
  return new Map(
    [...changed].map(([name, whole]) => {
      const pair = { a: halves.A.get(name) as Tensor, b: halves.B.get(name) as Tensor };
      const [out, width] = whole.shape;
      if (whole.shape.length !== 2) throw mismatch(`${described(whole)} of its base is not a matrix`);
      requireMatrix(pair.a, [rank, width as number], whole);
      requireMatrix(pair.b, [out as number, rank], whole);
      for (const tensor of [whole, pair.a, pair.b])
        if (!canScale(tensor.dtype)) throw mismatch(`${described(tensor)} is not of F32, F16 or BF16`);
      return [name, pair];
    }),
  );
}

function requireMatrix(tensor: NamedTensor, shape: readonly number[], whole: NamedTensor): void {
  if (tensor.shape.length !== 2 || tensor.shape.some((extent, i) => extent !== shape[i]))
    throw mismatch(
      `${described(tensor)} has to be [${shape.join(", ")}] for ${described(whole)} of its base`,
    );
}

function described({ name, dtype, shape }: NamedTensor): string {
  return `${quoted(name)} ${dtype} [${shape.join(", ")}]`;
}

function mismatch(reason: string): StemmaError {
  return new StemmaError(
    "ARCHITECTURE_MISMATCH",
    `The LoRA adapter does not fit its base: ${reason}. Name the model that it was trained on; an adapter of another ` +
      "kind is merged by the library that made it.",
  );
}
