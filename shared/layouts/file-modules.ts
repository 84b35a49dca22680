/** The modules of a PyTorch state dict, by the names of its tensors: "features.0.weight" is of "features.0". Pure. */
import type { TensorHeader } from "../tensor/tensor.js";

export interface NamedHeader extends TensorHeader {
  readonly name: string;
}

export interface FileModule {
  readonly name: string;
  /** The tensors by their names in the module. */
  readonly tensors: ReadonlyMap<string, NamedHeader>;
}

/** A counter of batch normalisation, which nothing is computed from. */
const counter = "num_batches_tracked";

/** The modules, and the tensors that are of none: counters. */
export function fileModules(tensors: readonly NamedHeader[]): {
  readonly modules: readonly FileModule[];
  readonly counters: readonly NamedHeader[];
} {
  const modules = new Map<string, Map<string, NamedHeader>>();
  const counters: NamedHeader[] = [];
  for (const tensor of tensors) {
    const dot = tensor.name.lastIndexOf(".");
    const last = tensor.name.slice(dot + 1);
    if (last === counter && tensor.shape.length === 0) {
      counters.push(tensor);
      continue;
    }
    // The layers of an LSTM are tensors of one module: weight_ih_l0, weight_ih_l1.
    const [, own = last, , layer] = /^((weight|bias)_(?:ih|hh))_(l[0-9]{1,3})$/.exec(last) ?? [];
    const module = [...(dot < 0 ? [] : [tensor.name.slice(0, dot)]), ...(layer === undefined ? [] : [layer])];
    const name = module.join(".");
    const known = modules.get(name);
    if (known === undefined) modules.set(name, new Map([[own, tensor]]));
    else known.set(own, tensor);
  }
  return { modules: [...modules].map(([name, own]) => ({ name, tensors: own })), counters };
}

/** Compares names by their numbers: "conv2" is before "conv10". */
export function compareNumbered(a: string, b: string): number {
  const [left, right] = [parts(a), parts(b)];
  const at = firstDifference(left, right);
  const [one, other] = [left[at], right[at]];
  if (one === undefined || other === undefined) return left.length - right.length;
  const numbers = isNumber(one) && isNumber(other) ? Number(one) - Number(other) : 0;
  return numbers !== 0 ? numbers : one < other ? -1 : 1;
}

/** True where two names differ first in a number, which states their order. */
export function differInNumber(a: string, b: string): boolean {
  const [left, right] = [parts(a), parts(b)];
  const at = firstDifference(left, right);
  const [one = "", other = ""] = [left[at], right[at]];
  return isNumber(one) && isNumber(other) && Number(one) !== Number(other);
}

function parts(name: string): readonly string[] {
  return name.match(/[0-9]+|[^0-9]+/g) ?? [];
}

function isNumber(part: string): boolean {
  return /^[0-9]{1,9}$/.test(part);
}

function firstDifference(left: readonly string[], right: readonly string[]): number {
  let at = 0;
  while (at < left.length && left[at] === right[at]) at++;
  return at;
}
