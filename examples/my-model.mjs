// A network 1 → 16 → 1 that learns a sine curve, in plain JavaScript.
//   node my-model.mjs FILE          trains it and writes FILE (safetensors)
//   node my-model.mjs FILE BASE     reads BASE and fine-tunes its last layer only
import { readFileSync, writeFileSync } from "node:fs";

const [file, base] = process.argv.slice(2);
const shapes = {
  "hidden.weight": [16, 1],
  "hidden.bias": [16],
  "out.weight": [1, 16],
  "out.bias": [1],
};

let seed = 7;
function random() {
  seed = (seed * 1103515245 + 12345) % 2147483648;
  return (seed / 2147483648) * 2 - 1;
}

function randomModel() {
  return Object.fromEntries(
    Object.entries(shapes).map(([name, shape]) => {
      const size = shape.reduce((product, dimension) => product * dimension, 1);
      return [name, Float32Array.from({ length: size }, random)];
    }),
  );
}

// A safetensors file: the header's length (u64), the header (JSON), the data.
function load(path) {
  const bytes = readFileSync(path);
  const dataStart = 8 + Number(bytes.readBigUInt64LE(0));
  const header = JSON.parse(bytes.subarray(8, dataStart));
  return Object.fromEntries(
    Object.keys(shapes).map((name) => {
      const [from, to] = header[name].data_offsets;
      const copy = Uint8Array.from(bytes.subarray(dataStart + from, dataStart + to));
      return [name, new Float32Array(copy.buffer)];
    }),
  );
}

function save(path, model) {
  const header = {};
  let offset = 0;
  for (const [name, values] of Object.entries(model)) {
    const end = offset + values.byteLength;
    header[name] = { dtype: "F32", shape: shapes[name], data_offsets: [offset, end] };
    offset = end;
  }
  const headerBytes = Buffer.from(JSON.stringify(header));
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(headerBytes.length));
  const data = Object.values(model).map((values) => Buffer.from(values.buffer));
  writeFileSync(path, Buffer.concat([length, headerBytes, ...data]));
}

const model = base ? load(base) : randomModel();
const hiddenWeight = model["hidden.weight"];
const hiddenBias = model["hidden.bias"];
const outWeight = model["out.weight"];
const outBias = model["out.bias"];
const learningRate = 0.02;

for (let step = 0; step < 20000; step++) {
  const x = random() * 3;
  const target = Math.sin(x) + (base ? 0.5 : 0);
  const hidden = hiddenWeight.map((weight, i) => Math.tanh(weight * x + hiddenBias[i]));
  const output = hidden.reduce((sum, value, i) => sum + value * outWeight[i], outBias[0]);
  const error = output - target;
  if (!base) {
    hidden.forEach((value, i) => {
      const gradient = learningRate * error * outWeight[i] * (1 - value * value);
      hiddenWeight[i] -= gradient * x;
      hiddenBias[i] -= gradient;
    });
  }
  hidden.forEach((value, i) => {
    outWeight[i] -= learningRate * error * value;
  });
  outBias[0] -= learningRate * error;
}
save(file, model);
