/**
 * MMlib's evaluation flow, for networks of its size: bytes, time to save and time to recover of each use case, by
 * approach, beside floors of the same run and MMlib's own figures.
 *
 *   stemma bench flows [--models mobilenet-v2,resnet-18] [--rounds 5] [--markdown FILE] [--quick] [-o json]
 *
 * `--quick` measures MobileNetV2 and ResNet-18 once. With --markdown the report is written to FILE, and a chart of each
 * network beside it. Asserts nothing.
 */
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { parseArgs } from "node:util";
import { flowChart, flowsMarkdown, flowsText, type FlowResults } from "./flows-report.js";
import { measureDepth, measureStandardFlow, type FlowFigures, type UpdateKind } from "./flows-standard.js";
import { shapesOf, type BenchModel } from "./model-shapes.js";

const { values: options } = parseArgs({
  options: {
    output: { type: "string", short: "o", default: "table" },
    quick: { type: "boolean", default: false },
    models: { type: "string" },
    rounds: { type: "string" },
    markdown: { type: "string" },
  },
});
const quickModels = "mobilenet-v2,resnet-18";
const allModels = "mobilenet-v2,googlenet,resnet-18,resnet-50,resnet-152";
const models = (options.models ?? (options.quick ? quickModels : allModels)).split(",");
for (const model of models) shapesOf(model);
const rounds = Number(options.rounds ?? (options.quick ? 1 : 5));
const depth = options.quick ? 10 : 50;
/** A recovery of MobileNetV2 takes some 20 ms. */
const depthRounds = options.quick ? 6 : 40;
/** Encoding takes long, and is nearly the same for all fine-tunes. */
const encoding = options.quick ? { coded: 2 } : {};
const updates: readonly UpdateKind[] = ["full", "partial"];

const folder = await mkdtemp(join(process.env["STEMMA_BENCH_FOLDER"] ?? tmpdir(), "stemma-bench-flows-"));
const say = (text: string): void => {
  if (options.output !== "json") process.stderr.write(`${text} …\n`);
};
try {
  const flows: FlowFigures[] = [];
  const depths: FlowResults["depths"][number][] = [];
  // One flow is not measured: it compiles the code for all others.
  await measureStandardFlow({ model: "mobilenet-v2", update: "partial", rounds: 1, folder, coded: 0 });
  for (const model of models as BenchModel[])
    for (const update of updates) {
      say(`${model}, ${update} updates`);
      flows.push(...(await measureStandardFlow({ model, update, rounds, folder, ...encoding })));
    }
  for (const update of updates) {
    say(`${depth} updates, ${update}`);
    const figures = await measureDepth({
      model: "mobilenet-v2",
      update,
      depth,
      rounds: depthRounds,
      folder,
    });
    depths.push({ ...figures, update });
  }
  const results: FlowResults = { rounds, flows, depths };
  const { markdown } = options;
  if (markdown !== undefined) {
    const charts = new Map(models.map((model) => [model, markdown.replace(/(\.md)?$/, `-${model}.svg`)]));
    for (const [model, chart] of charts) await writeFile(chart, flowChart(model, flows));
    const names = new Map([...charts].map(([model, chart]) => [model, basename(chart)]));
    await writeFile(markdown, flowsMarkdown(results, names));
  }
  process.stdout.write(options.output === "json" ? `${JSON.stringify(results)}\n` : flowsText(results));
} finally {
  await rm(folder, { recursive: true, force: true });
}
