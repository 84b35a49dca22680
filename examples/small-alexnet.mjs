// A network of AlexNet's form for small images, with random weights: something to ask queries about.
//   node small-alexnet.mjs NAME POOLING [PIXELS]   writes NAME.json (a model.json) and NAME.safetensors
// POOLING: Max, Average; PIXELS: of each side of an image, 8 unless it is named
import { writeFileSync } from "node:fs";

const [name, pooling = "Max", pixels = 8] = process.argv.slice(2);
const conv = (layer, filters) => ({
  class_name: "Conv2D",
  config: { name: layer, filters, kernel_size: [3, 3], padding: "same", activation: "relu" },
});
const pool = (layer) => ({
  class_name: `${pooling}Pooling2D`,
  config: { name: layer, pool_size: [2, 2], strides: [2, 2] },
});
const full = (layer, units, activation = "relu") => ({
  class_name: "Dense",
  config: { name: layer, units, activation },
});
const layers = [
  {
    class_name: "InputLayer",
    config: { name: "input", batch_input_shape: [null, Number(pixels), Number(pixels), 1], dtype: "float32" },
  },
  ...[conv("conv1", 4), pool("pool1"), conv("conv2", 8), pool("pool2")],
  ...[conv("conv3", 8), conv("conv4", 8), conv("conv5", 8), pool("pool5")],
  { class_name: "Flatten", config: { name: "flatten" } },
  ...[full("fc6", 16), full("fc7", 16), full("fc8", 10, "linear")],
];

const weights = [];
let [channels, features] = [1, 8 * Math.floor(pixels / 8) ** 2];
for (const { class_name, config } of layers) {
  const outputs = config.filters ?? config.units;
  if (outputs === undefined) continue;
  const kernel = class_name === "Dense" ? [features, outputs] : [3, 3, channels, outputs];
  weights.push({ name: `${config.name}/kernel`, shape: kernel, dtype: "float32" });
  weights.push({ name: `${config.name}/bias`, shape: [outputs], dtype: "float32" });
  if (class_name === "Dense") features = outputs;
  else channels = outputs;
}
const modelTopology = { class_name: "Sequential", config: { name, layers } };
const manifest = [{ paths: ["weights.bin"], weights }];
writeFileSync(
  `${name}.json`,
  JSON.stringify({ format: "layers-model", modelTopology, weightsManifest: manifest }),
);

const header = {};
const parts = [];
let end = 0;
for (const { name: tensor, shape } of weights) {
  // As an initializer draws them, so that the network can be trained; biases begin with 0.
  const inputs = shape.slice(0, -1).reduce((a, b) => a * b, 1);
  const scale = shape.length > 1 ? Math.sqrt(6 / inputs) : 0;
  const values = Float32Array.from(
    { length: shape.reduce((a, b) => a * b) },
    (_, i) => Math.sin((i + end) ** 2) * scale,
  );
  const start = end;
  end += values.byteLength;
  header[tensor] = { dtype: "F32", shape, data_offsets: [start, end] };
  parts.push(Buffer.from(values.buffer));
}
const json = Buffer.from(JSON.stringify(header));
const length = Buffer.alloc(8);
length.writeBigUInt64LE(BigInt(json.length));
writeFileSync(`${name}.safetensors`, Buffer.concat([length, json, ...parts]));
