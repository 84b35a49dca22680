/**
 * What low-rank predictions save on longer fine-tunes, over steps and over rank. The project's own trainer makes
 * them: an LSTM on NASA's battery cells and LeNet-5 on MNIST (generated data where STEMMA_DATA has none), each with
 * SGD and with Adam, from a base trained on other samples. One training gives all counts of steps, as its
 * checkpoints. Bits per parameter are exact and repeat on every machine. Asserts nothing; `-o json` prints JSON.
 *
 *   stemma bench long-fine-tunes [--steps 20,100,500,2000] [--chart FILE] [--quick] [-o json]
 */
import { existsSync } from "node:fs";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { renderTable } from "../../shared/cli/table.js";
import { encodingCodes } from "../../shared/delta/encoded.js";
import { loadDeltaCodec } from "../../shared/delta/load.js";
import { nodeFiles } from "../../shared/files/node-files.js";
import { fileOfBytes, readSafetensors } from "../../shared/tensor/safetensors.js";
import { tensorOfSource, type Tensor } from "../../shared/tensor/tensor.js";
import { loadDataset } from "../../shared/train/datasets/registry.js";
import type { Parameters } from "../../shared/train/recipes/recipe.js";
import { trainInChild } from "../../shared/train/train-in-child.js";
import { jobFormat, type DatasetReference } from "../../shared/train/training.js";
import { savingChart } from "./long-fine-tunes-chart.js";

const { values: options } = parseArgs({
  options: {
    output: { type: "string", short: "o", default: "table" },
    quick: { type: "boolean", default: false },
    steps: { type: "string" },
    chart: { type: "string" },
  },
});
const isQuick = options.quick;
const wantedSteps = (options.steps ?? (isQuick ? "20,50" : "20,100,500,2000")).split(",").map(Number);
const maxRanks = isQuick ? [4, 64] : [1, 2, 4, 8, 16, 32, 64];
const batchSize = 16;
const report = (text: string): void => void process.stderr.write(`${text}\n`);

interface Network {
  readonly name: string;
  readonly recipe: string;
  readonly base: DatasetReference;
  readonly child: DatasetReference;
  readonly parameters: Parameters;
  readonly baseEpochs: number;
  readonly rates: Readonly<Record<"sgd" | "adam", number>>;
}

const data = resolve(process.env["STEMMA_DATA"] ?? "../shared/data");
const cells = (...names: readonly string[]): DatasetReference["parameters"] => ({ cells: names });
const [batteries, digits] = [join(data, "nasa-battery"), join(data, "mnist")];
const hasBatteries = existsSync(batteries);
const hasDigits = existsSync(digits);
const networks: readonly Network[] = [
  {
    name: "LSTM",
    recipe: "battery-soh",
    base: hasBatteries
      ? { reader: "nasa-battery", parameters: cells("B0005", "B0006"), location: batteries }
      : { reader: "battery-simulated", parameters: {} },
    child: hasBatteries
      ? { reader: "nasa-battery", parameters: cells("B0007"), location: batteries }
      : { reader: "battery-simulated", parameters: { vehicle: 1 } },
    parameters: { units: 128 },
    baseEpochs: isQuick ? 2 : 30,
    rates: { sgd: 0.01, adam: 0.0001 },
  },
  {
    name: "LeNet-5",
    recipe: "image-classify",
    base: hasDigits
      ? { reader: "mnist", parameters: {}, location: digits }
      : { reader: "images-generated", parameters: {} },
    child: hasDigits
      ? { reader: "mnist", parameters: { vehicle: 1 }, location: digits }
      : { reader: "images-generated", parameters: { vehicle: 1 } },
    parameters: { model: "lenet-5" },
    baseEpochs: isQuick ? 1 : 3,
    rates: { sgd: 0.001, adam: 0.0001 },
  },
];

type Model = ReadonlyMap<string, Tensor>;

interface Trained {
  readonly steps: number;
  readonly model: Model;
}

export interface LongFineTune {
  readonly network: string;
  readonly optimizer: string;
  readonly steps: number;
  readonly parameters: number;
  /** Bits per parameter without low-rank predictions, and with them up to each rank. */
  readonly without: number;
  readonly byMaxRank: readonly { readonly maxRank: number; readonly bits: number }[];
  /** The highest rank that a tensor takes where all are allowed; 0: none takes factors. */
  readonly largestRank: number;
}

async function modelOf(path: string): Promise<Model> {
  const read = await readSafetensors(fileOfBytes(new Uint8Array(await readFile(path))), path);
  return new Map(
    await Promise.all(
      read.tensors.map(async (entry) => [entry.name, await tensorOfSource(read.source(entry))] as const),
    ),
  );
}

const training = { batchSize, patience: 0 };

/** Trains a base and, from it, up to the largest count of steps with each optimiser. */
async function fineTunes(network: Network, work: string): Promise<LongFineTune[]> {
  const { recipe, name } = network;
  report(`${name}: training the base`);
  const base = await trainInChild(
    {
      format: jobFormat,
      recipe,
      parameters: { ...network.parameters, ...training, epochs: network.baseEpochs },
      dataset: network.base,
      seed: "7",
      invocation: 0,
    },
    { workFolder: join(work, `${name}-base`) },
  );
  const { set } = await loadDataset(network.child, nodeFiles());
  const stepsPerEpoch = Math.ceil(set.train.count / batchSize);
  const epochs = Math.ceil(Math.max(...wantedSteps) / stepsPerEpoch);
  const from = await modelOf(base.modelFile);
  const measured: LongFineTune[] = [];
  for (const optimizer of ["sgd", "adam"] as const) {
    report(`${name}: fine-tuning with ${optimizer}, ${epochs * stepsPerEpoch} steps`);
    const { checkpoints } = await trainInChild(
      {
        format: jobFormat,
        recipe,
        parameters: {
          ...training,
          epochs,
          optimizer,
          learningRate: network.rates[optimizer],
          checkpointEveryEpochs: 1,
        },
        dataset: network.child,
        seed: "11",
        invocation: 0,
        base: { folder: dirname(base.modelFile) },
      },
      { workFolder: join(work, `${name}-${optimizer}`) },
    );
    const chosen = new Set(
      wantedSteps.map((wanted) =>
        checkpoints.reduce((best, each) =>
          Math.abs(each.iteration - wanted) < Math.abs(best.iteration - wanted) ? each : best,
        ),
      ),
    );
    for (const { iteration, file } of chosen) {
      report(`${name}, ${optimizer}, ${iteration} steps: encoding`);
      measured.push(
        measure({ network: name, optimizer }, from, { steps: iteration, model: await modelOf(file) }),
      );
    }
  }
  return measured;
}

const codec = await loadDeltaCodec();

function measure(
  of: Pick<LongFineTune, "network" | "optimizer">,
  base: Model,
  { steps, model }: Trained,
): LongFineTune {
  const tensors = [...model].map(([name, tensor]) => ({ tensor, base: base.get(name) }));
  const parameters = tensors.reduce((sum, { tensor }) => sum + tensor.bytes.length / 4, 0);
  let largestRank = 0;
  const bitsWith = (maxRank: number): number => {
    let bytes = 0;
    for (const { tensor, base: from } of tensors) {
      const encoded = codec.encodeTensor(
        tensor,
        tensor.bytes,
        { base: from },
        { lowRank: maxRank > 0, maxRank },
      );
      // One byte per tensor for its encoding's code.
      bytes += encoded.bytes.length + 1;
      // Flags and the split of the shape come before it, and no line through a previous model is given.
      if (encoded.code === encodingCodes.lowRank) largestRank = Math.max(largestRank, encoded.bytes[2]!);
    }
    return (8 * bytes) / parameters;
  };
  const without = bitsWith(0);
  const byMaxRank = maxRanks.map((maxRank) => ({ maxRank, bits: bitsWith(maxRank) }));
  return { ...of, steps, parameters, without, byMaxRank, largestRank };
}

const work = await mkdtemp(join(tmpdir(), "stemma-long-fine-tunes-"));
const measured: LongFineTune[] = [];
try {
  for (const network of networks) measured.push(...(await fineTunes(network, work)));
} finally {
  await rm(work, { recursive: true, force: true });
}
if (options.chart !== undefined) await writeFile(options.chart, savingChart(measured));
const savedShare = ({ without, byMaxRank }: LongFineTune, maxRank: number): number =>
  1 - byMaxRank.find((each) => each.maxRank === maxRank)!.bits / without;
if (options.output === "json")
  process.stdout.write(`${JSON.stringify({ hasBatteries, hasDigits, measured }, null, 2)}\n`);
else {
  process.stdout.write(
    "Bits per parameter given the base (32 raw), and what low-rank predictions save up to each rank\n",
  );
  process.stdout.write(
    `${renderTable(measured, [
      { title: "NETWORK", value: ({ network }) => network },
      { title: "OPTIMIZER", value: ({ optimizer }) => optimizer },
      { title: "STEPS", value: ({ steps }) => steps, align: "right" },
      { title: "WITHOUT", value: ({ without }) => without.toFixed(2), align: "right" },
      { title: "WITH", value: ({ byMaxRank }) => byMaxRank.at(-1)!.bits.toFixed(2), align: "right" },
      { title: "LARGEST RANK", value: ({ largestRank }) => largestRank, align: "right" },
      ...maxRanks.map((maxRank) => ({
        title: `RANK ≤ ${maxRank}`,
        value: (row: LongFineTune) => `${(100 * savedShare(row, maxRank)).toFixed(1)} %`,
        align: "right" as const,
      })),
    ])}\n`,
  );
}
