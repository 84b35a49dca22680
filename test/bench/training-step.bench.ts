/**
 * Times a training step and forward passes of MobileNetV2 on the wasm backend with one, two and four threads,
 * unfused, and by PyTorch where Python has it, in turn, each in a process of its own, and prints the ratios.
 * Unfused means TensorFlow.js's gradients with only those of our kernels that it lacks or computes wrongly.
 * PyTorch computes in one thread. Asserts nothing.
 *
 *   node dist/test/bench/training-step.bench.js [-o json] [--size 224] [--batch 4] [--steps 4] [--rounds 2]
 *   [--profile] [--python python3]
 */
import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { parseArgs, promisify } from "node:util";
import type { LayersModel, SymbolicTensor } from "@tensorflow/tfjs";
import { fuseActivations } from "../../shared/train/backends/fused-layers.js";
import { startWasmBackend } from "../../shared/train/backends/wasm.js";
import { sgdStep } from "../../shared/train/kernels/optimizer-step.js";
import { KernelThreads } from "../../shared/train/kernels/kernel-threads.js";
import type { Tf } from "../../shared/train/kernels/kernel-registry.js";

const { values: options } = parseArgs({
  options: {
    output: { type: "string", short: "o", default: "table" },
    size: { type: "string", default: "224" },
    batch: { type: "string", default: "4" },
    steps: { type: "string", default: "4" },
    rounds: { type: "string", default: "2" },
    only: { type: "string" },
    python: { type: "string", default: "python3" },
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
 * Milliseconds per image of each step in one process: by the clock, and of processor time, which other work
 * on the machine disturbs less.
 */
interface Times {
  readonly wall: number[];
  readonly processor: number[];
}
interface Measured {
  readonly step: Times;
  readonly forwardTraining: Times;
  readonly forwardEvaluation: Times;
  /** The part of a step's clock time in which only one thread can work. */
  readonly serial: number[];
}

const processorMs = (): number => {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1000;
};

function timesOf(run: () => void): Times {
  run();
  run();
  const times: Times = { wall: [], processor: [] };
  for (let i = 0; i < steps; i++) {
    const start = performance.now();
    const processorStart = processorMs();
    run();
    times.wall.push((performance.now() - start) / batch);
    times.processor.push((processorMs() - processorStart) / batch);
  }
  return times;
}

/** Adds up the time of work that threads share out. */
function timeSharedWork(): () => number {
  const run = Object.getOwnPropertyDescriptor(KernelThreads.prototype, "run")!.value as KernelThreads["run"];
  let total = 0;
  KernelThreads.prototype.run = function (call): void {
    const start = performance.now();
    run.call(this, call);
    if (call.parts.length > 1) total += performance.now() - start;
  };
  return () => total;
}

async function measure(fused: boolean, threads: number): Promise<Measured> {
  const sharedMs = timeSharedWork();
  const { tf, close } = await startWasmBackend({ fused, threads });
  const model = mobileNetV2(tf);
  if (fused) fuseActivations(model);
  const x = tf.randomUniform([batch, size, size, 3], 0, 1, "float32", 7);
  const y = tf.oneHot(tf.range(0, batch, 1, "int32"), 1000).toFloat();
  const weights = model.trainableWeights.map((weight) => weight.read() as ReturnType<typeof tf.variable>);
  const serial: number[] = [];
  const step = (): void => {
    const start = performance.now();
    const sharedBefore = sharedMs();
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
    serial.push((performance.now() - start - (sharedMs() - sharedBefore)) / batch);
  };
  const forward = (training: boolean): Times =>
    timesOf(() => {
      tf.tidy(() => {
        (model.apply(x, { training }) as typeof y).dataSync();
      });
    });
  const measured = {
    step: timesOf(step),
    forwardTraining: forward(true),
    forwardEvaluation: forward(false),
    serial: serial.slice(2),
  };
  if (options.profile) profileKernels(tf, step);
  close();
  return measured;
}

const median = (values: readonly number[]): number => [...values].sort((a, b) => a - b)[values.length >> 1]!;

const variants = ["unfused", "1", "2", "4", "pytorch"] as const;
type Variant = (typeof variants)[number];

/** Whether Python can import PyTorch. */
async function hasTorch(): Promise<boolean> {
  try {
    await promisify(execFile)(options.python, ["-c", "import torch"]);
    return true;
  } catch {
    return false;
  }
}

const self = fileURLToPath(import.meta.url);
const torchScript = fileURLToPath(new URL("../../../test/bench/training-step-pytorch.py", import.meta.url));

async function measureInChild(variant: Variant): Promise<Measured> {
  const numbers = [size, batch, steps].map(String) as [string, string, string];
  const sizes = ["--size", numbers[0], "--batch", numbers[1], "--steps", numbers[2]];
  const [program, args] =
    variant === "pytorch"
      ? [options.python, [torchScript, ...numbers]]
      : [process.execPath, [self, "--only", variant, ...sizes]];
  const { stdout } = await promisify(execFile)(program, args, {
    env: { ...process.env, OMP_NUM_THREADS: "1" },
  });
  return JSON.parse(stdout) as Measured;
}

async function measureAll(): Promise<void> {
  const torch = await hasTorch();
  const results = new Map<Variant, Measured[]>();
  for (let round = 0; round < rounds; round++)
    for (const variant of variants) {
      if (variant === "pytorch" && !torch) continue;
      results.set(variant, [...(results.get(variant) ?? []), await measureInChild(variant)]);
    }
  const rows = [...results].map(([variant, all]) => {
    const medians = (pick: (one: Measured) => Times): { wall: number; processor: number } => ({
      wall: median(all.flatMap((one) => pick(one).wall)),
      processor: median(all.flatMap((one) => pick(one).processor)),
    });
    return {
      variant,
      step: medians(({ step }) => step),
      forwardTraining: medians(({ forwardTraining }) => forwardTraining),
      forwardEvaluation: medians(({ forwardEvaluation }) => forwardEvaluation),
      serial: median(all.flatMap(({ serial }) => serial)),
    };
  });
  const one = rows.find(({ variant }) => variant === "1")!;
  const two = rows.find(({ variant }) => variant === "2")!;
  const serialShare = two.serial / one.step.wall;
  if (options.output === "json") {
    console.log(JSON.stringify({ model: "MobileNetV2", size, batch, msPerImage: rows, serialShare }));
    return;
  }
  console.log(`MobileNetV2, ${size} px, batch ${batch}; milliseconds per image: clock / processor time`);
  const cell = ({ wall, processor }: { wall: number; processor: number }): string =>
    `${wall.toFixed(1)} / ${processor.toFixed(1)}`.padStart(16);
  console.log(
    `${"".padEnd(10)}${["training step", "forward, train", "forward, eval"].map((name) => name.padStart(16)).join("")}`,
  );
  for (const row of rows)
    console.log(
      `${nameOf(row.variant).padEnd(10)}${cell(row.step)}${cell(row.forwardTraining)}${cell(row.forwardEvaluation)}`,
    );
  console.log(
    `two threads take ${(two.step.wall / one.step.wall).toFixed(2)} of one thread's time (aim <= 0.60); serial share ${(serialShare * 100).toFixed(1)} %`,
  );
  const pytorch = rows.find(({ variant }) => variant === "pytorch");
  console.log(
    pytorch === undefined
      ? `PyTorch was not measured: \`${options.python} -c "import torch"\` does not work here`
      : `one thread against PyTorch's, processor time: step ${ratio(one.step, pytorch.step)} (aim 1.1), forward in training ${ratio(one.forwardTraining, pytorch.forwardTraining)} (aim 1.3), in evaluation ${ratio(one.forwardEvaluation, pytorch.forwardEvaluation)} (aim 1.3)`,
  );
}

function ratio(ours: { processor: number }, theirs: { processor: number }): string {
  return (ours.processor / theirs.processor).toFixed(2);
}

function nameOf(variant: Variant): string {
  return variant === "1" ? "1 thread" : /\d/.test(variant) ? `${variant} threads` : variant;
}

if (options.only === undefined) await measureAll();
else
  console.log(
    JSON.stringify(
      await measure(options.only !== "unfused", options.only === "unfused" ? 1 : Number(options.only)),
    ),
  );
