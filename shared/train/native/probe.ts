/**
 * Probes a linked library in a process of its own: compares operations and gradients with the cpu backend, trains the
 * reference, and reports one line of JSON. A processor, driver or memory that does not suffice ends the process here.
 */
import type { Tensor } from "@tensorflow/tfjs";
import { messageOf } from "../../error-text.js";
import { isStemmaError } from "../../errors.js";
import { loadedLibraries } from "../../model/node-environment.js";
import { knownAnswer } from "../known-answer.js";
import type { Tf } from "../kernels/kernel-registry.js";
import { backendName, startNativeBackend } from "./start-native.js";

/** The report of a probe. */
export interface ProbeReport {
  /** The version that the library states. */
  readonly tensorflow: string;
  /** The largest difference of an operation or gradient to the cpu backend, against its largest number. */
  readonly worst: { readonly operation: string; readonly error: number };
  /** Operations and gradients that were compared. */
  readonly compared: number;
  readonly referenceTraining: string;
  readonly usesGpu: boolean;
  readonly peakBytes: number;
  /** Names of the libraries of the process, in the order in which they were loaded. */
  readonly loadOrder: readonly string[];
  /** Names of the backends of the process, the one that trains first. */
  readonly backendOrder: readonly string[];
}

/** Numbers from −1 to 1 by integer arithmetic, the same on every machine. */
function values(count: number, seed: number): Float32Array {
  let state = seed >>> 0;
  return Float32Array.from({ length: count }, () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 31 - 1;
  });
}

interface ProbeCase {
  readonly name: string;
  readonly shapes: readonly (readonly number[])[];
  readonly compute: (tf: Tf, inputs: readonly Tensor[]) => Tensor;
}

const image = [2, 9, 9, 3] as const;

/** The operations that the recipes' layers are made of. */
const cases: readonly ProbeCase[] = [
  {
    name: "matMul",
    shapes: [
      [7, 33],
      [33, 5],
    ],
    compute: (tf, [a, b]) => tf.matMul(a!, b!),
  },
  {
    name: "matMul transposed",
    shapes: [
      [33, 7],
      [5, 33],
    ],
    compute: (tf, [a, b]) => tf.matMul(a!, b!, true, true),
  },
  {
    name: "conv2d",
    shapes: [image, [3, 3, 3, 8]],
    compute: (tf, [x, f]) => tf.conv2d(x as never, f as never, 1, "same"),
  },
  {
    name: "conv2d by steps of 2",
    shapes: [image, [3, 3, 3, 8]],
    compute: (tf, [x, f]) => tf.conv2d(x as never, f as never, 2, "same"),
  },
  {
    name: "depthwiseConv2d",
    shapes: [image, [3, 3, 3, 1]],
    compute: (tf, [x, f]) => tf.depthwiseConv2d(x as never, f as never, 1, "same"),
  },
  { name: "maxPool", shapes: [image], compute: (tf, [x]) => tf.maxPool(x as never, 2, 2, "same") },
  { name: "avgPool", shapes: [image], compute: (tf, [x]) => tf.avgPool(x as never, 2, 2, "valid") },
  {
    name: "batchNorm",
    shapes: [image, [3], [3]],
    compute: (tf, [x, offset, scale]) => {
      const { mean, variance } = tf.moments(x!, [0, 1, 2]);
      return tf.batchNorm(x!, mean, variance, offset, scale, 1e-3);
    },
  },
  { name: "relu6", shapes: [[40]], compute: (tf, [x]) => tf.relu6(x!.mul(8)) },
  { name: "sigmoid and tanh", shapes: [[40]], compute: (tf, [x]) => tf.sigmoid(x!).mul(tf.tanh(x!)) },
  { name: "elu and selu", shapes: [[40]], compute: (tf, [x]) => tf.elu(x!).add(tf.selu(x!)) },
  { name: "softmax", shapes: [[6, 11]], compute: (tf, [x]) => tf.softmax(x!.mul(4)) },
  { name: "logSoftmax", shapes: [[6, 11]], compute: (tf, [x]) => tf.logSoftmax(x!.mul(4)) },
  { name: "mean and sum", shapes: [[6, 11, 3]], compute: (_, [x]) => x!.mean([0, 2]).add(x!.sum([0, 2])) },
  {
    name: "gather",
    shapes: [[9, 4]],
    compute: (tf, [x]) => tf.gather(x!, tf.tensor1d([3, 0, 3, 8], "int32")),
  },
  {
    name: "concat, slice and transpose",
    shapes: [
      [4, 6],
      [4, 2],
    ],
    compute: (tf, [a, b]) => tf.concat([a!, b!], 1).slice([1, 1], [2, 6]).transpose(),
  },
  {
    name: "sqrt and division",
    shapes: [[40], [40]],
    compute: (_, [a, b]) => a!.div(b!.square().add(0.1).sqrt()),
  },
];

/** Output and gradients of one case on the backend that is active. */
function resultsOf(tf: Tf, { shapes, compute }: ProbeCase): Float32Array[] {
  return tf.tidy(() => {
    const inputs = shapes.map((shape, i) =>
      tf.tensor(
        values(
          shape.reduce((a, b) => a * b, 1),
          11 + i,
        ),
        [...shape],
      ),
    );
    const output = compute(tf, inputs);
    const weights = tf.tensor(values(output.size, 5), output.shape);
    const gradients = tf.grads((...xs: Tensor[]) => compute(tf, xs).mul(weights).sum())(inputs);
    return [output, ...gradients].map((tensor) => tensor.dataSync<"float32">().slice());
  });
}

/** The largest difference, against the largest number; Infinity where one has a NaN that the other lacks. */
export function relativeError(actual: Float32Array, expected: Float32Array): number {
  if (actual.length !== expected.length) return Infinity;
  const largest = expected.reduce((most, value) => Math.max(most, Math.abs(value)), 1e-6);
  const worst = actual.reduce((most, value, i) => {
    const difference = Math.abs(value - (expected[i] as number));
    return Number.isNaN(difference) ? Infinity : Math.max(most, difference);
  }, 0);
  return worst / largest;
}

async function compareWithCpu(tf: Tf): Promise<Pick<ProbeReport, "worst" | "compared">> {
  const native = cases.map((each) => resultsOf(tf, each));
  await tf.setBackend("cpu");
  const errors = cases.flatMap((each, at) =>
    resultsOf(tf, each).map((expected, i) => ({
      operation: i === 0 ? each.name : `gradient ${i} of ${each.name}`,
      error: relativeError(native[at]?.[i] ?? new Float32Array(), expected),
    })),
  );
  await tf.setBackend(backendName);
  const worst = errors.reduce((a, b) => (b.error > a.error ? b : a));
  return { worst, compared: errors.length };
}

/** Prints the report, or a typed error as the engine does. */
export async function runProbe(folder: string): Promise<void> {
  try {
    const { tf, close } = await startNativeBackend({ folder });
    const { isUsingGpuDevice, binding } = tf.backend() as unknown as {
      readonly isUsingGpuDevice: boolean;
      readonly binding: { readonly TF_Version: string };
    };
    const report: ProbeReport = {
      tensorflow: binding.TF_Version,
      ...(await compareWithCpu(tf)),
      referenceTraining: await knownAnswer({ tf }),
      usesGpu: isUsingGpuDevice,
      // maxRSS is in KiB.
      peakBytes: 1024 * process.resourceUsage().maxRSS,
      loadOrder: loadedLibraries(),
      backendOrder: [
        backendName,
        ...Object.keys(tf.engine().registryFactory).filter((name) => name !== backendName),
      ],
    };
    close();
    process.stdout.write(`${JSON.stringify({ type: "probe", report })}\n`);
  } catch (error) {
    const code = isStemmaError(error) ? error.code : "INTERNAL";
    process.stdout.write(`${JSON.stringify({ type: "error", code, message: messageOf(error) })}\n`);
    process.exitCode = 1;
  }
}
