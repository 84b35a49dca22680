/**
 * Computes a tensor expression for a batch: every tensor has the axis of the batch before its own. All arithmetic is
 * that of the engine's kernels, so it has the same bits on every machine.
 */
import { StemmaError } from "../../errors.js";
import type { Stream } from "../../random/streams.js";
import type { TensorFlow, TfTensor } from "../tensorflow.js";
import { sizeOf, type Expression, type Shape } from "./check-expression.js";
import { shifted, turned, type Samples } from "./moved-samples.js";
import type { BinaryName, Operation, ReductionName, UnaryName } from "./operations.js";

export interface ExpressionInputs {
  /** [batch, …shape] for each input of the expression. */
  readonly tensors: readonly TfTensor[];
  readonly batch: number;
  /** The stream of an expression that draws. */
  readonly stream?: Stream | undefined;
}

/** Returns the result, [batch, …shape]. Call it in a tidy: it leaves what it computed on the way to that. */
export function evaluateExpression(
  tf: TensorFlow,
  expression: Expression,
  { tensors, batch, stream }: ExpressionInputs,
): TfTensor {
  const drawn = stream === undefined ? [] : drawAll(expression, batch, stream);
  const values = [...tensors];
  expression.operations.forEach((operation, index) => {
    const shape = expression.shapes[index] as Shape;
    const from = operation.from.map((at) => values[at] as TfTensor);
    const numbers = drawn[index];
    values.push(
      numbers === undefined
        ? new Computation(tf, shape, batch).run(operation, from)
        : tf.tensor(numbers, [batch, ...shape]),
    );
  });
  const result = values[expression.output] as TfTensor;
  return spreadTo(tf, result, [batch, ...result.shape.slice(1)]);
}

/** Draws the numbers of each operation that draws: all of the first sample, then those of the next. */
function drawAll(
  { operations, shapes }: Expression,
  batch: number,
  stream: Stream,
): readonly (Float32Array | undefined)[] {
  const lengths = shapes.map(sizeOf);
  const draws = operations.map(drawOf);
  const all = draws.map((draw, index) => draw && new Float32Array(batch * (lengths[index] as number)));
  for (let sample = 0; sample < batch; sample++)
    draws.forEach((draw, index) => {
      const length = lengths[index] as number;
      const numbers = all[index];
      if (draw === undefined || numbers === undefined) return;
      for (let at = sample * length; at < (sample + 1) * length; at++) numbers[at] = draw(stream);
    });
  return all;
}

function drawOf(operation: Operation): ((stream: Stream) => number) | undefined {
  switch (operation.op) {
    case "uniform":
      return (stream) => stream.uniform();
    case "normal":
      return (stream) => stream.normal();
    case "integer":
      return (stream) => stream.integer(operation.below);
    default:
      return undefined;
  }
}

/** The tensor with its axes of 1 repeated. A product, because its gradient sums for tensors of any rank. */
function spreadTo(tf: TensorFlow, tensor: TfTensor, shape: readonly number[]): TfTensor {
  const aligned = withRank(tf, tensor, shape.length);
  return aligned.shape.join() === shape.join() ? aligned : tf.mul(aligned, tf.ones([...shape]));
}

/** The tensor with axes of 1 between that of the batch and its own, so that it has this rank. */
function withRank(tf: TensorFlow, tensor: TfTensor, rank: number): TfTensor {
  const [batch = 1, ...own] = tensor.shape;
  return own.length + 1 === rank
    ? tensor
    : tf.reshape(tensor, [batch, ...new Array<number>(rank - 1 - own.length).fill(1), ...own]);
}

/** One operation on a batch. */
class Computation {
  constructor(
    private readonly tf: TensorFlow,
    /** The shape of what it gives, for one sample. */
    private readonly shape: Shape,
    private readonly batch: number,
  ) {}

  run(operation: Operation, from: readonly TfTensor[]): TfTensor {
    const { tf } = this;
    const [first, second] = from as readonly [TfTensor, TfTensor];
    switch (operation.op) {
      case "pow":
        return this.#power(first, operation.exponent);
      case "clip":
        return tf.clipByValue(first, Math.fround(operation.low), Math.fround(operation.high));
      case "where": {
        const [condition, chosen, other] = this.#alike(from);
        return tf.where(
          tf.notEqual(condition as TfTensor, tf.zerosLike(condition as TfTensor)),
          chosen as TfTensor,
          other as TfTensor,
        );
      }
      case "sum":
      case "mean":
      case "max":
      case "min":
        return this.#reduced(operation.op, first, operation.axes);
      case "matMul": {
        const batch = Math.max(...from.map(({ shape }) => shape[0] ?? 1));
        const [a, b] = from.map((tensor) => spreadTo(tf, tensor, [batch, ...tensor.shape.slice(1)]));
        return tf.matMul(a as TfTensor, b as TfTensor);
      }
      case "reshape":
        return tf.reshape(first, [first.shape[0] ?? 1, ...operation.shape]);
      case "transpose":
        return tf.transpose(first, [0, ...operation.axes.map((axis) => axis + 1)]);
      case "flip":
        return tf.reverse(
          first,
          operation.axes.map((axis) => axis + 1),
        );
      case "slice":
        return tf.slice(first, [0, ...operation.begin], [-1, ...operation.size]);
      case "pad":
        return tf.pad(
          first,
          [
            [0, 0],
            ...operation.before.map(
              (size, axis) => [size, operation.after[axis] as number] as [number, number],
            ),
          ],
          Math.fround(operation.value),
        );
      case "concatenate": {
        const batch = Math.max(...from.map(({ shape }) => shape[0] ?? 1));
        return tf.concat(
          from.map((tensor) => spreadTo(tf, tensor, [batch, ...tensor.shape.slice(1)])),
          operation.axis + 1,
        );
      }
      case "constant":
        return tf.tensor(Float32Array.from(operation.values), [1, ...operation.shape]);
      case "shift":
      case "rotate90":
        return this.#moved(operation, from);
      case "uniform":
      case "normal":
      case "integer":
        throw new Error(`${operation.op} draws, and no stream was given`);
      default:
        return from.length === 1
          ? this.#unary(operation.op as UnaryName, first)
          : this.#binary(operation.op as BinaryName, first, second);
    }
  }

  /** The tensors with the shape of the result; all with the batch where one has it. */
  #alike(tensors: readonly TfTensor[]): TfTensor[] {
    const batch = Math.max(...tensors.map(({ shape }) => shape[0] ?? 1));
    return tensors.map((tensor) => spreadTo(this.tf, tensor, [batch, ...this.shape]));
  }

  #unary(name: UnaryName, x: TfTensor): TfTensor {
    const { tf } = this;
    // −log σ(−x) as the built-in losses have it: an exponential of what is never above 0.
    if (name === "softplus") return tf.add(tf.relu(x), tf.log(tf.add(tf.exp(tf.neg(tf.abs(x))), 1)));
    return tf[name](x);
  }

  #binary(name: BinaryName, a: TfTensor, b: TfTensor): TfTensor {
    const { tf } = this;
    switch (name) {
      // The gradients of these sum over what was repeated.
      case "add":
      case "sub":
      case "mul":
      case "div":
        return tf[name](withRank(tf, a, this.shape.length + 1), withRank(tf, b, this.shape.length + 1));
      case "maximum":
      case "minimum": {
        const [one, other] = this.#alike([a, b]);
        return tf[name](one as TfTensor, other as TfTensor);
      }
      default: {
        const [one, other] = this.#alike([a, b]);
        return tf.cast(tf[name](one as TfTensor, other as TfTensor), "float32");
      }
    }
  }

  #reduced(name: ReductionName, x: TfTensor, axes: readonly number[] | undefined): TfTensor {
    const chosen = axes?.map((axis) => axis + 1) ?? x.shape.slice(1).map((_, axis) => axis + 1);
    return chosen.length === 0 ? x : this.tf[name](x, chosen);
  }

  /** The gradient of a general power has 0 · ∞ where the exponent is 0 or 1. */
  #power(x: TfTensor, exponent: number): TfTensor {
    const { tf } = this;
    if (exponent === 0) return tf.add(tf.mul(x, 0), 1);
    if (exponent === 1) return x;
    if (exponent === 2) return tf.square(x);
    return tf.pow(x, tf.fill(x.shape, Math.fround(exponent)));
  }

  #moved(operation: Extract<Operation, { op: "shift" | "rotate90" }>, from: readonly TfTensor[]): TfTensor {
    const { tf, batch, shape } = this;
    const [sample, ...amounts] = from as readonly [TfTensor, ...TfTensor[]];
    const samples: Samples = {
      values: spreadTo(tf, sample, [batch, ...shape]).dataSync<"float32">(),
      shape,
    };
    const numbers = amounts.map((amount) => wholeNumbers(operation.op, amount));
    const moved =
      operation.op === "shift"
        ? shifted(samples, numbers, Math.fround(operation.fill))
        : turned(samples, numbers[0] as Float32Array);
    return tf.tensor(moved, [batch, ...shape]);
  }
}

function wholeNumbers(op: string, amount: TfTensor): Float32Array {
  const numbers = amount.dataSync<"float32">();
  const wrong = numbers.find((number) => !Number.isSafeInteger(number));
  if (wrong === undefined) return numbers;
  throw new StemmaError(
    "RECIPE_FAILED",
    `The recipe's augment() moves a sample by ${wrong} (${op}), which is not a whole number. Draw it with ` +
      "integer(), and run `stemma recipe check`.",
  );
}
