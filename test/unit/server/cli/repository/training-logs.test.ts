/** Training logs become measurements: each form, what is torn or damaged, and what is too long. */
import assert from "node:assert/strict";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { it } from "node:test";
import protobuf from "protobufjs/minimal.js";
import { crc32c } from "../../../../../server/cli/repository/training-logs/crc32c.js";
import {
  courseOfLogs,
  type TrainingCourse,
} from "../../../../../server/cli/repository/training-logs/measurements-of-logs.js";

async function courseOf(files: Readonly<Record<string, string | Uint8Array>>): Promise<TrainingCourse> {
  const folder = await mkdtemp(join(tmpdir(), "stemma-logs-"));
  try {
    const paths = Object.keys(files).map((name) => join(folder, name));
    for (const path of paths) await mkdir(dirname(path), { recursive: true });
    for (const [at, bytes] of Object.values(files).entries()) await writeFile(paths[at] ?? "", bytes);
    return await courseOfLogs(paths);
  } finally {
    await rm(folder, { recursive: true });
  }
}
const refused = (files: Parameters<typeof courseOf>[0]): Promise<void> =>
  assert.rejects(courseOf(files), { code: "TRAINER_OUTPUT_INVALID" });
const plain = { epoch: null, loss: null, learningRate: null };

it("JSON lines: nested figures, NaN of Python, rows of one step together, a last line that is torn", async () => {
  const text = [
    '{"step": 10, "epoch": 0.5, "loss": 0.4, "learning_rate": 0.01, "note": "NaN, here", "eval": {"acc": 0.5}}',
    '{"step": 10, "eval_loss": 0.6}',
    "",
    '{"step": 20, "loss": NaN, "grad": -Infinity, "bad": [NaN]}',
    '{"step": 30, "lo',
  ].join("\n");
  const { measurements } = await courseOf({ "run.jsonl": text });
  assert.deepEqual(measurements, [
    {
      iteration: 10,
      epoch: 0.5,
      loss: 0.4,
      learningRate: 0.01,
      validation: 0.6,
      metrics: { "eval.acc": 0.5 },
    },
    { ...plain, iteration: 20, metrics: { grad: null, loss: null } },
  ]);
  await refused({ "run.jsonl": '{"step": 1}\nnot json\n{"step": 2}\n' });
  await refused({ "run.jsonl": '{"step": 1}\n[1]\n' });
});

it("CSV of Keras and of Lightning: epochs as iterations, empty cells, quotes, other separators, torn rows", async () => {
  const keras = await courseOf({ "a.csv": '\uFEFFepoch;loss;"val;acc"\r\n0;1.5;0.1\r\n1;inf;\r\n2;0.5' });
  assert.deepEqual(keras.measurements, [
    { ...plain, iteration: 0, epoch: 0, loss: 1.5, metrics: { "val;acc": 0.1 } },
    { ...plain, iteration: 1, epoch: 1, metrics: { loss: null } },
  ]);
  const lightning = await courseOf({ "m.csv": "epoch,step,train_loss,val_loss\n0,49,0.5,\n0,49,,0.7\n" });
  assert.deepEqual(lightning.measurements, [
    { iteration: 49, epoch: 0, loss: 0.5, learningRate: null, validation: 0.7 },
  ]);
  await refused({ "a.csv": "epoch,loss\n0,1,2\n1,2\n" });
  await refused({ "a.csv": "epoch,loss\n" });
  await refused({ "a.csv": `epoch,${"x".repeat(2_000_000)}` });
});

/** An Event with scalars, of both forms, as one TFRecord. */
function event(step: number, scalars: Readonly<Record<string, number>>, asTensor = false): Buffer {
  const summary = protobuf.Writer.create();
  for (const [tag, value] of Object.entries(scalars)) {
    const writer = summary.uint32(10).fork().uint32(10).string(tag);
    if (asTensor)
      writer.uint32(66).fork().uint32(8).int32(1).uint32(42).fork().float(value).ldelim().ldelim();
    else writer.uint32(21).float(value);
    writer.ldelim();
  }
  const bytes = protobuf.Writer.create()
    .uint32(9)
    .double(1e9)
    .uint32(16)
    .int64(step)
    .uint32(42)
    .bytes(summary.finish());
  return record(bytes.finish());
}
function record(bytes: Uint8Array): Buffer {
  const masked = (data: Uint8Array): Buffer => {
    const crc = crc32c(data);
    const four = Buffer.alloc(4);
    four.writeUInt32LE(((((crc >>> 15) | (crc << 17)) >>> 0) + 0xa282ead8) % 2 ** 32);
    return four;
  };
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(bytes.length));
  return Buffer.concat([length, masked(length), bytes, masked(bytes)]);
}

it("CRC-32C is that of RFC 3720, appendix B.4", () => {
  assert.equal(crc32c(new Uint8Array(32)), 0x8a9136aa);
  assert.equal(crc32c(Buffer.from("123456789")), 0xe3069283);
});

it("TensorBoard's events: scalars of both forms, several files, a torn end; flipped bits are found", async () => {
  const name = "events.out.tfevents.1.host";
  const first = record(protobuf.Writer.create().uint32(26).string("brain.Event:2").finish());
  const bytes = Buffer.concat([
    first,
    event(1, { loss: 0.5, acc: 0.25 }),
    event(2, { loss: Infinity }, true),
  ]);
  const { measurements } = await courseOf({
    [name]: bytes,
    "events.out.tfevents.2.host": event(2, { val_loss: 2 }),
  });
  assert.deepEqual(measurements, [
    { ...plain, iteration: 1, loss: 0.5, metrics: { acc: 0.25 } },
    { ...plain, iteration: 2, validation: 2, metrics: { loss: null } },
  ]);
  const torn = await courseOf({ [name]: bytes.subarray(0, -3) });
  assert.deepEqual(
    torn.measurements.map(({ iteration }) => iteration),
    [1],
  );
  for (const at of [0, 9, first.length + 14, bytes.length - 20, bytes.length - 1]) {
    const flipped = Buffer.from(bytes);
    flipped.writeUInt8(flipped.readUInt8(at) ^ 1, at);
    await refused({ [name]: flipped });
  }
});

it("TensorFlow's logs of training and validation have the same names, and are told apart by their folders", async () => {
  const { measurements } = await courseOf({
    "train/events.out.tfevents.1.host": event(1, { epoch_loss: 0.5, epoch_accuracy: 0.75 }),
    "validation/events.out.tfevents.1.host": event(1, { epoch_loss: 1, epoch_accuracy: 0.5 }),
  });
  const metrics = { epoch_accuracy: 0.75, "val/epoch_accuracy": 0.5 };
  assert.deepEqual(measurements, [{ ...plain, iteration: 1, loss: 0.5, validation: 1, metrics }]);
});

it("of more iterations than a version keeps, evenly spaced ones are taken, and the last", async () => {
  const rows = Array.from({ length: 45_000 }, (_, step) => `${step},${step % 7}`);
  const { measurements, iterations } = await courseOf({ "a.csv": `step,loss\n${rows.join("\n")}\n` });
  assert.equal(iterations, 45_000);
  assert.ok(measurements.length <= 10_000 && measurements.length > 5000, String(measurements.length));
  assert.equal(measurements[0]?.iteration, 0);
  assert.equal(measurements.at(-1)?.iteration, 44_999);
  const gaps = new Set(
    measurements.slice(1, -1).map((each, at) => each.iteration - (measurements[at]?.iteration ?? 0)),
  );
  assert.equal(gaps.size, 1);
});
