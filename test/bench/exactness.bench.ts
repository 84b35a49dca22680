/**
 * Whether each built-in recipe gives the same bits under every condition: `stemma bench exactness [--quick]
 * [--only RECIPE,…] [--runtimes FOLDER] [--markdown FILE] [-o json]`. Each is trained once on one thread; then again
 * in another process, on two and four threads, killed in the middle and continued, over two and ten generations, and
 * as a replay of what a home recorded. With --runtimes also by other releases of Node.js and on 64-bit ARM under
 * emulation, which are fetched from the npm registry into that folder. Ends with status 1 where bits differ.
 */
import { spawn } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { arch, cpus, tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { openFleets } from "../../server/services/context/open-fleets.js";
import { localOperations } from "../../server/operations/local-operations.js";
import { openNodeHome } from "../../server/storage/repository/node-home.js";
import { messageOf } from "../../shared/error-text.js";
import { objectsOf } from "../../shared/model/record-objects.js";
import { formatBytes, formatDuration } from "../../shared/cli/output.js";
import { renderTable } from "../../shared/cli/table.js";
import { readLeaves, type TrainedLeaf } from "./trained-leaves.js";
import { builtInEngineFolder, engineIdOfFolder } from "../../shared/train/engine-folder.js";
import { prepareFolders, readResultFolder, trainInChild } from "../../shared/train/train-in-child.js";
import { exactnessCases, jobOf, writeExampleData, type ExactnessCase } from "./exactness-cases.js";
import { fetchRuntimes, type NodeRuntime } from "./node-runtimes.js";

interface Verdict {
  readonly condition: string;
  /** The first tensor that differs, or why there is no result; undefined where the bits are equal. */
  readonly difference: string | undefined;
  readonly tookMs: number;
}

interface FamilyResult {
  readonly family: string;
  readonly recipe: string;
  readonly reader: string;
  readonly root: string;
  /** Bytes of the record and of all it names but tensors, architecture, data and engine. */
  readonly recordBytes: number;
  readonly tookMs: number;
  readonly verdicts: readonly Verdict[];
}

const { values: options } = parseArgs({
  options: {
    output: { type: "string", short: "o", default: "table" },
    runtimes: { type: "string" },
    markdown: { type: "string" },
    quick: { type: "boolean", default: false },
    only: { type: "string" },
  },
});
const fleet = "bench";
/** Kinds of objects that tell how a model was made. */
const storyKinds: ReadonlySet<string> = new Set(["provenance", "openings", "environment", "metadata"]);

const folder = await mkdtemp(join(tmpdir(), "stemma-bench-exactness-"));
await writeExampleData(folder);
const allCases = exactnessCases(folder);
let folders = 0;
const newFolder = (): string => join(folder, String(folders++));

interface Trained {
  readonly folder: string;
  readonly root: string;
  readonly leaves: readonly TrainedLeaf[];
}

interface TrainOptions {
  readonly baseFolder?: string | undefined;
  readonly threads?: number;
  /** Node.js that runs the engine; this one where it is not given. */
  readonly runtime?: NodeRuntime;
}

async function train(
  one: ExactnessCase,
  { baseFolder, threads = 1, runtime }: TrainOptions,
): Promise<Trained> {
  const workFolder = newFolder();
  const job = { ...jobOf(one, baseFolder), threads };
  if (runtime === undefined) return readTrained((await trainInChild(job, { workFolder })).folder);
  const { jobFolder, resultFolder } = await prepareFolders(job, { workFolder });
  await runWith(runtime, [join(builtInEngineFolder(), "engine.mjs"), jobFolder, resultFolder]);
  return readTrained((await readResultFolder(resultFolder)).folder);
}

async function readTrained(resultFolder: string): Promise<Trained> {
  return { folder: resultFolder, ...(await readLeaves(resultFolder)) };
}

async function runWith({ name, command }: NodeRuntime, args: readonly string[]): Promise<void> {
  const child = spawn(command[0]!, [...command.slice(1), ...args], {
    env: {},
    stdio: ["pipe", "pipe", "pipe"],
  });
  let output = "";
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding("utf8").on("data", (part: string) => {
      output = (output + part).slice(-2000);
    });
  const status = await new Promise<number | null>((done, reject) => {
    child.once("error", reject).once("close", done);
  });
  if (status !== 0) throw new Error(`the engine ended with ${status} under ${name}: ${output.slice(-300)}`);
}

/** Killed with SIGKILL half-way, then continued: from the last saved state, or from the start where none was saved. */
async function trainCut(one: ExactnessCase, baseFolder: string | undefined): Promise<Trained> {
  const workFolder = newFolder();
  const state = { everySeconds: 0.01 };
  const job = jobOf(one, baseFolder);
  const stop = new AbortController();
  let steps = 0;
  await trainInChild(job, {
    workFolder,
    state,
    signal: stop.signal,
    onProgress: ({ phase, iteration = 0, iterations = 0 }) => {
      if (phase === "training" && iteration > 0) steps++;
      if (steps > 1 && 2 * iteration >= iterations) stop.abort();
    },
  }).catch((error: unknown) => {
    if (!stop.signal.aborted) throw error;
  });
  return readTrained((await trainInChild(job, { workFolder, state })).folder);
}

/** Trains from the last model again and again; the seed stays, as in a line that trains every day. */
async function trainGenerations(
  one: ExactnessCase,
  count: number,
  { baseFolder, ...how }: TrainOptions,
): Promise<Trained> {
  let last = await train(one, { ...how, baseFolder });
  for (let generation = 1; generation < count; generation++)
    last = await train(one, { ...how, baseFolder: last.folder });
  return last;
}

/** Trains through the operations of a home, with a record, and replays that. */
async function replayRecorded(
  one: ExactnessCase,
): Promise<{ readonly recordBytes: number; readonly verdict: string }> {
  const home = await openNodeHome(newFolder());
  const fleets = openFleets(home);
  try {
    const operations = localOperations({ home, fleets, version: "bench" });
    const repository = await fleets.get(fleet, { create: true });
    const { reader, location = "", parameters } = one.dataset;
    await operations.addDataset({ fleet, name: "data", kind: reader, location, parameters });
    const start = allCases.find(({ recipe }) => recipe === one.startsFrom);
    const input = { fleet, data: "data", seed: "7" };
    if (start !== undefined)
      await operations.train({ ...input, recipe: start.recipe, name: "base", parameters: start.parameters });
    const { summary } = await operations.train({
      ...input,
      recipe: one.recipe,
      name: "model",
      parameters: one.parameters,
      ...(start === undefined ? {} : { base: "base:1" }),
    });
    const named = objectsOf(summary.record).filter(({ kind }) => storyKinds.has(kind));
    const recordBytes = [summary.versionId, ...named.map(({ id }) => id)]
      .map((id) => repository.objects.stat(id)?.byteLength ?? 0)
      .reduce((sum, bytes) => sum + bytes, 0);
    const { verdict, text } = await operations.replay({ fleet, model: "model:1" });
    return { recordBytes, verdict: verdict === "proved" ? "" : text };
  } finally {
    await fleets.close();
    await home.close();
  }
}

function firstDifference(expected: Trained, actual: Trained): string | undefined {
  if (expected.root === actual.root) return undefined;
  const index = expected.leaves.findIndex((leaf, i) => leaf.tensor !== actual.leaves[i]?.tensor);
  return expected.leaves[index]?.name ?? "the architecture";
}

async function tryCondition(
  condition: string,
  expected: () => Promise<Trained> | Trained,
  actual: () => Promise<Trained>,
): Promise<Verdict> {
  const expectedResult = await expected();
  const startedMs = performance.now();
  let difference: string | undefined;
  try {
    difference = firstDifference(expectedResult, await actual());
  } catch (error) {
    difference = messageOf(error);
  }
  return { condition, difference, tookMs: performance.now() - startedMs };
}

async function measure(one: ExactnessCase, runtimes: readonly NodeRuntime[]): Promise<FamilyResult> {
  const start = allCases.find(({ recipe }) => recipe === one.startsFrom);
  const baseFolder = start && (await train(start, {})).folder;
  const startedMs = performance.now();
  const first = await train(one, { baseFolder });
  const tookMs = performance.now() - startedMs;
  const recorded = await replayRecorded(one);
  const verdicts: Verdict[] = [{ condition: "replay", difference: recorded.verdict || undefined, tookMs: 0 }];
  const compare = async (condition: string, actual: () => Promise<Trained>): Promise<void> => {
    verdicts.push(await tryCondition(condition, () => first, actual));
  };
  await compare("another process", () => train(one, { baseFolder }));
  await compare("2 threads", () => train(one, { baseFolder, threads: 2 }));
  await compare("4 threads", () => train(one, { baseFolder, threads: 4 }));
  await compare("killed", () => trainCut(one, baseFolder));
  for (const runtime of runtimes) await compare(runtime.name, () => train(one, { baseFolder, runtime }));
  for (const count of options.quick ? [2] : [2, 10])
    verdicts.push(
      await tryCondition(
        `${count} generations`,
        () => trainGenerations(one, count, { baseFolder }),
        () => trainGenerations(one, count, { baseFolder, threads: 2 }),
      ),
    );
  const { family, recipe, dataset } = one;
  const { root } = first;
  return {
    family,
    recipe,
    reader: dataset.reader,
    root,
    recordBytes: recorded.recordBytes,
    tookMs,
    verdicts,
  };
}

const introduction = `# Exactness

Whether each built-in recipe gives the same bits under every condition. Each is trained once, on one thread, and
compared by the Merkle root of its tensors with the same training under the conditions of the columns: \`=\` means equal
roots, anything else is the first tensor that differs. *Replay* is \`stemma replay run\` on the record of a version,
*killed* a training that was killed with SIGKILL in the middle and continued, *generations* are trainings from the
result of the one before, a second time on two threads. *Record* is the size of the save record, provenance, openings,
environment and metadata. The data are generated, so every machine has them.

\`\`\`sh
./stemma bench exactness --runtimes runtimes --markdown docs/exactness.md
\`\`\`

fetches other releases of Node.js into the folder \`runtimes\`; 64-bit ARM is emulated by qemu-user
(Debian: \`qemu-user libstdc++6-arm64-cross libatomic1-arm64-cross\`). Its exit status is 1 where bits differ. What
is refused instead of trained differently: [provenance.md](provenance.md#what-is-refused).
`;

function markdownOf(results: readonly FamilyResult[], notes: readonly string[]): string {
  const line = (cells: readonly string[]): string => `| ${cells.join(" | ")} |`;
  const conditions = results[0]?.verdicts.map(({ condition }) => condition) ?? [];
  const heading = ["family", "recipe", "data", "time", "record", "root", ...conditions];
  const rows = results.map(({ family, recipe, reader, tookMs, recordBytes, root, verdicts }) =>
    line([
      family,
      `\`${recipe}\``,
      `\`${reader}\``,
      formatDuration(tookMs),
      formatBytes(recordBytes),
      `\`${root.slice(0, 12)}\``,
      ...verdicts.map(({ difference }) => (difference === undefined ? "=" : `≠ ${difference}`)),
    ]),
  );
  return [introduction, line(heading), line(heading.map(() => "---")), ...rows, "", ...notes, ""].join("\n");
}

try {
  const { runtimes, missing } =
    options.runtimes === undefined
      ? { runtimes: [], missing: [] }
      : await fetchRuntimes(resolve(options.runtimes));
  const engine = await engineIdOfFolder(builtInEngineFolder());
  const only = options.only?.split(",");
  const chosen = allCases.filter(({ recipe }) => only?.includes(recipe) ?? true);
  if (chosen.length === 0) throw new Error(`no case of the benchmark trains ${options.only ?? "anything"}`);
  const cases = options.quick ? chosen.slice(0, 1) : chosen;
  const results: FamilyResult[] = [];
  for (const one of cases) {
    if (options.output !== "json") process.stderr.write(`${one.recipe} …\n`);
    results.push(await measure(one, runtimes));
  }
  const notes = [
    `Node ${process.version} on ${arch()}, ${cpus().length} processors, engine ${engine.slice(0, 12)}, ` +
      `${new Date().toISOString().slice(0, 10)}.`,
    ...missing.map(({ name, because }) => `${name} was left out: ${because}`),
  ];
  if (options.markdown !== undefined) await writeFile(options.markdown, markdownOf(results, notes));
  if (options.output === "json") process.stdout.write(`${JSON.stringify({ results, missing })}\n`);
  else {
    for (const result of results) {
      const { family, recipe, reader, root, recordBytes, tookMs } = result;
      process.stdout.write(
        `\n${family}: ${recipe} on ${reader}, ${formatDuration(tookMs)}, ` +
          `record ${formatBytes(recordBytes)}, root ${root.slice(0, 12)}\n`,
      );
      process.stdout.write(
        renderTable(result.verdicts, [
          { title: "CONDITION", value: ({ condition }) => condition },
          { title: "BITS", value: ({ difference }) => difference ?? "equal" },
          { title: "TOOK", value: ({ tookMs: ms }) => (ms === 0 ? "-" : formatDuration(ms)), align: "right" },
        ]),
      );
    }
    process.stdout.write(`\n${notes.join("\n")}\n`);
  }
  if (results.some(({ verdicts }) => verdicts.some(({ difference }) => difference !== undefined)))
    process.exitCode = 1;
} finally {
  await rm(folder, { recursive: true, force: true });
}
