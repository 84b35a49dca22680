/**
 * MMlib's evaluation flow, for networks of its size: bytes, time to save and time to recover of each use case, by
 * approach, beside floors of the same run and MMlib's own figures.
 *
 *   stemma bench flows [--models mobilenet-v2,resnet-18] [--rounds 5] [--resume FILE] [--markdown FILE] [--quick] …
 *   stemma bench flows --pictures [--resume FILE] [--markdown FILE]
 *   stemma bench flows --distributed [--nodes 5,10,20] [--approaches snapshot,update] [--rounds 3] [--resume FILE] …
 *
 * `--pictures` measures provenance with MMlib's sizes of data alone, and replaces that section of the report.
 * `--distributed` runs the flow on many nodes, each a process. `--quick` measures MobileNetV2 and ResNet-18 once, with
 * fewer recoveries of each model and one encoded store, and two nodes. With --markdown the report is written to FILE,
 * and charts beside it. All rounds take hours: with --resume each one that ended is kept in FILE, and the same command
 * goes on from there, on the same machine and commit, after Ctrl-C as well. Asserts nothing but that the flow was the
 * one that the paper describes.
 */
import { rmSync } from "node:fs";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { parseArgs } from "node:util";
import { measureDistributedFlow, medianOfRuns, type DistributedFigures } from "./flows-distributed.js";
import {
  distributedChart,
  distributedMarkdown,
  distributedText,
  type DistributedResults,
} from "./flows-distributed-report.js";
import { measurePictures, pictureSets, type PictureFigures } from "./flows-pictures.js";
import { picturesChart, picturesMarkdown, picturesText, withPictures } from "./flows-pictures-report.js";
import { measureProvenanceFlow } from "./flows-provenance.js";
import { flowChart, flowsMarkdown, flowsText, type FlowResults } from "./flows-report.js";
import { measureDepth } from "./flows-depth.js";
import { flowSteps, standardFlow } from "./flows-plan.js";
import {
  flowModels,
  measureRound,
  measureStandardFlow,
  type Approach,
  type FlowFigures,
  type UpdateKind,
} from "./flows-standard.js";
import { machineLine, today } from "./machine.js";
import { openPartsOfCommit, openSavedParts, type SavedParts } from "./saved-parts.js";
import { shapesOf, type BenchModel } from "./model-shapes.js";

const { values: options } = parseArgs({
  options: {
    output: { type: "string", short: "o", default: "table" },
    quick: { type: "boolean", default: false },
    distributed: { type: "boolean", default: false },
    pictures: { type: "boolean", default: false },
    nodes: { type: "string" },
    approaches: { type: "string" },
    models: { type: "string" },
    rounds: { type: "string" },
    markdown: { type: "string" },
    resume: { type: "string" },
  },
});
const folder = await mkdtemp(join(process.env["STEMMA_BENCH_FOLDER"] ?? tmpdir(), "stemma-bench-flows-"));
const say = (text: string): void => {
  if (options.output !== "json") process.stderr.write(`${text} …\n`);
};
// What is measured when it comes is lost; what has ended is in the file of --resume.
process.once("SIGINT", () => {
  rmSync(folder, { recursive: true, force: true, maxRetries: 10, retryDelay: 300 });
  process.exit(130);
});
try {
  const isWhole = !options.distributed && !options.pictures;
  const standard = isWhole ? await runStandard() : undefined;
  const pictures = options.pictures ? await runPictures() : undefined;
  const distributed = options.distributed || (options.quick && isWhole) ? await runDistributed() : undefined;
  const texts = [
    ...(pictures === undefined ? [] : [picturesText(pictures)]),
    ...(standard === undefined ? [] : [flowsText(standard)]),
    ...(distributed === undefined ? [] : [distributedText(distributed)]),
  ];
  process.stdout.write(
    options.output === "json"
      ? `${JSON.stringify({ ...standard, ...(pictures && { pictures }), ...(distributed && { distributed }) })}\n`
      : texts.join("\n"),
  );
} finally {
  await rm(folder, { recursive: true, force: true });
}

async function runStandard(): Promise<FlowResults> {
  const quickModels = "mobilenet-v2,resnet-18";
  const allModels = "mobilenet-v2,googlenet,resnet-18,resnet-50,resnet-152";
  const models = (options.models ?? (options.quick ? quickModels : allModels)).split(",");
  for (const model of models) shapesOf(model);
  const rounds = Number(options.rounds ?? (options.quick ? 1 : 5));
  const depth = options.quick ? 10 : 50;
  /** A recovery of MobileNetV2 takes some 20 ms. */
  const depthRounds = options.quick ? 6 : 40;
  /** Encoding takes long, and is nearly the same for all fine-tunes. */
  const encoding = options.quick ? { coded: 2, recoveries: 2 } : {};
  const updates: readonly UpdateKind[] = ["full", "partial"];
  const flows: FlowFigures[] = [];
  const coded: FlowResults["coded"][number][] = [];
  const depths: FlowResults["depths"][number][] = [];
  const saved = await openPartsHere("stemma bench flows");
  // One flow is not measured: it compiles the code for all others.
  await measureRound(
    flowModels("mobilenet-v2", "partial", flowSteps(standardFlow)),
    "update",
    join(folder, "warm"),
  );
  for (const model of models as BenchModel[])
    for (const update of updates) {
      say(`${model}, ${update} updates`);
      // Encoding a store takes as long as all else.
      const codedStore = !options.quick || (model === "mobilenet-v2" && update === "full");
      const request = { model, update, rounds, folder, saved, codedStore, ...encoding };
      const measured = await measureStandardFlow(request);
      flows.push(...measured.flows);
      if (measured.coded !== undefined) coded.push(measured.coded);
    }
  for (const update of updates) {
    say(`${depth} updates, ${update}`);
    const figures = await saved.part(`${depth} updates, ${update}`, () =>
      measureDepth({ model: "mobilenet-v2", update, depth, rounds: depthRounds, folder }),
    );
    depths.push({ ...figures, update });
  }
  say("provenance");
  const provenance = await saved.part("provenance", () =>
    measureProvenanceFlow(
      options.quick
        ? { perPhase: 1, pictures: 32, alpha: 0.35, folder }
        : { perPhase: 4, pictures: 256, alpha: 1, folder },
    ),
  );
  const pictures = await measureAllPictures(saved);
  const results: FlowResults = { rounds, flows, coded, depths, provenance, pictures, days: saved.days };
  const { markdown } = options;
  if (markdown !== undefined) {
    const charts = new Map(models.map((model) => [model, markdown.replace(/(\.md)?$/, `-${model}.svg`)]));
    for (const [model, chart] of charts) await writeFile(chart, flowChart(model, flows));
    const names = new Map([...charts].map(([model, chart]) => [model, basename(chart)]));
    const section = picturesMarkdown(
      pictures,
      await writePicturesChart(markdown, pictures),
      machineLine(saved.days),
    );
    await writeFile(markdown, flowsMarkdown(results, names, section));
  }
  return results;
}

async function measureAllPictures(saved: SavedParts): Promise<readonly PictureFigures[]> {
  // A device sends samples of less than 8 MiB with the model.
  const sets = options.quick ? [{ name: "quick", useCase: "U3", pictures: 200, side: 128 }] : pictureSets;
  const figures: PictureFigures[] = [];
  for (const set of sets) {
    say(`provenance, ${set.name}`);
    const request = { set, alpha: options.quick ? 0.35 : 1, folder };
    figures.push(await saved.part(`provenance, ${set.name}`, () => measurePictures(request)));
  }
  return figures;
}

async function runPictures(): Promise<readonly PictureFigures[]> {
  const saved = await openPartsHere("stemma bench flows --pictures");
  const figures = await measureAllPictures(saved);
  const { markdown } = options;
  if (markdown !== undefined) {
    const before = await readFile(markdown, "utf8");
    const chart = await writePicturesChart(markdown, figures);
    const section = picturesMarkdown(figures, chart, machineLine(saved.days));
    await writeFile(markdown, withPictures(before, section));
  }
  return figures;
}

/** Returns the name of the chart beside the report. */
async function writePicturesChart(report: string, figures: readonly PictureFigures[]): Promise<string> {
  const chart = report.replace(/(\.md)?$/, "-pictures.svg");
  await writeFile(chart, picturesChart(figures));
  return basename(chart);
}

function openPartsHere(kind: string): Promise<SavedParts> {
  return openPartsOfCommit(options.resume, { kind, quick: String(options.quick) });
}

async function runDistributed(): Promise<DistributedResults> {
  const counts = (options.nodes ?? (options.quick ? "2" : "5,10,20")).split(",").map(Number);
  for (const count of counts)
    if (!Number.isInteger(count) || count < 1 || count > 64)
      throw new Error(
        `--nodes takes whole numbers from 1 to 64, with commas between them, not ${options.nodes}.`,
      );
  const rounds = options.quick ? 1 : Number(options.rounds ?? 3);
  const perPhase = options.quick ? 2 : 10;
  const approaches = (options.approaches ?? (options.quick ? "update" : "snapshot,update")).split(",");
  for (const approach of approaches)
    if (approach !== "snapshot" && approach !== "update")
      throw new Error(`--approaches takes snapshot and update, with a comma between them, not ${approach}.`);
  // Of --quick, which measures both flows, the file has the standard one alone.
  const kind = "stemma bench flows --distributed";
  const saved = options.distributed ? await openPartsHere(kind) : await openSavedParts(undefined, {}, today);
  const flows: DistributedFigures[] = [];
  for (const nodes of counts)
    for (const approach of approaches as readonly Approach[]) {
      const runs: DistributedFigures[] = [];
      for (let round = 0; round < rounds; round++) {
        const part = `${nodes} nodes, ${approach}, run ${round + 1}`;
        say(`${part} of ${rounds}`);
        const request = { model: "mobilenet-v2", approach, nodes, perPhase, folder } as const;
        runs.push(await saved.part(part, () => measureDistributedFlow(request)));
      }
      flows.push(medianOfRuns(runs));
    }
  const results: DistributedResults = { rounds, flows, days: saved.days };
  const { markdown } = options;
  if (markdown !== undefined && options.distributed) {
    const chart = markdown.replace(/(\.md)?$/, ".svg");
    await writeFile(chart, distributedChart(results));
    await writeFile(markdown, distributedMarkdown(results, basename(chart), machineLine(results.days)));
  }
  return results;
}
