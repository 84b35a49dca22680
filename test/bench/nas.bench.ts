/**
 * The search for architectures from scratch, with transfer by files of whole models behind one lock, and by Stemma, and
 * what it stores: `stemma bench nas [--quick] [--candidates N] [--seeds 1,2] [--images N] [--times] [--resume FILE]
 * [--markdown FILE] [-o json]`; --times leaves the bytes out, --resume keeps what has ended, as `bench flows` does. On
 * MNIST's digits, on generated ones where STEMMA_DATA has none. Times are compared within one run; they depend on the
 * machine, the accuracies do not. With --markdown the report is written to FILE and its chart beside it.
 * `--judge-after 10,20 [--judge-share 0.5]` compares only searches whose candidates are judged after so many steps with
 * the same ones that train all. Asserts nothing.
 */
import { existsSync } from "node:fs";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { parseArgs } from "node:util";
import type { SearchRequest } from "../../server/learning/nas/run-search.js";
import type { DatasetReference } from "../../shared/train/training.js";
import { nasChart, nasMarkdown, nasText, type NasResults } from "./nas-report.js";
import { defaultJudgeShare } from "../../server/learning/nas/judge.js";
import { judgedText, type JudgedResult } from "./nas-judged.js";
import { measureSearch, type MeasuredSearch, type StoreKind } from "./nas-runs.js";
import { benchSpace } from "./nas-space.js";
import { openPartsOfCommit } from "./saved-parts.js";

const { values: options } = parseArgs({
  options: {
    output: { type: "string", short: "o", default: "table" },
    quick: { type: "boolean", default: false },
    markdown: { type: "string" },
    candidates: { type: "string" },
    seeds: { type: "string" },
    images: { type: "string" },
    resume: { type: "string" },
    times: { type: "boolean", default: false },
    "judge-after": { type: "string" },
    "judge-share": { type: "string" },
  },
});
const isQuick = options.quick;
const seeds = options.seeds?.split(",") ?? (isQuick ? ["1"] : ["1", "2", "3", "4", "5"]);
const timedSearch = {
  candidates: Number(options.candidates ?? (isQuick ? 8 : 60)),
  population: isQuick ? 4 : 10,
  sample: isQuick ? 2 : 5,
};
/** Of the searches whose bytes are measured. */
const storedSearch = {
  candidates: isQuick ? 10 : 300,
  population: isQuick ? 4 : 20,
  sample: isQuick ? 3 : 10,
};
const trainedImages = Number(options.images ?? (isQuick ? 500 : 1_000));

const digits = resolve(process.env["STEMMA_DATA"] ?? "../shared/data", "mnist");
const hasDigits = existsSync(digits);
const images = (count: number): DatasetReference =>
  hasDigits
    ? { reader: "mnist", parameters: { limit: count }, location: digits }
    : { reader: "images-generated", parameters: { vehicle: 1, count } };

const base: Omit<SearchRequest, "seed" | "candidates" | "population" | "sample"> = {
  strategy: "evolution",
  drop: "oldest",
  space: benchSpace,
  epochs: 1,
  batchSize: 16,
  learningRate: 0.005,
  transfer: true,
  keepAll: false,
};

const folder = await mkdtemp(join(tmpdir(), "stemma-bench-nas-"));
let searches = 0;

const saved = await openPartsOfCommit(options.resume, {
  kind: "stemma bench nas",
  quick: String(isQuick),
  candidates: String(timedSearch.candidates),
  images: String(trainedImages),
});

const search = (
  what: string,
  request: Pick<SearchRequest, "seed"> & Partial<SearchRequest>,
  store?: StoreKind,
): Promise<MeasuredSearch> => saved.part(what, () => measured(what, request, store));

async function measured(
  what: string,
  request: Pick<SearchRequest, "seed"> & Partial<SearchRequest>,
  store: StoreKind = "stemma",
): Promise<MeasuredSearch> {
  if (options.output !== "json") process.stderr.write(`${what} …\n`);
  const isStored = store === "both";
  const own = join(folder, `${searches++}`);
  const result = await measureSearch({
    request: { ...base, ...(isStored ? storedSearch : timedSearch), ...request },
    dataset: images(trainedImages),
    store,
    folder: own,
    measurements: isStored ? (isQuick ? 3 : 10) : 1,
  });
  await rm(own, { recursive: true });
  return result;
}

/** Searches with and without judgements. */
async function compareJudged(steps: readonly number[], judgeShare: number): Promise<readonly JudgedResult[]> {
  const results: JudgedResult[] = [];
  for (const seed of seeds) {
    const whole = await search(`with transfer, seed ${seed}`, { seed });
    for (const judgeAfter of steps) {
      const judged = await search(`judged after step ${judgeAfter} by ${judgeShare}, seed ${seed}`, {
        seed,
        judgeAfter,
        judgeShare,
      });
      results.push({ seed, judgeAfter, judgeShare, candidates: timedSearch.candidates, whole, judged });
    }
  }
  return results;
}

async function compareWays(): Promise<void> {
  const seed = seeds[0] as string;
  const pairs: NasResults["pairs"][number][] = [];
  for (const each of seeds)
    pairs.push({
      seed: each,
      transfer: await search(`with transfer, seed ${each}`, { seed: each }),
      files: await search(`with transfer, in files, seed ${each}`, { seed: each }, "files"),
      scratch: await search(`from scratch, seed ${each}`, { seed: each, transfer: false }),
    });
  const results: NasResults = {
    data: hasDigits ? "MNIST's digits" : "generated digits",
    trainedImages,
    timedSearch,
    storedSearch,
    pairs,
    ...(options.times
      ? {}
      : {
          kept: await search("bytes, nothing retired", { seed, keepAll: true }, "both"),
          retired: await search("bytes, the population only", { seed }, "both"),
        }),
  };
  if (options.markdown !== undefined) {
    const chart = options.markdown.replace(/(\.md)?$/, ".svg");
    await writeFile(chart, nasChart(results));
    await writeFile(options.markdown, nasMarkdown(results, chart));
  }
  process.stdout.write(options.output === "json" ? `${JSON.stringify(results)}\n` : nasText(results));
}

try {
  const steps = options["judge-after"]?.split(",").map(Number);
  if (steps === undefined) await compareWays();
  else {
    const results = await compareJudged(steps, Number(options["judge-share"] ?? defaultJudgeShare));
    process.stdout.write(options.output === "json" ? `${JSON.stringify(results)}\n` : judgedText(results));
  }
} finally {
  await rm(folder, { recursive: true, force: true });
}
