/**
 * Einsum (attention layers), which tfjs 4.22 lacks on wasm, and its gradient, which it lacks on every
 * backend. Two operands become one batched matrix product of transposed and reshaped operands.
 */
import type { Tensor } from "@tensorflow/tfjs";
import { StemmaError } from "../../errors.js";
import type { KernelFunction, KernelRegistry, TensorInfo } from "./kernel-registry.js";

/** A parsed equation: "ab,bc->ac" has the operands "ab" and "bc" and the output "ac". */
interface Equation {
  readonly operands: readonly string[];
  readonly output: string;
}

/**
 * Parses an equation. Without "->" the output is, as in tfjs, the letters that occur once, sorted.
 * @param ranks of the operands
 * @throws SHAPE_INVALID for repeated letters in one operand, ellipses, more than two operands
 */
export function parseEquation(text: string, ranks: readonly number[]): Equation {
  const [left = "", right] = text.replace(/\s/g, "").split("->") as [string, string?];
  const operands = left.split(",");
  const letters = operands.join("");
  const output =
    right ??
    [...new Set(letters)]
      .filter((letter) => letters.indexOf(letter) === letters.lastIndexOf(letter))
      .sort()
      .join("");
  const isSupported =
    operands.length <= 2 &&
    operands.length === ranks.length &&
    operands.every(
      (operand, i) =>
        /^[a-zA-Z]*$/.test(operand) &&
        operand.length === ranks[i] &&
        new Set(operand).size === operand.length,
    ) &&
    new Set(output).size === output.length &&
    [...output].every((letter) => letters.includes(letter));
  if (!isSupported)
    throw new StemmaError(
      "SHAPE_INVALID",
      `The einsum equation "${text.slice(0, 100)}" is not supported. Use one or two operands, each with as many different letters as its rank (${ranks.join(", ")}).`,
    );
  return { operands, output };
}

/** Registers Einsum for the wasm backend, with its gradient. */
export function registerEinsum(registry: KernelRegistry): void {
  const { tf } = registry;
  registry.kernel<Record<string, TensorInfo>, { equation: string }>("Einsum", ({ inputs, attrs }) => {
    const operands = Object.keys(inputs).map((key) => inputs[key]!);
    const equation = parseEquation(
      attrs.equation,
      operands.map(({ shape }) => shape.length),
    );
    return contract(registry, equation, operands);
  });
  registry.gradient({
    kernelName: "Einsum",
    saveAllInputs: true,
    gradFunc: (dy, saved, attrs) => {
      const { equation } = attrs as unknown as { equation: string };
      const parsed = parseEquation(
        equation,
        saved.map(({ rank }) => rank),
      );
      return Object.fromEntries(
        saved.map((_, index) => [
          String(index),
          () => gradientOf(tf, parsed, { dy: dy as Tensor, index, tensors: saved }),
        ]),
      );
    },
  });
}

/**
 * The gradient of one operand: dy contracted with the other operand. Letters that only this operand has were
 * summed over, so the gradient is broadcast along them.
 */
function gradientOf(
  tf: KernelRegistry["tf"],
  { operands, output }: Equation,
  { dy, index, tensors }: { dy: Tensor; index: number; tensors: readonly Tensor[] },
): Tensor {
  const { shape } = tensors[index]!;
  const letters = operands[index]!;
  const other = operands[1 - index];
  const otherTensor = tensors[1 - index];
  const kept = [...letters].filter((letter) => output.includes(letter) || other?.includes(letter)).join("");
  const contracted =
    otherTensor && other !== undefined
      ? tf.einsum(`${output},${other}->${kept}`, dy, otherTensor)
      : tf.einsum(`${output}->${kept}`, dy);
  return contracted
    .reshape([...letters].map((letter, d) => (kept.includes(letter) ? shape[d]! : 1)))
    .broadcastTo(shape);
}

/** A tensor with a letter for each dimension. */
interface Labelled {
  readonly info: TensorInfo;
  readonly letters: string;
}

/** Calls the stock kernels for one contraction, and disposes of what they made on the way. */
class StockKernels {
  readonly #intermediates: TensorInfo[] = [];

  constructor(private readonly registry: KernelRegistry) {}

  call(name: string, inputs: Record<string, TensorInfo>, attrs: object): TensorInfo {
    const { backend } = this.registry;
    const kernel: KernelFunction | undefined = this.registry.stockKernel(name);
    if (!kernel)
      throw new StemmaError(
        "OPERATION_MISSING",
        `The wasm backend has no kernel ${name}, which einsum needs. Install the TensorFlow.js version that this version of Stemma was built for.`,
      );
    const out = kernel({ inputs, backend, attrs: attrs as never }) as TensorInfo;
    this.#intermediates.push(out);
    return out;
  }

  /** Transposes a tensor so that its dimensions are in the order of the letters. */
  arrange({ info, letters }: Labelled, order: string): TensorInfo {
    if (letters === order) return info;
    return this.call("Transpose", { x: info }, { perm: [...order].map((letter) => letters.indexOf(letter)) });
  }

  reshape(info: TensorInfo, shape: number[]): TensorInfo {
    return this.call("Reshape", { x: info }, { shape });
  }

  /** Disposes of everything that was made except `result`, and returns it. */
  finish(result: TensorInfo): TensorInfo {
    const { backend } = this.registry;
    backend.incRef(result.dataId);
    for (const info of this.#intermediates) backend.disposeData(info.dataId);
    return { dataId: result.dataId, shape: result.shape, dtype: result.dtype };
  }
}

function contract(
  registry: KernelRegistry,
  { operands, output }: Equation,
  infos: readonly TensorInfo[],
): TensorInfo {
  const kernels = new StockKernels(registry);
  const labelled = operands.map((letters, i): Labelled => {
    const elsewhere = output + operands.filter((_, j) => j !== i).join("");
    return sumOver(kernels, { info: infos[i]!, letters }, elsewhere);
  });
  const sizes = sizesOf(labelled);
  const [a, b] = labelled as [Labelled, Labelled?];
  const result = b === undefined ? a : multiply(kernels, [a, b], output, sizes);
  return kernels.finish(kernels.arrange(result, output));
}

/** Sums over the letters that occur only in this operand. @param elsewhere all letters of the others */
function sumOver(kernels: StockKernels, { info, letters }: Labelled, elsewhere: string): Labelled {
  const summed = [...letters].flatMap((letter, d) => (elsewhere.includes(letter) ? [] : [d]));
  if (summed.length === 0) return { info, letters };
  return {
    info: kernels.call("Sum", { x: info }, { axis: summed, keepDims: false }),
    letters: [...letters].filter((letter) => elsewhere.includes(letter)).join(""),
  };
}

/** The size of each letter's dimension. @throws SHAPE_INVALID where the operands differ */
function sizesOf(labelled: readonly Labelled[]): ReadonlyMap<string, number> {
  const sizes = new Map<string, number>();
  labelled.forEach(({ info, letters }) =>
    [...letters].forEach((letter, d) => {
      const known = sizes.get(letter) ?? info.shape[d]!;
      if (known !== info.shape[d])
        throw new StemmaError(
          "SHAPE_INVALID",
          `In an einsum equation the letter ${letter} has size ${known} in one operand and ${info.shape[d]} in the other. Give both the same size.`,
        );
      sizes.set(letter, known);
    }),
  );
  return sizes;
}

/** Multiplies two operands as one batched matrix product. */
function multiply(
  kernels: StockKernels,
  [a, b]: readonly [Labelled, Labelled],
  output: string,
  sizes: ReadonlyMap<string, number>,
): Labelled {
  const both = [...a.letters].filter((letter) => b.letters.includes(letter));
  const batch = both.filter((letter) => output.includes(letter)).join("");
  const inner = both.filter((letter) => !output.includes(letter)).join("");
  const left = [...a.letters].filter((letter) => !b.letters.includes(letter)).join("");
  const right = [...b.letters].filter((letter) => !a.letters.includes(letter)).join("");
  const size = (letters: string): number =>
    [...letters].reduce((product, letter) => product * sizes.get(letter)!, 1);
  const product = kernels.call(
    "BatchMatMul",
    {
      a: kernels.reshape(kernels.arrange(a, batch + left + inner), [size(batch), size(left), size(inner)]),
      b: kernels.reshape(kernels.arrange(b, batch + inner + right), [size(batch), size(inner), size(right)]),
    },
    { transposeA: false, transposeB: false },
  );
  const letters = batch + left + right;
  const shape = [...letters].map((letter) => sizes.get(letter)!);
  return { info: kernels.reshape(product, shape), letters };
}
