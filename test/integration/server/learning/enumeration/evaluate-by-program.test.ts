/** Candidates that a program of the user's own trains: real processes, which do what their settings say. */
import assert from "node:assert/strict";
import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { chmod, mkdir, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, afterEach, before, describe, it } from "node:test";
import { promisify } from "node:util";
import { isStemmaError } from "../../../../../shared/errors.js";
import { noteProcess } from "../../../../../shared/programs/left-process.js";
import { programSettingsOf } from "../../../../../shared/programs/program-settings.js";
import type { ServerOperations } from "../../../../../server/interface/api/server-operations.js";
import { connectOperations } from "../../../../../server/interface/http/client.js";
import { openLocalOperations } from "../../../../../server/operations/local-operations.js";
import { runStemmaHere } from "../../../../helpers/run-stemma-here.js";
import { repositoryRoot } from "../../../../helpers/markdown.js";

const fleet = "local";

/** A trainer: `loss` of step n is learningRate / n; parameters tell it to do what programs do wrong. */
const script = `
import { appendFileSync, copyFileSync, readFileSync, writeFileSync, existsSync } from "node:fs";
import { join } from "node:path";
const input = process.env.STEMMA_INPUT;
const job = JSON.parse(readFileSync(join(input, "job.json"), "utf8"));
const { learningRate = 1, epochs = 10, does = "", frozenLayers, layerRates } = job.parameters;
const file = process.env.NOTED;
const note = (what) => appendFileSync(file, JSON.stringify({ ...what, invocation: job.invocation }) + "\\n");
note({ began: process.pid, job, frozenLayers, layerRates, rest: Object.keys(process.env).sort() });
const bytes = readFileSync(join(input, job.base.model));
const start = 8 + Number(bytes.readBigUInt64LE(0));
const header = JSON.parse(bytes.subarray(8, start));
const measurements = [];
for (let step = 1; step <= epochs; step++) {
  const loss = learningRate / step;
  measurements.push({ iteration: step, epoch: step, loss, learningRate });
  if (does !== "silent") console.log(JSON.stringify({ type: "progress", iteration: step, loss }));
  if (does === "crash") { console.error("no \\u001b[31mmemory"); process.exit(3); }
  if (does === "killed") process.kill(process.pid, "SIGKILL");
  await new Promise((done) => setTimeout(done, does === "hang" && step > 2 ? 600_000 : 5));
}
const names = Object.keys(header).filter((name) => name !== "__metadata__");
const changed = does === "frozen" ? names : names.slice(-1);
for (const name of changed) bytes.writeFloatLE(does === "nan" ? NaN : learningRate, start + header[name].data_offsets[0]);
writeFileSync("model.safetensors", does === "torn" ? bytes.subarray(0, start + 3) : bytes);
if (does === "much") writeFileSync("much", Buffer.alloc(300_000));
writeFileSync("metrics.json", JSON.stringify({ note: "made here", measurements: does === "silent" ? measurements : [],
  metric: { name: "score", lowerIsBetter: does === "lower", before: 0, after: learningRate * 100 } }));
note({ ended: process.pid });
`;

describe("evaluate by a program", () => {
  let folder: string;
  let noted: string;
  const opened: ServerOperations[] = [];
  const open = async (): Promise<ServerOperations> => {
    const operations = await openLocalOperations({ home: join(folder, "home") });
    opened.push(operations);
    return operations;
  };
  const programOf = (settings: object = {}) => {
    const path = join(folder, "trainer.json");
    const exec = [process.execPath, join(folder, "train.mjs")];
    return { path, settings: programSettingsOf({ exec, environment: { NOTED: noted }, ...settings }, path) };
  };
  const notes = async (): Promise<readonly Readonly<Record<string, never>>[]> =>
    (await readFile(noted, "utf8").catch(() => ""))
      .split("\n")
      .flatMap((line) => (line === "" ? [] : [JSON.parse(line) as Readonly<Record<string, never>>]));
  before(async () => {
    folder = await mkdtemp(join(tmpdir(), "stemma-by-program-"));
    noted = join(folder, "noted");
    await writeFile(join(folder, "train.mjs"), script);
    await writeFile(join(folder, "trainer.json"), "{}");
    for (const name of ["train.mjs", "trainer.json"]) await chmod(join(folder, name), 0o644);
    const net = join(repositoryRoot, "examples/small-alexnet.mjs");
    await promisify(execFile)(process.execPath, [net, "net", "Average", "28"], { cwd: folder });
    const operations = await open();
    await operations.addDataset({
      ...{ fleet, name: "path1", kind: "images-generated", location: "" },
      parameters: { count: 20 },
    });
    const file = await readFile(join(folder, "net.safetensors"));
    await operations.import(
      { byteLength: file.length, chunks: chunksOf(file) },
      { fleet, name: "net", architecture: await readFile(join(folder, "net.json"), "utf8") },
    );
    await operations.close();
  });
  afterEach(async () => {
    for (const operations of opened.splice(0)) await operations.close();
    await rm(noted, { force: true });
  });
  after(() => rm(folder, { recursive: true, force: true }));

  const config = { input_data: "path1", epochs: 10 };
  const evaluate = (vary: string, keep: string): string =>
    `evaluate m from (select a where a.name = "net") with config = "c" vary ${vary} keep ${keep}`;

  it("records a program whose owner wants that, which is run again where it is approved", async () => {
    const record = { files: [join(folder, "train.mjs")], variables: ["NOTED"] };
    const program = programOf({ record });
    const query = evaluate("config.lr in [0.25]", 'top(1, m["loss"], 3)');
    const operations = await open();
    const [{ saved } = assert.fail()] = (
      await operations.evaluateQuery({ fleet, query, config, seed: "7" }, { program })
    ).candidates;
    const model = saved?.versionId ?? assert.fail();
    const refused = await operations.replay({ fleet, model });
    assert.deepEqual(
      [refused.verdict, refused.reason],
      ["unreplayable", "program-not-approved"],
      refused.text,
    );
    await operations.close();
    const home = join(folder, "home");
    const approved = await runStemmaHere(["replay", "program", "approve", model, "--fleet", fleet], { home });
    assert.equal(approved.status, 0, approved.stderr);
    const reopened = await open();
    const again = await reopened.replay({ fleet, model });
    assert.deepEqual([again.verdict, again.grade], ["proved", "bit-exact"], again.text);
    assert.equal((await notes()).filter((each) => "ended" in each).length, 2);
    // The job of a derived base names no version from which a replay could begin.
    const derived = query
      .replace("(select a", "(construct wide from a")
      .replace('"net")', '"net" mutate a["fc8"].insert = DENSE("fc9", units=10))');
    const [second = assert.fail()] = (
      await reopened.evaluateQuery({ fleet, query: derived, config, seed: "7" }, { program })
    ).candidates;
    const other = await reopened.replay({ fleet, model: second.saved?.versionId ?? "" });
    assert.equal(other.verdict, "unreplayable");
  });

  it("gives it the job of a device's trainer, ends what has no place, and saves what it left", async () => {
    const operations = await open();
    const query = `evaluate m from (construct wide from a where a.name = "net"
      mutate a["fc8"].insert = DENSE("fc9", units=10)) with config = "c"
      vary config.lr in [0.5, 0.9, 0.1] and config.net["conv*"].lr in [0] and config.net["fc7"].lr in [0.25]
      keep top(1, m["loss"], 3)`;
    const report = await operations.evaluateQuery(
      { fleet, query, config: { ...config, epochs: 40 }, seed: "7" },
      { program: programOf() },
    );
    const [first, second, third] = report.candidates;
    assert.match(second?.reason ?? "", /another is as good or better/);
    assert.match(first?.reason ?? "", /another is as good or better/);
    assert.equal(third?.figure, 0.1 / 3);
    assert.equal(third?.iteration, 3);
    assert.equal(report.judgedAtEnd, undefined);
    const all = await notes();
    assert.deepEqual(
      all.filter((each) => "ended" in each).map(({ invocation }) => invocation),
      [1, 3],
      "the second was ended when it was worse",
    );
    const began = all[0] as unknown as {
      readonly job: { readonly base: object; readonly samples: object; readonly parameters: object };
      readonly rest: readonly string[];
    };
    assert.deepEqual(began.job, {
      ...{ format: 1, line: "models", invocation: 1, seed: "7" },
      parameters: { epochs: 40, frozenLayers: "1,3,5,6,7", layerRates: "11=0.25", learningRate: 0.5 },
      base: {
        ...{ versionId: null, model: "base/model.safetensors" },
        ...{ architecture: "base/architecture.json", names: "base/names.json" },
      },
      samples: began.job.samples,
      ...limitsIn(began.job),
    });
    assert.ok(began.rest.includes("NOTED") && !began.rest.includes("USER"));
    const shown = await operations.model({ fleet, model: third?.saved?.versionId ?? "" });
    assert.equal(shown.bases[0]?.name, "net-wide");
    assert.equal(shown.metadata?.["note"], "made here");
    assert.equal(shown.metadata?.["lr"], 0.1);
    assert.equal(shown.metadata?.["trainer.program"], "node train.mjs");
    const proof = await operations.replay({ fleet, model: third?.saved?.versionId ?? "" });
    assert.equal(proof.verdict, "unreplayable");
    assert.deepEqual(await readdir(join(folder, "home", "run", "trainings")), []);
  });

  it("judges at the end where it tells no steps, and by a metric that its settings name", async () => {
    const operations = await open();
    const silent = await operations.evaluateQuery(
      {
        ...{ fleet, seed: "1", config: { ...config, does: "silent" } },
        query: evaluate("config.lr in [0.5, 0.25]", 'top(1, m["loss"], 4)'),
      },
      { program: programOf() },
    );
    assert.equal(silent.judgedAtEnd, 2);
    assert.equal(silent.candidates[1]?.figure, 0.25 / 4);
    const metric = { name: "score", lowerIsBetter: false };
    const query = evaluate("config.lr in [0.5, 0.25]", 'top(1, m["score"])');
    const scored = await operations.evaluateQuery(
      { fleet, seed: "2", config, query },
      { program: programOf({ metric }) },
    );
    assert.equal(scored.candidates[0]?.figure, 50);
    assert.ok(scored.candidates[0]?.saved);
    await assert.rejects(
      operations.evaluateQuery({ fleet, seed: "3", config, query }, { program: programOf() }),
      { code: "QUERY_INVALID", message: /"lowerIsBetter"/ },
    );
  });

  it("reports each candidate whose program fails, and goes on with the others", async () => {
    const operations = await open();
    const query = evaluate(
      'config.does in ["crash", "killed", "nan", "torn", "much", "frozen", "lower", ""] and ' +
        'config.net["conv1"].lr in [0]',
      'top(8, m["score"])',
    );
    const report = await operations.evaluateQuery(
      { fleet, query, config: { ...config, epochs: 2 }, seed: "4" },
      { program: programOf({ maxOutputBytes: 250_000, metric: { name: "score" } }) },
    );
    const reasons = report.candidates.map(({ reason = "", saved }) =>
      saved === undefined ? reason : "saved",
    );
    const expected = [
      /^its program ended with status 3; it wrote: no \\u\{1b\}\[31mmemory$/,
      /killed twice/,
      /NaN or infinite/,
      /model.safetensors/,
      /wrote more than 250000 bytes, or very many files/,
      /changed the tensor .* not to be trained/,
      /other direction for score/,
      /^saved$/,
    ];
    expected.forEach((pattern, at) => assert.match(reasons[at] ?? "", pattern));
    const killed = (await notes()).filter((each) => "began" in each && each["invocation"] === 2);
    assert.equal(killed.length, 2, "what something else kills runs once more");
  });

  it("is ended with the evaluation, and goes on with what it left", async () => {
    const query = evaluate('config.lr in [0.5, 0.25, 0.125] and config.does in [""]', 'top(1, m["loss"])');
    const request = { fleet, query, config, seed: "5" };
    const first = await open();
    const stop = new AbortController();
    const program = programOf();
    await assert.rejects(
      first.evaluateQuery(request, {
        program,
        signal: stop.signal,
        onProgress: ({ line }) => {
          if (/^candidate 2 .*: step \d/.test(line)) stop.abort();
        },
      }),
      { code: "TRAINING_STOPPED", message: /goes on there/ },
    );
    const began = (await notes()).filter((each) => "began" in each);
    assert.throws(() => process.kill(began[1]?.["began"] ?? 0, 0), { code: "ESRCH" });
    await first.close();
    const again = await open();
    const report = await again.evaluateQuery(request, { program });
    assert.equal(report.candidates[2]?.saved?.name, "net-m");
    const all = (await notes()).flatMap((each) => ("began" in each ? [each["invocation"]] : []));
    assert.deepEqual(all, [1, 2, 2, 3]);
    assert.equal(
      (await again.models({ fleet, name: "net-m" })).filter(({ record }) => record.bases.length).length > 0,
      true,
    );
  });

  it("is ended where a killed process left it, also by another evaluation", async () => {
    const left = join(folder, "home", "run", "trainings", "0".repeat(32), "candidate-1");
    await mkdir(left, { recursive: true });
    const child = spawn(process.execPath, ["-e", "setTimeout(() => {}, 600_000)"], {
      detached: true,
      stdio: "ignore",
    });
    const ended = once(child, "exit");
    try {
      await noteProcess(left, child.pid ?? 0);
      const operations = await open();
      await operations.evaluateQuery(
        { fleet, query: evaluate("config.lr in [0.75]", 'top(1, m["loss"])'), config, seed: "8" },
        { program: programOf() },
      );
      assert.notEqual(child.signalCode, null);
      await ended;
    } finally {
      child.kill("SIGKILL");
    }
  });

  it("is time-limited by its settings, and refused where others may change it or a request names it", async () => {
    const operations = await open();
    const query = evaluate('config.does in ["hang"]', 'top(1, m["loss"])');
    const request = { fleet, query, config, seed: "6" };
    const report = await operations.evaluateQuery(request, { program: programOf({ timeoutSeconds: 1 }) });
    assert.match(report.candidates[0]?.reason ?? "", /did not end within 1 s/);
    await chmod(join(folder, "train.mjs"), 0o666);
    const refused = operations.evaluateQuery(request, { program: programOf() });
    await assert.rejects(refused, { code: "CONFIG_INVALID", message: /can be written to by all users/ });
    await chmod(join(folder, "train.mjs"), 0o644);
    const remote = connectOperations({ url: "http://127.0.0.1:9", token: "none" });
    await assert.rejects(remote.evaluateQuery(request, { program: programOf() }), (error) =>
      isStemmaError(error, "USAGE"),
    );
    await remote.close();
    await assert.rejects(operations.evaluateQuery(request), { code: "QUERY_INVALID", message: /--trainer/ });
    const recipe = { ...request, config: { ...config, recipe: "image-classify" } };
    await assert.rejects(operations.evaluateQuery(recipe, { program: programOf() }), {
      code: "QUERY_INVALID",
    });
  });
});

const limitsIn = (job: object): object =>
  Object.fromEntries(
    Object.entries(job).filter(([name]) =>
      ["memoryLimitMb", "threads", "timeoutSeconds", "maxOutputBytes"].includes(name),
    ),
  );

async function* chunksOf(bytes: Buffer): AsyncGenerator<Uint8Array> {
  await Promise.resolve();
  yield bytes;
}
