/**
 * Many writers at once, each with a model of 100 equal layers of which a part was changed (EvoStore, figure 4):
 * `stemma bench loads [--quick] [--model-mb 32] [-o json]`. All begin at one moment; a writer's bandwidth is the size
 * of its whole model over the time until it is durable, and those of all writers are added. Beside them as many
 * writers of whole files, fsynced too, of which nothing is hashed. The paper's models have 4 GB; here 32 MB, as 64 of
 * them are written to one disk. Asserts nothing.
 */
import { randomFillSync } from "node:crypto";
import { mkdir, mkdtemp, open, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { openNodeHome } from "../../server/storage/repository/node-home.js";
import { openRepository } from "../../server/storage/repository/open-repository.js";
import { renderTable } from "../../shared/cli/table.js";
import type { ModelSource } from "../../shared/model/model.js";
import { opaqueModelSource } from "../../shared/save/model-source.js";
import { tensorId } from "../../shared/tensor/hash.js";
import { sourceOfTensor, type Hash } from "../../shared/tensor/tensor.js";
import { median, timed, type Named } from "./save-floors.js";

const { values: options } = parseArgs({
  options: {
    output: { type: "string", short: "o", default: "table" },
    quick: { type: "boolean", default: false },
    "model-mb": { type: "string" },
  },
});
const layers = 100;
const modelBytes = Number(options["model-mb"] ?? (options.quick ? 4 : 32)) * 1e6;
const writerCounts = options.quick ? [8, 16] : [8, 16, 32, 64];
const shares = [0.25, 0.5, 0.75, 1];
const rounds = options.quick ? 1 : 3;

interface Row {
  readonly writers: number;
  /** Added bandwidths in bytes a second: of whole files, and of Stemma by the share of changed layers. */
  readonly files: number;
  readonly stemma: readonly { readonly share: number; readonly bandwidth: number }[];
}

function layer(index: number): Named {
  const bytes = randomFillSync(new Uint8Array(Math.round(modelBytes / layers)));
  return { name: `layer-${String(index).padStart(3, "0")}`, dtype: "U8", shape: [bytes.length], bytes };
}

/** The sum over the writers of a model's size over the time that each took. All begin together. */
async function bandwidthOf(writers: readonly (() => Promise<unknown>)[]): Promise<number> {
  const times = await Promise.all(writers.map((write) => timed(write)));
  return times.reduce((sum, ms) => sum + (1_000 * modelBytes) / ms, 0);
}

/** The base's model with its last layers replaced; only those are hashed. */
function changedModel(base: ModelSource, changed: readonly Named[]): ModelSource {
  const first = layers - changed.length;
  const ids = changed.map((tensor) => tensorId(tensor, tensor.bytes));
  return {
    ...base,
    leaves: base.leaves.map((leaf, i) => {
      const tensor = ids[i - first];
      return tensor === undefined ? leaf : { ...leaf, tensor };
    }),
    sources: base.sources.map((source, i) => {
      const tensor = changed[i - first];
      return tensor === undefined ? source : sourceOfTensor(tensor, ids[i - first]);
    }),
  };
}

async function measureStemma(path: string, writers: number, share: number): Promise<number> {
  const home = await openNodeHome(path);
  const repository = await openRepository(home, "bench");
  try {
    const base = opaqueModelSource(Array.from({ length: layers }, (_, index) => layer(index)));
    const versionId: Hash = (await repository.save(base, { name: "base" })).summary.versionId;
    const count = Math.round(layers * share);
    const changed = Array.from({ length: writers }, () =>
      Array.from({ length: count }, (_, index) => layer(layers - count + index)),
    );
    return await bandwidthOf(
      changed.map(
        (own, writer) => () =>
          repository.save(changedModel(base, own), { name: `writer-${writer}`, bases: [versionId] }),
      ),
    );
  } finally {
    await repository.close();
    await home.close();
    await rm(path, { recursive: true, force: true });
  }
}

async function measureFiles(path: string, writers: number): Promise<number> {
  await mkdir(path);
  const models = Array.from({ length: writers }, () =>
    Array.from({ length: layers }, (_, index) => layer(index).bytes),
  );
  try {
    return await bandwidthOf(
      models.map((tensors, writer) => async () => {
        const file = await open(join(path, `${writer}`), "w");
        await file.writev(tensors);
        await file.sync();
        await file.close();
      }),
    );
  } finally {
    await rm(path, { recursive: true, force: true });
  }
}

const folder = await mkdtemp(join(process.env["STEMMA_BENCH_FOLDER"] ?? tmpdir(), "stemma-bench-loads-"));
const rows: Row[] = [];
let runs = 0;
const repeated = async (measure: (path: string) => Promise<number>): Promise<number> => {
  const found: number[] = [];
  for (let round = 0; round < rounds; round++) found.push(await measure(join(folder, String(runs++))));
  return median(found);
};
try {
  // Not measured: compiles the code of both.
  await measureStemma(join(folder, "first"), 2, 0.25);
  for (const writers of writerCounts) {
    if (options.output !== "json") process.stderr.write(`${writers} writers …\n`);
    const files = await repeated((path) => measureFiles(path, writers));
    const stemma: Row["stemma"][number][] = [];
    for (const share of shares)
      stemma.push({ share, bandwidth: await repeated((path) => measureStemma(path, writers, share)) });
    rows.push({ writers, files, stemma });
  }
  if (options.output === "json") process.stdout.write(`${JSON.stringify({ modelBytes, rows })}\n`);
  else
    process.stdout.write(
      [
        renderTable(rows, [
          { title: "WRITERS", value: ({ writers }) => String(writers), align: "right" },
          { title: "FILES", value: ({ files }) => `${(files / 1e6).toFixed(0)} MB/s`, align: "right" },
          ...shares.map((share, index) => ({
            title: `${100 * share} %`,
            value: ({ files, stemma }: Row) => `${((stemma[index]?.bandwidth ?? 0) / files).toFixed(2)} ×`,
            align: "right" as const,
          })),
        ]),
        "",
        "Stemma by the share of layers that were changed, as a multiple of whole files",
        "",
      ].join("\n"),
    );
} finally {
  await rm(folder, { recursive: true, force: true });
}
