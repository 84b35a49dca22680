// Trains a small network without any seed, so that two runs differ: first weights, order of samples and dropout come
// from Math.random, which Node seeds from the operating system. What it makes goes to the folder STEMMA_RUN.
//
//   STEMMA_RUN=first node unseeded-training.mjs
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const folder = process.env.STEMMA_RUN ?? "run";
const [hidden, epochs, rate] = [8, 20, 0.1];
const noise = () => Math.random() - 0.5;

// Points of a square, of two classes: inside a circle or outside.
const points = Array.from({ length: 400 }, (_, i) => [((i * 37) % 101) / 50 - 1, ((i * 53) % 97) / 48 - 1]);
const samples = points.map(([x, y]) => ({ x: [x, y, 1], class: x * x + y * y < 0.6 ? 1 : 0 }));
const [train, test] = [samples.slice(0, 300), samples.slice(300)];

const first = Array.from({ length: hidden }, () => [noise(), noise(), noise()]);
const second = Array.from({ length: hidden }, noise);
const dot = (a, b) => a.reduce((sum, value, i) => sum + value * b[i], 0);
const layer = (x, mask) => first.map((row, i) => Math.tanh(dot(row, x)) * (mask?.[i] ?? 1));
const output = (h) => 1 / (1 + Math.exp(-dot(second, h)));

const log = [];
for (let epoch = 1; epoch <= epochs; epoch++) {
  const shuffled = train.map((sample) => [Math.random(), sample]).sort(([a], [b]) => a - b);
  let loss = 0;
  for (const [, sample] of shuffled) {
    const h = layer(
      sample.x,
      Array.from({ length: hidden }, () => (Math.random() < 0.1 ? 0 : 1)),
    );
    const p = output(h);
    const error = p - sample.class;
    loss -= Math.log(Math.max(1e-12, sample.class === 1 ? p : 1 - p));
    for (let i = 0; i < hidden; i++) {
      const slope = error * second[i] * (1 - h[i] * h[i]) * (h[i] === 0 ? 0 : 1);
      second[i] -= rate * error * h[i];
      for (let j = 0; j < 3; j++) first[i][j] -= rate * slope * sample.x[j];
    }
  }
  log.push(JSON.stringify({ epoch, loss: loss / train.length }));
}

const values = new Float32Array([...first.flat(), ...second]);
const header = JSON.stringify({
  first: { dtype: "F32", shape: [hidden, 3], data_offsets: [0, hidden * 12] },
  second: { dtype: "F32", shape: [hidden], data_offsets: [hidden * 12, hidden * 16] },
});
const length = Buffer.alloc(8);
length.writeBigUInt64LE(BigInt(header.length));
const rows = test.map(({ x, class: actual }, i) => `${i},${actual},${output(layer(x)) > 0.5 ? 1 : 0}`);

mkdirSync(folder, { recursive: true });
writeFileSync(
  join(folder, "model.safetensors"),
  Buffer.concat([length, Buffer.from(header), Buffer.from(values.buffer)]),
);
writeFileSync(join(folder, "predictions.csv"), `sample,actual,predicted\n${rows.join("\n")}\n`);
writeFileSync(join(folder, "log.jsonl"), `${log.join("\n")}\n`);
