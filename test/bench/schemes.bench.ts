/**
 * How much smaller float schemes make models, and what it costs (ModelHub's figure 6(a), MH12). Trained models
 * are reduced by every scheme, stored compactly, and measured by `model eval` on held-out data, together with
 * the exact model and its lossless encoding. Networks: ModelHub's LeNet and LeNet-5 on MNIST below STEMMA_DATA
 * (else the small network on generated pictures), and the battery LSTM on NASA's cells (else simulated ones).
 * Bytes and accuracies are exact: the same on every machine. Asserts nothing.
 *
 *   node dist/test/bench/schemes.bench.js [-o json] [--quick] [--svg FILE]
 */
import { existsSync } from "node:fs";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { openLocalOperations } from "../../server/operations/local-operations.js";
import type { EvaluationReport } from "../../server/interface/api/models/evaluation-schemas.js";
import type { ServerOperations } from "../../server/interface/api/server-operations.js";
import { type Column } from "../../shared/cli/output.js";
import { renderTable } from "../../shared/cli/table.js";
import { loadDeltaCodec } from "../../shared/delta/load.js";
import { fileOfBytes, readSafetensors } from "../../shared/tensor/safetensors.js";
import { tensorOfSource } from "../../shared/tensor/tensor.js";
import { isStemmaError } from "../../shared/errors.js";
import { schemesChart, type SchemePanel, type SchemeSeries } from "./schemes-chart.js";

const { values: options } = parseArgs({
  options: {
    output: { type: "string", short: "o", default: "table" },
    quick: { type: "boolean", default: false },
    svg: { type: "string" },
  },
});
const isQuick = options.quick;
const fleet = "local";
const folder = resolve(process.env["STEMMA_DATA"] ?? "../shared/data");

interface Subject {
  readonly name: string;
  readonly title: string;
  readonly recipe: string;
  readonly data: string;
  readonly parameters: Readonly<Record<string, string | number>>;
}
interface Row {
  readonly model: string;
  readonly scheme: string;
  readonly storedBytes: number;
  /** Raw bytes over stored bytes; the next: bytes of the lossless encoding over stored bytes. */
  readonly ratio: number;
  readonly ratioToLossless: number;
  /** In the metric's unit; null: the reduced model's output is NaN. */
  readonly value: number | null;
  /** Percentage points by which the metric is worse than the exact model's; negative: better. */
  readonly drop: number | null;
  readonly largestError: number;
  readonly meanError: number;
}
interface Measured {
  readonly subject: Subject;
  readonly exact: EvaluationReport;
  readonly rawBytes: number;
  readonly losslessBytes: number;
  readonly rows: readonly Row[];
}

const bits = (name: string, all: readonly number[], quick: readonly number[]): readonly string[] =>
  (isQuick ? quick : all).map((each) => `${name}:${each}`);
const families: readonly { readonly name: string; readonly schemes: readonly string[] }[] = [
  { name: "float16", schemes: ["float16"] },
  { name: "bfloat16", schemes: ["bfloat16"] },
  { name: "fixed point", schemes: bits("fixed", [16, 12, 10, 8, 7, 6, 5, 4, 3, 2], [8, 4]) },
  { name: "normalized", schemes: bits("normalized", [23, 20, 16, 12, 8], [16]) },
  { name: "quantize, uniform", schemes: bits("quantize-uniform", [8, 7, 6, 5, 4, 3, 2, 1], [8, 4]) },
  { name: "quantize, random", schemes: bits("quantize-random", [8, 7, 6, 5, 4, 3, 2, 1], [8, 4]) },
];

async function subjectsIn(operations: ServerOperations): Promise<readonly Subject[]> {
  const hasPictures = existsSync(join(folder, "mnist"));
  const hasCells = existsSync(join(folder, "nasa-battery"));
  if (!hasPictures || !hasCells)
    console.error(`schemes: no mnist or nasa-battery below ${folder}, so data is generated; set STEMMA_DATA`);
  await operations.addDataset({
    fleet,
    ...(hasPictures
      ? {
          name: "pictures",
          kind: "mnist",
          location: join(folder, "mnist"),
          parameters: isQuick ? { limit: 1000 } : {},
        }
      : { name: "pictures", kind: "images-generated", location: "" }),
  });
  await operations.addDataset({
    fleet,
    ...(hasCells
      ? {
          name: "cells",
          kind: "nasa-battery",
          location: join(folder, "nasa-battery"),
          parameters: { cells: ["B0005", "B0006"] },
        }
      : { name: "cells", kind: "battery-simulated", location: "" }),
  });
  const source = hasPictures ? "MNIST" : "generated pictures";
  const image = (name: string, model: string, epochs: number, title: string): Subject => ({
    name,
    title: `${title}, ${source}`,
    recipe: "image-classify",
    data: "pictures",
    parameters: { model, epochs },
  });
  const battery: Subject = {
    name: "lstm",
    title: `LSTM of 64 units, ${hasCells ? "NASA's battery cells" : "simulated cells"}`,
    recipe: "battery-soh",
    data: "cells",
    parameters: { units: 64, ...(isQuick ? { epochs: 3 } : {}) },
  };
  return isQuick || !hasPictures
    ? [image("small", "small", 2, "small network"), battery]
    : [
        image("lenet", "lenet-caffe", 6, "ModelHub's LeNet"),
        image("lenet-5", "lenet-5", 6, "LeNet-5"),
        battery,
      ];
}

/** All tensors, each encoded without loss and without a base. */
async function losslessBytesOf(operations: ServerOperations, model: string): Promise<number> {
  const stream = await operations.recover({ fleet, model });
  const pieces: Uint8Array[] = [];
  for await (const chunk of stream.chunks) pieces.push(chunk.slice());
  const codec = await loadDeltaCodec();
  const file = await readSafetensors(fileOfBytes(Buffer.concat(pieces)), model);
  let bytes = 0;
  for (const entry of file.tensors)
    bytes += codec.encodeTensor(entry, (await tensorOfSource(file.source(entry))).bytes).bytes.length;
  return bytes;
}

async function valueOf(operations: ServerOperations, model: string, data: string): Promise<number | null> {
  try {
    return (await operations.evaluate({ fleet, model, data })).metric.value;
  } catch (error) {
    if (isStemmaError(error, "NOT_A_NUMBER")) return null;
    throw error;
  }
}

async function measure(operations: ServerOperations, subject: Subject): Promise<Measured> {
  console.error(`schemes: training ${subject.title}`);
  await operations.train({
    fleet,
    recipe: subject.recipe,
    data: subject.data,
    name: subject.name,
    seed: "7",
    parameters: subject.parameters,
  });
  const exact = await operations.evaluate({ fleet, model: subject.name, data: subject.data });
  const losslessBytes = await losslessBytesOf(operations, subject.name);
  const rows: Row[] = [];
  let rawBytes = 0;
  for (const scheme of families.flatMap(({ schemes }) => schemes)) {
    const name = `${subject.name}-${scheme.replace(":", "-")}`;
    const report = await operations.reduce({ fleet, model: subject.name, scheme, name, seed: "7" });
    const value = await valueOf(operations, name, subject.data);
    const sign = exact.metric.lowerIsBetter ? 1 : -1;
    rawBytes = report.rawBytes;
    rows.push({
      model: subject.name,
      scheme,
      storedBytes: report.storedBytes,
      ratio: report.ratio,
      ratioToLossless: losslessBytes / report.storedBytes,
      value,
      drop: value === null ? null : sign * (value - (exact.metric.value ?? NaN)),
      largestError: report.difference.largest,
      meanError: report.difference.mean,
    });
  }
  return { subject, exact, rawBytes, losslessBytes, rows };
}

function seriesOf(
  pointOf: (scheme: string) => { readonly ratio: number; readonly drop: number | null },
): readonly SchemeSeries[] {
  return families.map(({ name, schemes }) => ({
    name,
    points: schemes.map((scheme) => ({ label: scheme.split(":")[1] ?? "", ...pointOf(scheme) })),
  }));
}

function panelsOf(measured: readonly Measured[]): readonly SchemePanel[] {
  const rowOf = ({ rows }: Measured, scheme: string): Row => rows.find((row) => row.scheme === scheme)!;
  const mean = (values: readonly number[]): number =>
    values.reduce((sum, value) => sum + value, 0) / values.length;
  const single = measured.map((each): SchemePanel => ({
    title: `${each.subject.title}: ${each.exact.metric.name} ${(each.exact.metric.value ?? NaN).toFixed(2)} ${each.exact.metric.unit}`,
    drops: each.exact.metric.lowerIsBetter ? "error added, points" : "accuracy lost, points",
    series: seriesOf((scheme) => rowOf(each, scheme)),
    losslessRatio: each.rawBytes / each.losslessBytes,
  }));
  // Only models with the same measure have a mean: points of accuracy and of an error are different units.
  const classifiers = measured.filter(({ exact }) => !exact.metric.lowerIsBetter);
  if (classifiers.length < 2) return single;
  const averaged: SchemePanel = {
    title: `mean over the ${classifiers.length} classifiers`,
    drops: "accuracy lost, points",
    losslessRatio: mean(classifiers.map((each) => each.rawBytes / each.losslessBytes)),
    series: seriesOf((scheme) => {
      const rows = classifiers.map((each) => rowOf(each, scheme));
      return {
        ratio: mean(rows.map(({ ratio }) => ratio)),
        drop: rows.some(({ drop }) => drop === null) ? null : mean(rows.map(({ drop }) => drop!)),
      };
    }),
  };
  return [...single, averaged];
}

const columns: readonly Column<Row>[] = [
  { title: "MODEL", value: (row) => row.model },
  { title: "SCHEME", value: (row) => row.scheme },
  { title: "STORED", value: (row) => row.storedBytes, align: "right" },
  { title: "RAW/STORED", value: (row) => row.ratio.toFixed(2), align: "right" },
  { title: "LOSSLESS/STORED", value: (row) => row.ratioToLossless.toFixed(2), align: "right" },
  { title: "METRIC", value: (row) => row.value?.toFixed(3) ?? "NaN", align: "right" },
  { title: "WORSE BY", value: (row) => row.drop?.toFixed(3) ?? "-", align: "right" },
  { title: "LARGEST ERROR", value: (row) => row.largestError.toExponential(2), align: "right" },
  { title: "MEAN", value: (row) => row.meanError.toExponential(2), align: "right" },
];

const home = await mkdtemp(join(tmpdir(), "stemma-schemes-"));
try {
  const operations = await openLocalOperations({ home });
  try {
    const measured: Measured[] = [];
    for (const subject of await subjectsIn(operations)) measured.push(await measure(operations, subject));
    if (options.svg !== undefined)
      await writeFile(
        options.svg,
        schemesChart("Float schemes: how much smaller, and what it costs", panelsOf(measured)),
      );
    const models = measured.map(({ subject, exact, rawBytes, losslessBytes }) => ({
      model: subject.name,
      title: subject.title,
      metric: exact.metric,
      samples: exact.samples.evaluated,
      rawBytes,
      losslessBytes,
    }));
    const rows = measured.flatMap((each) => each.rows);
    if (options.output === "json") process.stdout.write(`${JSON.stringify({ models, rows }, null, 2)}\n`);
    else {
      for (const each of models)
        console.log(
          `${each.model}: ${each.title}; ${each.metric.name} ${(each.metric.value ?? NaN).toFixed(3)} ${each.metric.unit} on ${each.samples} held-out samples, ${each.rawBytes} bytes raw, ${each.losslessBytes} lossless`,
        );
      process.stdout.write(renderTable(rows, columns));
    }
  } finally {
    await operations.close();
  }
} finally {
  await rm(home, { recursive: true, force: true });
}
