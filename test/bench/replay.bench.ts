/**
 * What a proof costs: a fine-tune of a battery's model and its replay, in turn, as a ratio of their times; how long it
 * takes to write down how a model was made (ME14); and what a device sends of a model instead of its parameters, of
 * the largest model that a built-in recipe trains: `stemma bench replay [--quick] [-o json]`. Asserts nothing.
 */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { openFleets } from "../../server/services/context/open-fleets.js";
import { localOperations } from "../../server/operations/local-operations.js";
import { openNodeHome } from "../../server/storage/repository/node-home.js";
import { formatBytes, formatDuration } from "../../shared/cli/output.js";
import { objectsOf } from "../../shared/model/record-objects.js";
import { programVersion } from "../../shared/adapters/program-version.js";
import { provenanceOfTraining } from "../../shared/provenance/training-provenance.js";
import { jobFormat } from "../../shared/train/training.js";
import { trainInChild } from "../../shared/train/train-in-child.js";
import { environmentOfTraining } from "../../shared/train/training-environment.js";
import { median } from "./save-floors.js";

const { values: options } = parseArgs({
  options: {
    output: { type: "string", short: "o", default: "table" },
    quick: { type: "boolean", default: false },
  },
});
const rounds = options.quick ? 2 : 7;
const fleet = "bench";
/** A snapshot of ResNet-18, as MMlib stores it. */
const resNet18Bytes = 46_871_495;

const folder = await mkdtemp(join(tmpdir(), "stemma-bench-replay-"));
const home = await openNodeHome(folder);

/** Milliseconds to make the record of one training of MobileNetV2 from what its engine reported; no data are read. */
async function timeCapture(workFolder: string): Promise<number> {
  const { result } = await trainInChild(
    {
      format: jobFormat,
      recipe: "image-mobilenet",
      parameters: { epochs: 1 },
      dataset: { reader: "images-generated", parameters: { vehicle: 1, count: 240 } },
      seed: "1",
      invocation: 0,
    },
    { workFolder },
  );
  const times = Array.from({ length: options.quick ? 50 : 1000 }, () => {
    const startedMs = performance.now();
    const environment = environmentOfTraining(result, programVersion());
    provenanceOfTraining(
      { result, bases: [], environment, called: ["epochs"], endedAtMs: Date.now(), by: null },
      home.ports.random,
    );
    return performance.now() - startedMs;
  });
  return median(times);
}

const fleets = openFleets(home);
try {
  const operations = localOperations({ home, fleets, version: "bench" });
  const repository = await fleets.get(fleet, { create: true });
  const add = (name: string, kind: string, vehicle: number): Promise<unknown> =>
    operations.addDataset({ fleet, name, kind, location: "", parameters: { vehicle } });
  await add("laboratory", "battery-simulated", 0);
  await add("vehicle", "battery-simulated", 1);
  await add("images", "images-generated", 1);
  const train = async (
    input: Parameters<typeof operations.train>[0],
  ): Promise<{ readonly report: Awaited<ReturnType<typeof operations.train>>; readonly ms: number }> => {
    const startedMs = performance.now();
    const report = await operations.train(input);
    return { report, ms: performance.now() - startedMs };
  };
  const soh = { fleet, recipe: "battery-soh", name: "soh" };
  await train({ ...soh, data: "laboratory", seed: "1", parameters: { epochs: 5 } });
  const trainMs: number[] = [];
  const replayMs: number[] = [];
  for (let round = 0; round < rounds; round++) {
    const { report, ms } = await train({ ...soh, data: "vehicle", base: "soh:1", seed: String(2 + round) });
    const startedMs = performance.now();
    const { verdict } = await operations.replay({ fleet, model: report.summary.versionId });
    if (verdict !== "proved") throw new Error(`The replay ended with ${verdict}.`);
    trainMs.push(ms);
    replayMs.push(performance.now() - startedMs);
  }
  const images = { fleet, recipe: "image-mobilenet", data: "images", name: "cam", parameters: { epochs: 1 } };
  await train({ ...images, seed: "1" });
  const { summary } = (await train({ ...images, base: "cam:1", seed: "2" })).report;
  const [base] = repository.versions({}).filter(({ name, version }) => name === "cam" && version === 1);
  const known = new Set(base === undefined ? [] : objectsOf(base.record).map(({ id }) => id));
  const sent = objectsOf(summary.record)
    .filter(({ id, kind }) => !known.has(id) && !["data", "engine"].includes(kind))
    .map(({ kind, id }) => ({ kind, bytes: repository.objects.stat(id)?.byteLength ?? 0 }));
  sent.push({ kind: "record", bytes: repository.objects.stat(summary.versionId)?.byteLength ?? 0 });
  const sentBytes = sent.reduce((sum, { bytes }) => sum + bytes, 0);
  const tensors = (await repository.leaves(summary.versionId)).length;
  const figures = {
    captureMs: await timeCapture(join(folder, "capture")),
    trainMs: median(trainMs),
    replayMs: median(replayMs),
    ratio: median(replayMs.map((ms, round) => ms / trainMs[round]!)),
    sentBytes,
    tensors,
    parameterBytes: summary.tensorBytes,
    ofResNet18: sentBytes / resNet18Bytes,
  };
  if (options.output === "json") process.stdout.write(`${JSON.stringify(figures)}\n`);
  else
    process.stdout.write(
      [
        `fine-tune of a battery's model ${formatDuration(figures.trainMs)}, ` +
          `its proof ${formatDuration(figures.replayMs)}: ` +
          `${figures.ratio.toFixed(2)} times (medians of ${rounds}, both with what reading and saving takes)`,
        `writing down how a model was made takes ${figures.captureMs.toFixed(2)} ms, beside hashing its data (aim 1 ms)`,
        `a fine-tune of MobileNetV2 (${formatBytes(summary.tensorBytes)} of parameters, ${tensors} tensors) ` +
          `reported by how it was made, its data being known: ${formatBytes(sentBytes)}`,
        ...sent.map(({ kind, bytes }) => `  ${kind} ${formatBytes(bytes)}`),
        `  that is ${(100 * figures.ofResNet18).toFixed(3)} % of a snapshot of ResNet-18, which has fewer tensors`,
        "",
      ].join("\n"),
    );
} finally {
  await fleets.close();
  await home.close();
  await rm(folder, { recursive: true, force: true });
}
