/** A layout that a person wrote: for each weight of the architecture the tensor of the file, and its axes. Pure. */
import { defined } from "../defined.js";
import { errorOf } from "../errors.js";
import { weightSlots } from "../model/architecture.js";
import type { DescribedModel } from "../model/model-json.js";
import { tensorByteLength } from "../tensor/dtype.js";
import { isAxisOrder, type AxisOrder } from "./axis-order.js";
import type { NamedHeader } from "./file-modules.js";
import type { PlannedLayout, PlannedTensor } from "./planned-layout.js";

const malformed = errorOf("MODEL_FILE_MALFORMED");
const maxWeights = 100_000;

function invalid(reason: string): never {
  throw malformed(
    `This is not a layout: ${reason}. Write "format: 1", under "weights" for each weight its tensor (or "from", ` +
      '"as", "axes" and "blocks", or a list of two that are added), and under "beside" the names of the other tensors.',
  );
}

/**
 * @param value the parsed YAML: format, weights, beside
 * @param tensors those of the file, in its order
 * @throws MODEL_FILE_MALFORMED naming the weight or tensor that it does not name once
 */
export function writtenLayout(
  value: unknown,
  { architecture, names }: DescribedModel,
  tensors: readonly NamedHeader[],
): PlannedLayout {
  const { format, weights, beside = [], ...others } = membersOf(value, "it");
  if (format !== 1) return invalid('it has no "format: 1"');
  requireNoOthers(others, "it");
  if (!Array.isArray(beside) || !beside.every((name) => typeof name === "string"))
    return invalid('"beside" is not a list of names');
  const given = Object.entries(membersOf(weights, '"weights"'));
  if (given.length > maxWeights) return invalid(`it has more than ${maxWeights} weights`);
  const leaves = new Map<string, number>();
  weightSlots(architecture).forEach(({ path }, at) => {
    for (const name of [names.leaves[at] ?? path, path]) leaves.set(name, at);
  });
  const byName = new Map(tensors.map((tensor) => [tensor.name, tensor]));
  const found = new Map<string, PlannedTensor>();
  const add = (name: string, planned: (header: NamedHeader) => PlannedTensor): void => {
    const header = byName.get(name) ?? invalid(`the file has no tensor ${shown(name)}`);
    if (found.has(name)) invalid(`it uses the tensor ${shown(name)} twice`);
    found.set(name, planned(header));
  };
  for (const [weight, from] of given) {
    const leaf = leaves.get(weight) ?? invalid(`the architecture has no weight ${shown(weight)}`);
    if (Array.isArray(from)) {
      const [first, second, ...more] = from as readonly unknown[];
      if (typeof first !== "string" || typeof second !== "string" || more.length > 0)
        return invalid(`the weight ${shown(weight)} is a list, and not of two names`);
      add(first, (header) => ({ ...header, leaf, addend: "difference" }));
      add(second, (header) => ({ ...header, leaf, addend: "kept" }));
      continue;
    }
    const { names, ...written } = sourceOf(from, weight);
    names.forEach((name, at) => {
      const part = names.length === 1 ? {} : { part: { at, of: names.length } };
      add(name, (header) => ({ ...header, leaf, ...orderOf(written, header), ...part }));
    });
  }
  for (const name of beside as readonly string[]) add(name, (header) => header);
  const left = tensors.find(({ name }) => !found.has(name));
  if (left !== undefined) return invalid(`it does not say what the file's tensor ${shown(left.name)} is`);
  const inOrder = tensors.map(({ name }) => found.get(name) as PlannedTensor);
  return { tensors: inOrder, notes: [] };
}

type Members = Readonly<Record<string, unknown>>;

function membersOf(value: unknown, what: string): Members {
  return typeof value === "object" && value !== null && !Array.isArray(value)
    ? (value as Members)
    : invalid(`${what} is not an object`);
}

function requireNoOthers(others: Members, what: string): void {
  const [other] = Object.keys(others);
  if (other !== undefined) invalid(`${what} has the unknown member ${shown(other)}`);
}

/** The tensor of a weight, or several after each other, as it is written. */
interface WrittenSource {
  readonly names: readonly string[];
  readonly as?: readonly number[];
  readonly axes?: readonly number[];
  readonly blocks?: readonly number[];
}

function sourceOf(value: unknown, weight: string): WrittenSource {
  if (typeof value === "string") return { names: [value] };
  const { from, as, axes, blocks, ...others } = membersOf(value, `the weight ${shown(weight)}`);
  requireNoOthers(others, `the weight ${shown(weight)}`);
  const names: readonly unknown[] = Array.isArray(from) ? from : [from];
  if (names.length === 0 || names.length > 16 || !names.every((name) => typeof name === "string"))
    return invalid(`the weight ${shown(weight)} has no "from"`);
  return {
    names,
    ...(as === undefined ? {} : { as: numbersOf(as, weight) }),
    ...(axes === undefined ? {} : { axes: numbersOf(axes, weight) }),
    ...(blocks === undefined ? {} : { blocks: numbersOf(blocks, weight) }),
  };
}

function numbersOf(value: unknown, weight: string): readonly number[] {
  const isList =
    Array.isArray(value) &&
    value.length <= 16 &&
    value.every((item) => Number.isSafeInteger(item) && (item as number) >= 0);
  return isList
    ? (value as readonly number[])
    : invalid(`"as", "axes" and "blocks" of the weight ${shown(weight)} are not lists of whole numbers`);
}

function orderOf(
  { as, axes, blocks }: Omit<WrittenSource, "names">,
  { name, dtype, shape }: NamedHeader,
): { readonly order?: AxisOrder } {
  if (axes === undefined && blocks === undefined) return {};
  const extents = as ?? shape;
  const order = { as: extents, axes: axes ?? [...extents.keys()], ...defined({ blocks }) };
  const isSame =
    as === undefined ||
    (as.every((extent) => extent > 0) && tensorByteLength(dtype, as) === tensorByteLength(dtype, shape));
  return isAxisOrder(order) && isSame
    ? { order }
    : invalid(`"as", "axes" and "blocks" do not fit the tensor ${shown(name)} [${shape.join(", ")}]`);
}

function shown(name: string): string {
  return JSON.stringify(name.slice(0, 80));
}
