/**
 * How many bytes of the weights an answer needs (ModelHub's figure 6(d)). The engine trains networks here
 * (LeNet-5 and deeper ones), and they answer for MNIST test images that the training has not seen (generated
 * images when STEMMA_DATA has none): the first class and the first five, with the bytes in IEEE 754's order
 * and in fixed planes. Every answer is compared with the full-precision one. Asserts nothing; `-o json` prints
 * JSON.
 *
 *   node dist/test/bench/progressive.bench.js [-o json] [--quick] [--svg FILE]
 */
import { existsSync } from "node:fs";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { parseArgs } from "node:util";
import {
  evaluateProgressively,
  type ProgressiveReport,
} from "../../server/learning/progressive/progressive-evaluation.js";
import { fixedReader, storedReader } from "../../server/learning/progressive/weight-reader.js";
import { loadDeltaCodec } from "../../shared/delta/load.js";
import { renderTable } from "../../shared/cli/table.js";
import { nodeFiles } from "../../shared/files/node-files.js";
import type { Architecture } from "../../shared/model/model.js";
import { fileOfBytes, readSafetensors } from "../../shared/tensor/safetensors.js";
import { tensorOfSource, type Tensor } from "../../shared/tensor/tensor.js";
import type { SampleSet } from "../../shared/train/datasets/dataset.js";
import { loadDataset } from "../../shared/train/datasets/registry.js";
import { trainInChild } from "../../shared/train/train-in-child.js";
import { evaluateInChild } from "../../shared/train/evaluate-in-child.js";
import { outputsFile } from "../../shared/train/evaluation-job.js";
import type { Parameters } from "../../shared/train/recipes/recipe.js";
import { jobFormat, type DatasetReference } from "../../shared/train/training.js";
import { keepHighestPlanes } from "../helpers/random-network.js";
import { shareChart, type SharePanel } from "./progressive-chart.js";

const { values: options } = parseArgs({
  options: {
    output: { type: "string", short: "o", default: "table" },
    quick: { type: "boolean", default: false },
    svg: { type: "string" },
  },
});
const isQuick = options.quick;
const tops = [1, 5];
const mnistFolder = resolve(process.env["STEMMA_DATA"] ?? "../shared/data", "mnist");
const dataset: DatasetReference = existsSync(join(mnistFolder, "t10k-images-idx3-ubyte.gz"))
  ? { reader: "mnist", parameters: {}, location: mnistFolder }
  : { reader: "images-generated", parameters: { count: isQuick ? 1200 : 5000 } };

const codec = await loadDeltaCodec();

interface Network {
  readonly name: string;
  readonly recipe: string;
  readonly parameters: Parameters;
  readonly samples: number;
}
const networks: readonly Network[] = [
  {
    name: "LeNet-5",
    recipe: "image-classify",
    parameters: { model: "lenet-5", epochs: isQuick ? 2 : 10 },
    samples: isQuick ? 100 : 500,
  },
  {
    name: "VGG-8",
    recipe: "image-classify",
    parameters: { model: "vgg-8", filters: 8, epochs: isQuick ? 1 : 6, shiftPixels: 0 },
    samples: isQuick ? 10 : 40,
  },
  // Too deep for tight bounds: the benchmark shows how little they are worth there.
  ...(isQuick
    ? []
    : [
        {
          name: "LeNet (Caffe)",
          recipe: "image-classify",
          parameters: { model: "lenet-caffe", epochs: 6 },
          samples: 50,
        },
        { name: "MobileNetV2 0.35", recipe: "image-mobilenet", parameters: { epochs: 1 }, samples: 5 },
      ]),
];

interface Measured {
  readonly network: string;
  readonly parameters: number;
  readonly accuracy: number;
  readonly layout: "ieee" | "fixed";
  readonly layoutBytes: number;
  readonly rawBytes: number;
  readonly samples: number;
  readonly msPerSample: number;
  readonly levels: ProgressiveReport["levels"];
  readonly equal: boolean;
}

async function tensorsOf(path: string): Promise<readonly Tensor[]> {
  const read = await readSafetensors(fileOfBytes(new Uint8Array(await readFile(path))), path);
  // The engine writes leaves in canonical order, so the file's order is the architecture's.
  return Promise.all(read.tensors.map((entry) => tensorOfSource(read.source(entry))));
}

async function measure(network: Network, set: SampleSet, work: string): Promise<Measured[]> {
  const report = (text: string): void => {
    process.stderr.write(`${network.name}: ${text}\n`);
  };
  report("training");
  const { result, architecture, modelFile, folder } = await trainInChild(
    {
      format: jobFormat,
      recipe: network.recipe,
      parameters: network.parameters,
      dataset,
      seed: "1",
      invocation: 0,
    },
    { workFolder: join(work, "train") },
  );
  const tensors = await tensorsOf(modelFile);
  const count = Math.min(network.samples, set.heldOut.count);
  const size = set.heldOut.inputs.length / set.heldOut.count;
  await evaluateInChild(
    { format: jobFormat, dataset, base: { folder }, evaluate: { limit: count, outputs: true } },
    { workFolder: join(work, "evaluate") },
  );
  const bytes = await readFile(join(work, "evaluate/result", outputsFile));
  const outputs = new Float32Array(bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength));
  const measured: Measured[] = [];
  for (const layout of ["ieee", "fixed"] as const) {
    report(`bounds over ${count} samples, ${layout}`);
    const started = performance.now();
    const evaluation = await evaluate(
      { architecture, tensors },
      { inputs: set.heldOut.inputs.subarray(0, count * size), count, outputs },
      layout,
    );
    measured.push({
      network: network.name,
      parameters: tensors.reduce((sum, { shape }) => sum + shape.reduce((a, b) => a * b, 1), 0),
      accuracy: result.metric!.after,
      layout,
      layoutBytes: evaluation.totalBytes,
      rawBytes: tensors.reduce((sum, tensor) => sum + tensor.bytes.length, 0),
      samples: count,
      msPerSample: (performance.now() - started) / count,
      levels: evaluation.levels,
      equal: evaluation.tops.every(({ equal }) => equal === true),
    });
  }
  return measured;
}

interface TrainedModel {
  readonly architecture: Architecture;
  readonly tensors: readonly Tensor[];
}
/** Samples with the full-precision outputs that their answers are compared with. */
interface AnsweredSamples {
  readonly inputs: Float32Array;
  readonly count: number;
  readonly outputs: Float32Array;
}
function evaluate(
  { architecture, tensors }: TrainedModel,
  { inputs, count, outputs }: AnsweredSamples,
  layout: Measured["layout"],
): Promise<ProgressiveReport> {
  const width = outputs.length / count;
  return evaluateProgressively({
    architecture,
    inputs,
    count,
    tops,
    compare: true,
    weights:
      layout === "fixed"
        ? fixedReader(tensors, codec)
        : storedReader(tensors, {
            storedBytes: (leaf) => tensors[leaf]!.bytes.length,
            readHighPlanes: (leaf, planes) => {
              const tensor = tensors[leaf]!.bytes;
              return Promise.resolve({
                bytes: keepHighestPlanes(tensor, planes),
                readBytes: (tensor.length * planes) / 4,
              });
            },
            readFixedPlanes: () => Promise.resolve(undefined),
          }),
    forward: (samples) =>
      Promise.resolve(
        Float32Array.from(
          samples.flatMap((sample) => [...outputs.subarray(sample * width, (sample + 1) * width)]),
        ),
      ),
  });
}

const { set } = await loadDataset(dataset, nodeFiles());
const work = await mkdtemp(join(tmpdir(), "stemma-progressive-"));
const measured: Measured[] = [];
try {
  for (const network of networks) measured.push(...(await measure(network, set, work)));
} finally {
  await rm(work, { recursive: true, force: true });
}

const openShare = ({ levels, samples }: Measured, level: number, top: number): number => {
  // A level that no sample needed leaves nothing open.
  const open = levels.find((each) => each.level === level)?.tops.find((each) => each.top === top)?.open ?? 0;
  return (100 * open) / samples;
};
if (options.svg !== undefined) {
  const panels = [...new Set(measured.map(({ network }) => network))].map((network): SharePanel => ({
    title: `${network} (${measured.find((each) => each.network === network)!.samples} pictures)`,
    series: measured
      .filter((each) => each.network === network)
      .flatMap((each) =>
        tops.map((top) => ({
          name: `${each.layout === "ieee" ? "IEEE order" : "fixed planes"}, top-${top}`,
          isDashed: each.layout === "ieee",
          points: each.levels.map(({ level, dataShare }) => ({
            data: (100 * dataShare * each.layoutBytes) / each.rawBytes,
            open: openShare(each, level, top),
          })),
        })),
      ),
  }));
  await writeFile(options.svg, shareChart("Inputs that need lower-order bytes, over the bytes read", panels));
}
if (options.output === "json")
  process.stdout.write(`${JSON.stringify({ dataset: dataset.reader, tops, measured }, null, 2)}\n`);
else {
  process.stdout.write(
    `Inputs left open, in per cent, after 1, 2 and 3 bytes of each weight (${dataset.reader}); in brackets the bytes known then, in per cent of the raw weights\n`,
  );
  const cell = (row: Measured, level: number): string =>
    `${tops.map((top) => openShare(row, level, top).toFixed(1)).join(" / ")}${row.levels
      .filter((each) => each.level === level)
      .map(({ dataShare }) => ` (${((100 * dataShare * row.layoutBytes) / row.rawBytes).toFixed(0)})`)
      .join("")}`;
  process.stdout.write(
    `${renderTable(measured, [
      { title: "NETWORK", value: ({ network }) => network },
      { title: "PARAMETERS", value: ({ parameters }) => parameters, align: "right" },
      { title: "ACCURACY", value: ({ accuracy }) => `${accuracy.toFixed(2)} %`, align: "right" },
      { title: "LAYOUT", value: ({ layout }) => layout },
      {
        title: "OF RAW",
        value: ({ layoutBytes, rawBytes }) => `${((100 * layoutBytes) / rawBytes).toFixed(1)} %`,
        align: "right",
      },
      { title: "PICTURES", value: ({ samples }) => samples, align: "right" },
      ...[1, 2, 3].map((level) => ({
        title: `${level}: TOP-1 / TOP-5`,
        value: (row: Measured) => cell(row, level),
        align: "right" as const,
      })),
      { title: "MS EACH", value: ({ msPerSample }) => msPerSample.toFixed(0), align: "right" },
      { title: "EQUAL", value: ({ equal }) => (equal ? "yes" : "NO") },
    ])}\n`,
  );
}
