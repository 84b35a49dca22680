/**
 * Times a training step of MobileNetV2 on the wasm backend, fused and unfused, and with more threads,
 * alternately, each in child processes of its own, and prints the ratios. Unfused means TensorFlow.js's
 * gradients with only those of our kernels that it lacks or computes wrongly. Asserts nothing.
 *
 *   node dist/test/bench/training-step.bench.js [-o json] [--size 224] [--batch 4] [--steps 4] [--rounds 2]
 *   [--threads 1] [--profile]
 */
import { execFile } from "node:child_process";
import { availableParallelism } from "node:os";
import { fileURLToPath } from "node:url";
import { parseArgs, promisify } from "node:util";
import type { LayersModel, SymbolicTensor } from "@tensorflow/tfjs";
import { fuseActivations } from "../../shared/train/backends/fused-layers.js";
import { startWasmBackend } from "../../shared/train/backends/wasm.js";
import { sgdStep } from "../../shared/train/kernels/optimizer-step.js";
import type { Tf } from "../../shared/train/kernels/kernel-registry.js";

const { values: options } = parseArgs({
  options: {
    output: { type: "string", short: "o", default: "table" },
    size: { type: "string", default: "224" },
    batch: { type: "string", default: "4" },
    steps: { type: "string", default: "4" },
    rounds: { type: "string", default: "2" },
    only: { type: "string" },
    threads: { type: "string", default: "1" },
    profile: { type: "boolean", default: false },
    quick: { type: "boolean", default: false },
  },
});
const [size, batch, steps, rounds] = (
  options.quick ? [96, 2, 2, 1] : [options.size, options.batch, options.steps, options.rounds]
).map(Number) as [number, number, number, number];

/** MobileNetV2 1.0 with 1,000 classes, as its paper defines it. */
function mobileNetV2(tf: Tf): LayersModel {
  const { layers } = tf;
  const normalize = (x: SymbolicTensor): SymbolicTensor =>
    layers.batchNormalization({}).apply(x) as SymbolicTensor;
  const clip = (x: SymbolicTensor): SymbolicTensor =>
    layers.reLU({ maxValue: 6 }).apply(normalize(x)) as SymbolicTensor;
  const convolve = (
    x: SymbolicTensor,
    filters: number,
    kernelSize: number,
    strides: number,
  ): SymbolicTensor =>
    layers
      .conv2d({ filters, kernelSize, strides, padding: "same", useBias: false })
      .apply(x) as SymbolicTensor;
  const bottleneck = (
    x: SymbolicTensor,
    filters: number,
    strides: number,
    expansion: number,
  ): SymbolicTensor => {
    const channels = x.shape.at(-1)!;
    let y = expansion === 1 ? x : clip(convolve(x, channels * expansion, 1, 1));
    y = clip(
      layers
        .depthwiseConv2d({ kernelSize: 3, strides, padding: "same", useBias: false })
        .apply(y) as SymbolicTensor,
    );
    y = normalize(convolve(y, filters, 1, 1));
    return strides === 1 && channels === filters ? (layers.add().apply([x, y]) as SymbolicTensor) : y;
  };
  const input = tf.input({ shape: [size, size, 3] });
  let x = clip(convolve(input, 32, 3, 2));
  for (const [expansion, filters, repeats, strides] of [
    [1, 16, 1, 1],
    [6, 24, 2, 2],
    [6, 32, 3, 2],
    [6, 64, 4, 2],
    [6, 96, 3, 1],
    [6, 160, 3, 2],
    [6, 320, 1, 1],
  ] as const) {
    for (let i = 0; i < repeats; i++) x = bottleneck(x, filters, i === 0 ? strides : 1, expansion);
  }
  x = layers.globalAveragePooling2d({}).apply(clip(convolve(x, 1280, 1, 1))) as SymbolicTensor;
  return tf.model({ inputs: input, outputs: layers.dense({ units: 1000 }).apply(x) as SymbolicTensor });
}

/** Wraps every kernel in a timer, and prints a complete step's time and the kernels that take the most. */
function profileKernels(tf: Tf, step: () => void): void {
  const times = new Map<string, { calls: number; ms: number }>();
  const backend = tf.getBackend();
  for (const { kernelName, kernelFunc } of tf.getKernelsForBackend(backend)) {
    tf.unregisterKernel(kernelName, backend);
    tf.registerKernel({
      kernelName,
      backendName: backend,
      kernelFunc: (call) => {
        const start = performance.now();
        const result = kernelFunc(call);
        const entry = times.get(kernelName) ?? { calls: 0, ms: 0 };
        times.set(kernelName, { calls: entry.calls + 1, ms: entry.ms + performance.now() - start });
        return result;
      },
    });
  }
  step();
  times.clear();
  const start = performance.now();
  step();
  console.error(`complete step ${((performance.now() - start) / batch).toFixed(1)} ms per image`);
  for (const [name, { calls, ms }] of [...times].sort((a, b) => b[1].ms - a[1].ms).slice(0, 24))
    console.error(`${(ms / batch).toFixed(2).padStart(8)}  ${String(calls).padStart(5)}  ${name}`);
}

/**
 * Milliseconds per image of each step in this process: by the clock, and of processor time, which other work
 * on the machine disturbs less.
 */
interface Times {
  readonly wall: number[];
  readonly processor: number[];
}
const processorMs = (): number => {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1000;
};

async function measure(fused: boolean): Promise<Times> {
  const { tf, close } = await startWasmBackend({ fused, threads: Number(options.threads) });
  const model = mobileNetV2(tf);
  if (fused) fuseActivations(model);
  const x = tf.randomUniform([batch, size, size, 3], 0, 1, "float32", 7);
  const y = tf.oneHot(tf.range(0, batch, 1, "int32"), 1000).toFloat();
  const weights = model.trainableWeights.map((weight) => weight.read() as ReturnType<typeof tf.variable>);
  const step = (): void =>
    tf.tidy(() => {
      const { value, grads } = tf.variableGrads(
        () => tf.losses.softmaxCrossEntropy(y, model.apply(x, { training: true }) as typeof y),
        weights,
      );
      for (const weight of weights) {
        const { weight: next } = sgdStep(
          tf,
          { weight, gradient: grads[weight.name]! },
          { learningRate: 0.01 },
        );
        weight.assign(next);
      }
      value.dataSync();
    });
  step();
  step();
  const times: Times = { wall: [], processor: [] };
  for (let i = 0; i < steps; i++) {
    const start = performance.now();
    const processorStart = processorMs();
    step();
    times.wall.push((performance.now() - start) / batch);
    times.processor.push((processorMs() - processorStart) / batch);
  }
  if (options.profile) profileKernels(tf, step);
  close();
  return times;
}

const median = (values: readonly number[]): number => [...values].sort((a, b) => a - b)[values.length >> 1]!;

/** Numbers of threads to compare: as many as there are cores. */
const threadCounts = [1, 2, 4].filter((count) => count === 1 || count <= availableParallelism());

async function measureInChild(path: "fused" | "unfused", threads: number): Promise<Times> {
  const self = fileURLToPath(import.meta.url);
  const sizes = ["--size", String(size), "--batch", String(batch), "--steps", String(steps)];
  const { stdout } = await promisify(execFile)(process.execPath, [
    self,
    ...["--only", path, "--threads", String(threads)],
    ...sizes,
  ]);
  return JSON.parse(stdout) as Times;
}

/** The share of a step that runs on one thread, by Amdahl's law; `ratio`: the time with `threads` to that with one. */
const serialShare = (ratio: number, threads: number): number =>
  Math.max(0, (ratio - 1 / threads) / (1 - 1 / threads));

async function measureAll(): Promise<void> {
  const unfused: Times = { wall: [], processor: [] };
  const fused = new Map<number, Times>(threadCounts.map((count) => [count, { wall: [], processor: [] }]));
  const add = (times: Times, more: Times): void => {
    times.wall.push(...more.wall);
    times.processor.push(...more.processor);
  };
  for (let round = 0; round < rounds; round++) {
    add(unfused, await measureInChild("unfused", 1));
    for (const [threads, times] of fused) add(times, await measureInChild("fused", threads));
  }
  const one = fused.get(1)!;
  const [fusedMs, unfusedMs] = [median(one.wall), median(unfused.wall)];
  const [fusedProcessorMs, unfusedProcessorMs] = [median(one.processor), median(unfused.processor)];
  const threaded = [...fused].slice(1).map(([threads, times]) => {
    const ratio = median(times.wall) / fusedMs;
    return {
      threads,
      msPerImage: median(times.wall),
      processorMsPerImage: median(times.processor),
      ratioToOneThread: ratio,
      serialShare: serialShare(ratio, threads),
      samples: times,
    };
  });
  const result = {
    model: "MobileNetV2",
    size,
    batch,
    threads: 1,
    fusedMsPerImage: fusedMs,
    unfusedMsPerImage: unfusedMs,
    ratio: fusedMs / unfusedMs,
    fusedProcessorMsPerImage: fusedProcessorMs,
    unfusedProcessorMsPerImage: unfusedProcessorMs,
    processorRatio: fusedProcessorMs / unfusedProcessorMs,
    threaded,
    samples: { fused: one, unfused },
  };
  if (options.output === "json") {
    console.log(JSON.stringify(result));
    return;
  }
  const ms = (value: number): string => value.toFixed(1);
  console.log(
    `MobileNetV2, ${size} px, batch ${batch}, one thread: fused ${ms(fusedMs)} ms per image, ` +
      `unfused ${ms(unfusedMs)}, ratio ${result.ratio.toFixed(2)} (aim ≤ 0.60); processor time ` +
      `${ms(fusedProcessorMs)} and ${ms(unfusedProcessorMs)}, ratio ${result.processorRatio.toFixed(2)}`,
  );
  for (const { threads, msPerImage, ratioToOneThread, serialShare: serial } of threaded)
    console.log(
      `${threads} threads: ${ms(msPerImage)} ms per image, ${ratioToOneThread.toFixed(2)} of one thread's` +
        `${threads === 2 ? " (aim ≤ 0.60)" : ""}, which means that ${(serial * 100).toFixed(0)} % runs on one thread`,
    );
}

if (options.only) console.log(JSON.stringify(await measure(options.only === "fused")));
else await measureAll();
