/**
 * Follows the shapes through a tensor expression, so that everything which is computed later fits: no operation reads
 * one that comes later, no tensor is too large, and the result has the shape that is needed. Shapes are of one sample;
 * the batch has an axis before them. Pure.
 */
import { isComparison, isOfSamples, maxRank, type ExpressionAnswer, type Operation } from "./operations.js";

export type Shape = readonly number[];

/** An expression that was checked. JSON. */
export interface Expression {
  /** The shapes of what it is given. */
  readonly inputs: readonly Shape[];
  /** The operations, all axes counted from the first. */
  readonly operations: readonly Operation[];
  /** The shapes of what the operations give. */
  readonly shapes: readonly Shape[];
  readonly output: number;
}

export interface WantedExpression {
  readonly inputs: readonly Shape[];
  /** The shape of its result. */
  readonly output: Shape;
  /** True for a sample's change, which may draw numbers; false where a gradient is taken. */
  readonly isOfSamples: boolean;
  /** The inputs to one of which its result has to have a gradient; none where it is empty. */
  readonly needs: readonly number[];
}

/** The largest number of numbers that all tensors of an expression may have, for one sample. */
export const maxExpressionNumbers = 2 ** 24;

type Fail = (why: string) => never;

/** Numbers of a tensor. */
export const sizeOf = (shape: Shape): number => shape.reduce((product, dimension) => product * dimension, 1);

/** Numbers that all tensors of an expression have, for one sample. */
export const numbersOf = ({ inputs, shapes }: Pick<Expression, "inputs" | "shapes">): number =>
  [...inputs, ...shapes].reduce((sum, shape) => sum + sizeOf(shape), 0);

/** Multiplications of an expression for one sample: one for each number, or as many as a product of matrices has. */
export function workOf({ inputs, operations, shapes }: Expression): number {
  const all = [...inputs, ...shapes];
  return operations.reduce((sum, { op, from }, index) => {
    const inner = op === "matMul" ? (all[from[0]]?.[1] ?? 1) : 1;
    return sum + inner * sizeOf(shapes[index] ?? []);
  }, 0);
}

const text = (shape: Shape): string => `[${shape.join(", ")}]`;

/** @param fail is called with what is wrong, naming the operation */
export function checkExpression(
  { operations, output }: ExpressionAnswer,
  wanted: WantedExpression,
  fail: Fail,
): Expression {
  const { inputs } = wanted;
  const all: Shape[] = [...inputs];
  const dependent = inputs.map((_, index) => wanted.needs.includes(index));
  let numbers = numbersOf({ inputs, shapes: [] });
  const checked = operations.map((operation, index): Operation => {
    const failHere: Fail = (why) => fail(`operation ${index + 1} (${operation.op}) ${why}`);
    if (isOfSamples(operation) && !wanted.isOfSamples) failHere("can only be in augment()");
    const from = operation.from.map((at) => all[at] ?? failHere(`reads tensor ${at}, which comes later`));
    const resolved = withAxes(operation, from[0]?.length ?? 0, failHere);
    const shape = shapeOf(resolved, from, failHere);
    numbers += sizeOf(shape);
    if (shape.length > maxRank) failHere(`has ${shape.length} axes, and ${maxRank} are the most`);
    if (numbers > maxExpressionNumbers) failHere(`is too large: ${maxExpressionNumbers} numbers is the most`);
    all.push(shape);
    dependent.push(differentiated(operation).some((at) => dependent[at]));
    return resolved;
  });
  const result = all[output] ?? fail(`its result is tensor ${output}, which it does not have`);
  if (result.join() !== wanted.output.join())
    fail(`its result has the shape ${text(result)}, and ${text(wanted.output)} is needed`);
  if (wanted.needs.length > 0 && dependent[output] !== true)
    fail(
      "its result has no gradient by the model's output: it does not depend on it, or by comparisons alone",
    );
  return { inputs, operations: checked, shapes: all.slice(inputs.length), output };
}

/** The tensors by which an operation has a gradient: a comparison has none, nor what chooses by one. */
function differentiated({ op, from }: Operation): readonly number[] {
  if (isComparison(op)) return [];
  return op === "where" ? from.slice(1) : from;
}

/** The operation with its axes counted from the first. */
function withAxes(operation: Operation, rank: number, fail: Fail): Operation {
  const resolve = (axis: number): number => {
    const at = axis < 0 ? axis + rank : axis;
    return at >= 0 && at < rank ? at : fail(`has no axis ${axis}: its input has ${rank} axes`);
  };
  if (operation.op === "concatenate") return { ...operation, axis: resolve(operation.axis) };
  if (!("axes" in operation) || operation.axes === undefined) return operation;
  const axes = operation.axes.map(resolve);
  return new Set(axes).size === axes.length
    ? { ...operation, axes }
    : fail(`names an axis twice: ${text(axes)}`);
}

function shapeOf(operation: Operation, from: readonly Shape[], fail: Fail): Shape {
  const [first = [], second = []] = from;
  switch (operation.op) {
    case "softmax":
    case "logSoftmax":
      return first.length > 0 ? first : fail("needs at least one axis");
    case "neg":
    case "abs":
    case "square":
    case "sqrt":
    case "exp":
    case "log":
    case "sigmoid":
    case "tanh":
    case "relu":
    case "softplus":
    case "pow":
    case "flip":
      return first;
    case "clip":
      return operation.low <= operation.high ? first : fail("has a lower bound above the upper one");
    case "sum":
    case "mean":
    case "max":
    case "min":
      return operation.axes === undefined ? [] : first.filter((_, axis) => !operation.axes?.includes(axis));
    case "matMul":
      return product(first, second, fail);
    case "reshape":
      return sizeOf(operation.shape) === sizeOf(first)
        ? operation.shape
        : fail(`cannot make ${text(operation.shape)} of ${text(first)}`);
    case "transpose":
      return operation.axes.length === first.length
        ? operation.axes.map((axis) => first[axis] as number)
        : fail(`names ${operation.axes.length} axes of ${first.length}`);
    case "slice":
      return sliced(operation, first, fail);
    case "pad":
      return operation.before.length === first.length && operation.after.length === first.length
        ? first.map((size, axis) => size + (operation.before[axis] ?? 0) + (operation.after[axis] ?? 0))
        : fail(`needs two borders for each of the axes of ${text(first)}`);
    case "concatenate":
      return joined(operation.axis, from, fail);
    case "constant":
      return operation.values.length === sizeOf(operation.shape)
        ? operation.shape
        : fail(`has ${operation.values.length} values for the shape ${text(operation.shape)}`);
    case "uniform":
    case "normal":
      return operation.shape;
    case "integer":
      return [];
    case "shift":
    case "rotate90":
      return moved(operation, from, fail);
    default:
      return from.reduce((before, after) => spread(before, after, fail));
  }
}

/** The shape of two tensors, of which axes of 1 are repeated; axes are matched from the last one. */
function spread(one: Shape, other: Shape, fail: Fail): Shape {
  const rank = Math.max(one.length, other.length);
  return Array.from({ length: rank }, (_, index) => {
    const a = one[index - rank + one.length] ?? 1;
    const b = other[index - rank + other.length] ?? 1;
    return a === b || b === 1 ? a : a === 1 ? b : fail(`cannot combine ${text(one)} and ${text(other)}`);
  });
}

function product(first: Shape, second: Shape, fail: Fail): Shape {
  const [rows, inner] = first;
  const [height, columns] = second;
  const isProduct = first.length === 2 && second.length === 2 && inner === height;
  return isProduct
    ? [rows as number, columns as number]
    : fail(`cannot multiply ${text(first)} and ${text(second)}`);
}

function sliced({ begin, size }: Extract<Operation, { op: "slice" }>, from: Shape, fail: Fail): Shape {
  const isInside =
    begin.length === from.length &&
    size.length === from.length &&
    from.every((extent, axis) => (begin[axis] ?? 0) + (size[axis] ?? 0) <= extent);
  return isInside ? size : fail(`has no part of the size ${text(size)} at ${text(begin)} in ${text(from)}`);
}

function joined(axis: number, from: readonly Shape[], fail: Fail): Shape {
  const [first = []] = from;
  const isAlike = (shape: Shape): boolean =>
    shape.length === first.length && shape.every((size, at) => at === axis || size === first[at]);
  if (!from.every(isAlike)) fail(`joins ${from.map(text).join(" and ").slice(0, 200)} along axis ${axis}`);
  const total = from.reduce((sum, shape) => sum + (shape[axis] as number), 0);
  return first.map((size, at) => (at === axis ? total : size));
}

function moved(
  { op }: Extract<Operation, { op: "shift" | "rotate90" }>,
  [sample = [], ...amounts]: readonly Shape[],
  fail: Fail,
): Shape {
  const odd = amounts.find((shape) => shape.length > 0);
  if (odd !== undefined) fail(`is told by single numbers, and not by a tensor of ${text(odd)}`);
  if (op === "shift")
    return amounts.length <= sample.length ? sample : fail(`moves ${amounts.length} axes of ${text(sample)}`);
  return sample.length >= 2 && sample[0] === sample[1]
    ? sample
    : fail(`turns what is not as high as wide: ${text(sample)}`);
}
