/**
 * The source text of the tensors that a recipe's own code computes with in loss() and augment(). They have no numbers:
 * what is called on one is written down, as operations.ts of expressions describes it. Part of the engine.
 */

/** The source of the module `stemma:expressions`, of which `stemma:recipe` exports what recipes use. */
export const expressionSource = `
let inputs = 0;
let operations;
const add = (op, from, more = {}) => {
  if (operations === undefined)
    throw new TypeError(op + " is written down in loss() or augment() only: make its tensor there");
  operations.push({ op, from: from.map(indexOf), ...more });
  return new Tensor(inputs + operations.length - 1);
};
const indexOf = (value) => {
  if (typeof value === "number" || Array.isArray(value)) return Tensor.indexOf(constant(value));
  return Tensor.indexOf(value);
};
const listOf = (value) => value === undefined || Array.isArray(value) ? value : [value];
const borders = (sizes, at) => sizes.map((each) => Array.isArray(each) ? each[at] : each);
class Tensor {
  #index;
  constructor(index) { this.#index = index; }
  static indexOf(value) {
    if (typeof value !== "object" || value === null || !(#index in value))
      throw new TypeError("a tensor, a number or a list of numbers is needed");
    return value.#index;
  }
  [Symbol.toPrimitive]() {
    throw new TypeError("a tensor has no number: write a.add(b) instead of a + b, and where(a.less(b), c, d)");
  }
  pow(exponent) { return add("pow", [this], { exponent }); }
  clip(low, high) { return add("clip", [this], { low, high }); }
  where(chosen, other) { return add("where", [this, chosen, other]); }
  reshape(shape) { return add("reshape", [this], { shape }); }
  transpose(axes) { return add("transpose", [this], { axes: listOf(axes) }); }
  flip(axes) { return add("flip", [this], { axes: listOf(axes) }); }
  slice(begin, size) { return add("slice", [this], { begin, size }); }
  pad(sizes, value = 0) {
    return add("pad", [this], { before: borders(sizes, 0), after: borders(sizes, 1), value });
  }
  shift(amounts, fill = 0) { return add("shift", [this, ...amounts], { fill }); }
}
for (const op of ["neg", "abs", "square", "sqrt", "exp", "log", "sigmoid", "tanh", "relu", "softplus", "softmax",
  "logSoftmax"])
  Tensor.prototype[op] = function () { return add(op, [this]); };
for (const op of ["add", "sub", "mul", "div", "maximum", "minimum", "less", "lessEqual", "greater", "greaterEqual",
  "equal", "matMul", "rotate90"])
  Tensor.prototype[op] = function (other) { return add(op, [this, other]); };
for (const op of ["sum", "mean", "max", "min"])
  Tensor.prototype[op] = function (axes) { return add(op, [this], { axes: listOf(axes) }); };
export const constant = (values, shape = Array.isArray(values) ? [values.length] : []) =>
  add("constant", [], { values: listOf(values), shape });
export const where = (condition, chosen, other) => add("where", [condition, chosen, other]);
export const concatenate = (tensors, axis = -1) => add("concatenate", tensors, { axis });
const stream = Object.freeze({
  uniform: (shape = []) => add("uniform", [], { shape }),
  normal: (shape = []) => add("normal", [], { shape }),
  integer: (below) => add("integer", [], { below }),
});
const written = (result) => ({ output: indexOf(result), operations });
const begin = (count) => {
  inputs = count;
  operations = [];
  return Array.from({ length: count }, (_, index) => new Tensor(index));
};
export const writeLoss = (loss, { count, ...given }) => {
  const all = begin(2 * count);
  const each = (tensors) => count === 1 ? tensors[0] : tensors;
  return written(loss(each(all.slice(0, count)), each(all.slice(count)), given));
};
export const writeAugmentation = (augment, given) => {
  const [sample] = begin(1);
  return written(augment(sample, stream, given));
};
`;
