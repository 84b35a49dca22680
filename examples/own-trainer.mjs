// An external trainer that needs only Node: a linear model on the samples of a line.
// The agent runs it (agent.json, lines.<line>.trainer); docs/own-models.md describes the folders.
//   node own-trainer.mjs --new FILE INPUTS TARGETS    writes a new model to start from
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

function load(path) {
  const bytes = readFileSync(path);
  const dataStart = 8 + Number(bytes.readBigUInt64LE(0));
  const header = JSON.parse(bytes.subarray(8, dataStart));
  delete header.__metadata__;
  return Object.fromEntries(
    Object.entries(header).map(
      ([
        name,
        {
          shape,
          data_offsets: [from, to],
        },
      ]) => {
        const copy = Uint8Array.from(bytes.subarray(dataStart + from, dataStart + to));
        return [name, { shape, values: new Float32Array(copy.buffer) }];
      },
    ),
  );
}

function save(path, tensors) {
  const header = {};
  let offset = 0;
  for (const [name, { shape, values }] of Object.entries(tensors)) {
    header[name] = { dtype: "F32", shape, data_offsets: [offset, offset + values.byteLength] };
    offset += values.byteLength;
  }
  const text = Buffer.from(JSON.stringify(header));
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(text.length));
  writeFileSync(
    path,
    Buffer.concat([length, text, ...Object.values(tensors).map(({ values }) => Buffer.from(values.buffer))]),
  );
}

if (process.argv[2] === "--new") {
  const [file, inputs, targets] = process.argv.slice(3).map((text, at) => (at === 0 ? text : Number(text)));
  save(file, {
    bias: { shape: [targets], values: new Float32Array(targets) },
    weight: { shape: [targets, inputs], values: new Float32Array(targets * inputs) },
  });
  process.exit(0);
}

const input = process.env.STEMMA_INPUT;
const job = JSON.parse(readFileSync(join(input, "job.json"), "utf8"));
const model = load(join(input, job.base.model));
const [targetSize, length] = model.weight.shape;
const { epochs = 20, learningRate = 0.01 } = job.parameters;

function samplesOf(part) {
  const { inputs, targets } = load(join(input, job.samples[part].file));
  return Array.from({ length: job.samples[part].count }, (_, at) => ({
    x: inputs.values.subarray(at * length, (at + 1) * length),
    y: targets.values.subarray(at * targetSize, (at + 1) * targetSize),
  }));
}

/** What the model answers for one sample. */
function answer(x) {
  return Array.from(model.bias.values, (bias, target) =>
    x.reduce((sum, value, i) => sum + value * model.weight.values[target * length + i], bias),
  );
}

/** Root of the mean squared error. */
function error(samples) {
  const squares = samples.flatMap(({ x, y }) => answer(x).map((value, target) => (value - y[target]) ** 2));
  return Math.sqrt(squares.reduce((sum, square) => sum + square, 0) / squares.length);
}

const train = samplesOf("train");
const heldOut = samplesOf("heldOut");
const before = error(heldOut);
for (let epoch = 1; epoch <= epochs; epoch++) {
  for (const { x, y } of train)
    answer(x).forEach((value, target) => {
      const step = learningRate * (value - y[target]);
      model.bias.values[target] -= step;
      x.forEach((each, i) => {
        model.weight.values[target * length + i] -= step * each;
      });
    });
  // A line like this is shown by `stemma agent status`.
  console.log(JSON.stringify({ type: "progress", epoch, epochs, loss: error(train) }));
}

// The current directory is the one for results.
save("model.safetensors", model);
writeFileSync(
  "metrics.json",
  JSON.stringify({
    epochs,
    learningRate,
    metric: { name: "RMSE", unit: "", lowerIsBetter: true, before, after: error(heldOut) },
  }),
);
mkdirSync("attachments");
writeFileSync("attachments/notes.txt", `trained on ${train.length} samples from the seed ${job.seed}\n`);
