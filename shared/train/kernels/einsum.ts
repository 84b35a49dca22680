/**
 * Einsum on wasm (attention layers), which tfjs 4.22 lacks there, and its gradient, which it lacks
 * everywhere. Sums of one or two operands become one batched matrix product of rearranged operands.
 */
import type { Tensor } from "@tensorflow/tfjs";
import { StemmaError } from "../../errors.js";
import type { KernelFunction, KernelRegistry, TensorInfo } from "./kernel-registry.js";

/** "ab,bc->ac" taken apart. */
export interface Equation {
  readonly operands: readonly string[];
  readonly output: string;
}

/**
 * Parses an equation with an explicit or (by tfjs's rule: the letters that occur once, sorted) implicit
 * output.
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
  const fine =
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
  if (!fine)
    throw new StemmaError(
      "SHAPE_INVALID",
      `the equation "${text.slice(0, 100)}" cannot be summed here: it takes one or two operands whose letters differ and match their ranks (${ranks.join(", ")})`,
    );
  return { operands, output };
}

/** Registers Einsum for the wasm backend, with its gradient. */
export function registerEinsum(room: KernelRegistry): void {
  const { tf } = room;
  room.kernel<Record<string, TensorInfo>, { equation: string }>("Einsum", ({ inputs, attrs }) => {
    const operands = Object.keys(inputs).map((key) => inputs[key]!);
    const equation = parseEquation(
      attrs.equation,
      operands.map(({ shape }) => shape.length),
    );
    return contract(room, equation, operands);
  });
  room.gradient({
    kernelName: "Einsum",
    saveAllInputs: true,
    gradFunc: (dy, saved, attrs) => {
      const { equation } = attrs as unknown as { equation: string };
      const { operands, output } = parseEquation(
        equation,
        saved.map(({ rank }) => rank),
      );
      return Object.fromEntries(
        saved.map((own, i) => [
          String(i),
          () => gradientOf(tf, dy as Tensor, own, i, { operands, output }, saved),
        ]),
      );
    },
  });
}

/**
 * dy contracted with the other operand; letters that only this operand had were summed away, so they are
 * spread again.
 */
function gradientOf(
  tf: KernelRegistry["tf"],
  dy: Tensor,
  own: Tensor,
  i: number,
  { operands, output }: Equation,
  all: readonly Tensor[],
): Tensor {
  const letters = operands[i]!;
  const other = operands[1 - i];
  const otherTensor = all[1 - i];
  const kept = [...letters].filter((letter) => output.includes(letter) || other?.includes(letter)).join("");
  const reached =
    otherTensor && other !== undefined
      ? tf.einsum(`${output},${other}->${kept}`, dy, otherTensor)
      : tf.einsum(`${output}->${kept}`, dy);
  return reached
    .reshape([...letters].map((letter, d) => (kept.includes(letter) ? own.shape[d]! : 1)))
    .broadcastTo(own.shape);
}

/** A tensor with a letter for each dimension. */
interface Labelled {
  readonly info: TensorInfo;
  readonly letters: string;
}

function contract(
  room: KernelRegistry,
  { operands, output }: Equation,
  infos: readonly TensorInfo[],
): TensorInfo {
  const { backend, tf } = room;
  const scope: TensorInfo[] = [];
  const call = (name: string, inputs: Record<string, TensorInfo>, attrs: object): TensorInfo => {
    const kernel: KernelFunction | undefined = room.stockKernel(name);
    if (!kernel)
      throw new StemmaError(
        "OPERATION_MISSING",
        `the wasm backend has no kernel ${name}, which einsum needs: the installed TensorFlow.js is not the one this version was built for`,
      );
    const out = kernel({ inputs, backend, attrs: attrs as never }) as TensorInfo;
    scope.push(out);
    return out;
  };
  const arrange = ({ info, letters }: Labelled, order: string): TensorInfo =>
    letters === order
      ? info
      : call("Transpose", { x: info }, { perm: [...order].map((letter) => letters.indexOf(letter)) });
  const reshape = (info: TensorInfo, shape: number[]): TensorInfo => call("Reshape", { x: info }, { shape });
  const labelled = operands.map((letters, i): Labelled => {
    const elsewhere = output + operands.filter((_, j) => j !== i).join("");
    const lonely = [...letters].flatMap((letter, d) => (elsewhere.includes(letter) ? [] : [d]));
    const kept = [...letters].filter((letter) => elsewhere.includes(letter)).join("");
    return lonely.length === 0
      ? { info: infos[i]!, letters }
      : { info: call("Sum", { x: infos[i]! }, { axis: lonely, keepDims: false }), letters: kept };
  });
  const sizes = new Map<string, number>();
  labelled.forEach(({ info, letters }) =>
    [...letters].forEach((letter, d) => {
      const known = sizes.get(letter) ?? info.shape[d]!;
      if (known !== info.shape[d])
        throw new StemmaError(
          "SHAPE_INVALID",
          `einsum: the letter ${letter} stands for ${known} in one operand and ${info.shape[d]} in the other`,
        );
      sizes.set(letter, known);
    }),
  );
  const [a, b] = labelled as [Labelled, Labelled?];
  let result: Labelled = a;
  if (b) {
    const both = [...a.letters].filter((letter) => b.letters.includes(letter));
    const batch = both.filter((letter) => output.includes(letter)).join("");
    const inner = both.filter((letter) => !output.includes(letter)).join("");
    const left = [...a.letters].filter((letter) => !b.letters.includes(letter)).join("");
    const right = [...b.letters].filter((letter) => !a.letters.includes(letter)).join("");
    const size = (letters: string): number =>
      tf.util.sizeFromShape([...letters].map((letter) => sizes.get(letter)!));
    const product = call(
      "BatchMatMul",
      {
        a: reshape(arrange(a, batch + left + inner), [size(batch), size(left), size(inner)]),
        b: reshape(arrange(b, batch + inner + right), [size(batch), size(inner), size(right)]),
      },
      { transposeA: false, transposeB: false },
    );
    const letters = batch + left + right;
    result = {
      info: reshape(
        product,
        [...letters].map((letter) => sizes.get(letter)!),
      ),
      letters,
    };
  }
  const out = arrange(result, output);
  backend.incRef(out.dataId);
  for (const info of scope) backend.disposeData(info.dataId);
  return { dataId: out.dataId, shape: out.shape, dtype: out.dtype };
}
