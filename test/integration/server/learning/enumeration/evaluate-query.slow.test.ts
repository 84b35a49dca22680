/** The paper's Query 4 on a repository made for it, with the real engine; and evaluations that were cut short. */
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, afterEach, before, describe, it } from "node:test";
import { promisify } from "node:util";
import type { EvaluatedModels } from "../../../../../server/interface/api/models/enumeration-schemas.js";
import type { ServerOperations } from "../../../../../server/interface/api/server-operations.js";
import { openLocalOperations } from "../../../../../server/operations/local-operations.js";
import { repositoryRoot } from "../../../../helpers/markdown.js";

const fleet = "local";
const query3 = `construct m2 from m1
         where m1.name like "alexnet-avgv1%" and
               m1["conv*($1)"].next has POOL("AVG")
         mutate m1["conv*($1)"].insert = RELU("relu$1")`;
const query4 = `evaluate m
         from "query3"
         with config = "path to config"
         vary config.base_lr in [0.1, 0.01, 0.001] and
              config.net["conv*"].lr auto and
              config.input_data in ["path1", "path2"]
         keep top(5, m["loss"], 100)`;
/** Four epochs of 31 samples, one a step: 124 steps. */
const config = {
  ...{ recipe: "image-classify", input_data: "path1", optimizer: "sgd", batch: 1, epochs: 4 },
  ...{ patience: 0, shiftPixels: 0 },
};

describe("evaluate", () => {
  let folder: string;
  const opened: ServerOperations[] = [];
  const open = async (home: string): Promise<ServerOperations> => {
    const operations = await openLocalOperations({ home: join(folder, home) });
    opened.push(operations);
    return operations;
  };
  before(async () => {
    folder = await mkdtemp(join(tmpdir(), "stemma-evaluate-"));
    const script = join(repositoryRoot, "examples/small-alexnet.mjs");
    await promisify(execFile)(process.execPath, [script, "net", "Average", "28"], { cwd: folder });
    for (const home of ["a", "b"]) {
      const operations = await open(home);
      for (const vehicle of [1, 2])
        await operations.addDataset({
          ...{ fleet, name: `path${vehicle}`, kind: "images-generated", location: "" },
          parameters: { count: 50, vehicle },
        });
      const file = await readFile(join(folder, "net.safetensors"));
      await operations.import(
        { byteLength: file.length, chunks: chunksOf(file) },
        { fleet, name: "alexnet-avgv1", architecture: await readFile(join(folder, "net.json"), "utf8") },
      );
      await operations.saveQuery({ fleet, name: "query3", query: query3 });
      await operations.close();
    }
  });
  afterEach(async () => {
    for (const operations of opened.splice(0)) await operations.close();
  });
  after(() => rm(folder, { recursive: true, force: true }));

  it("trains the paper's Query 4 as it is written, and keeps five that replay bit for bit", async () => {
    const operations = await open("a");
    const { evaluation } = await operations.runQuery({ fleet, query: query4, config });
    assert.equal(evaluation?.candidates, 12);
    assert.deepEqual(evaluation?.models, ["alexnet-avgv1-m2"]);
    assert.deepEqual(evaluation?.rounds, [{ iteration: 100, candidates: 12, keeps: 5 }]);
    assert.equal(evaluation?.steps, 1200);
    assert.equal((await operations.models({ fleet })).length, 1, "nothing is trained");

    const report = await operations.evaluateQuery({ fleet, query: query4, config, seed: "4" });
    const figures = report.candidates.map(({ figure }) => figure ?? Infinity);
    const best = [...figures].sort((a, b) => a - b).slice(0, 5);
    const kept = report.candidates.filter(({ saved }) => saved !== undefined);
    assert.deepEqual(
      kept.map(({ figure }) => figure ?? Infinity).sort((a, b) => a - b),
      best,
    );
    assert.equal(new Set(figures).size, 12, "no two candidates are the same training");
    for (const { reason } of report.candidates.filter(({ saved }) => saved === undefined))
      assert.equal(reason, "5 others are as good or better");
    for (const { figure, iteration, settings, saved } of kept) {
      const shown = await operations.model({ fleet, model: saved?.versionId ?? "" });
      assert.equal(shown.bases[0]?.name, "alexnet-avgv1-m2");
      // The figure that it was judged by is one of the training that the version is of.
      assert.equal(shown.measurements?.find((each) => each.iteration === iteration)?.loss, figure);
      assert.ok((iteration ?? 0) >= 100 && (iteration ?? 0) < 104);
      assert.equal(shown.metadata?.["base_lr"], settings["base_lr"]);
      assert.equal(shown.metadata?.["input_data"], settings["input_data"]);
      if (settings['net["conv*"].lr'] !== 0) continue;
      const { changes } = await operations.diff({
        ...{ fleet, a: shown.bases[0]?.versionId ?? "", b: saved?.versionId ?? "" },
      });
      assert.ok(
        changes.length > 0 && changes.every(({ name }) => !name.startsWith("conv")),
        "they stay as they are",
      );
    }
    const newest = kept.reduce((a, b) => ((a.saved?.version ?? 0) > (b.saved?.version ?? 0) ? a : b));
    assert.equal(newest.figure, best[0], "the best is the newest");
    const proved = await operations.replay({ fleet, model: newest.saved?.versionId ?? "" });
    assert.equal(proved.verdict, "proved");
    assert.equal(proved.grade, "bit-exact");
    const { rows } = await operations.runQuery({
      fleet,
      query: `select m where m.name = "alexnet-avgv1-m2-m" and m.config.base_lr in [0.1, 0.01, 0.001]`,
    });
    assert.equal(rows.length, 5);
    await operations.close();
  });

  it("goes on where it was stopped, in a candidate or between two, and ends as one that was not", async () => {
    const query = `evaluate m from (select a where a.name = "alexnet-avgv1") with config = "c"
      vary config.base_lr in [0.05, 0.01] and config.batch in [1, 2] keep top(1, m["loss"], 40) halving`;
    const request = { fleet, query, config, seed: "9" };
    const whole = await open("a");
    const expected = await whole.evaluateQuery(request);
    const modelsOf = async (operations: ServerOperations) =>
      (await operations.models({ fleet, name: "alexnet-avgv1-m" })).map(({ record }) => record.contentId);
    const contents = await modelsOf(whole);
    await whole.close();
    assert.equal(contents.length, 1);
    for (const moment of [/^candidate 2 of 4, .*: step \d/, /^candidate 3 of 4, .*: starting/]) {
      const operations = await open("b");
      const stop = new AbortController();
      const stopped = operations.evaluateQuery(request, {
        onProgress: ({ line }) => {
          if (moment.test(line)) stop.abort();
        },
        signal: stop.signal,
      });
      await assert.rejects(stopped, { code: "TRAINING_STOPPED", message: /goes on there/ });
      assert.deepEqual(await modelsOf(operations), []);
      await operations.close();
    }
    const again = await open("b");
    const lines: string[] = [];
    const report = await again.evaluateQuery(request, { onProgress: ({ line }) => lines.push(line) });
    assert.deepEqual(withoutIds(report), withoutIds(expected));
    assert.deepEqual(await modelsOf(again), contents);
    assert.deepEqual(await readdir(join(folder, "b", "run", "trainings")), []);
    // The same once more makes the same model, which is there.
    assert.deepEqual(withoutIds(await again.evaluateQuery(request)), withoutIds(expected));
    assert.deepEqual(await modelsOf(again), contents);
    await again.close();
  });

  it("begins new layers with the weights that a stored model has for them", async () => {
    const operations = await open("a");
    const query = `evaluate d from (construct wide from a where a.name = "alexnet-avgv1"
      mutate a["conv5"].insert = CONV("extra", filters=8, kernel_size=3, padding="same") and
             a["fc8"].insert = DENSE("last", units=10)) with config = "c" keep top(1, d["loss"])`;
    const short = { ...config, epochs: 1 };
    const ask = (seed: string, options = {}) =>
      operations.evaluateQuery({ fleet, query, config: short, seed }, options);
    const first = await ask("21");
    assert.deepEqual(first.newWeights, [
      { model: "alexnet-avgv1-wide", from: null, inherited: 0, bytes: 0, drawn: 4 },
    ]);
    const kept = first.candidates[0]?.saved;
    const plan = await operations.runQuery({ fleet, query, config: short });
    const { model, from, inherited, drawn } = plan.evaluation?.newWeights[0] ?? {};
    assert.deepEqual([model, from, inherited, drawn], ["alexnet-avgv1-wide", kept, 4, 0]);

    // Another model with these layers comes meanwhile: what was begun goes on with the one that it began with.
    const stop = new AbortController();
    const stopped = ask("22", { signal: stop.signal, onProgress: () => stop.abort() });
    await assert.rejects(stopped, { code: "TRAINING_STOPPED" });
    const other = (await ask("23")).candidates[0]?.saved;
    assert.notEqual(other?.versionId, kept?.versionId);
    const again = await ask("22");
    assert.deepEqual(again.newWeights[0]?.from, kept);

    const child = again.candidates[0]?.saved?.versionId ?? "";
    const { bases } = await operations.model({ fleet, model: child });
    const base = bases[0]?.versionId ?? "";
    assert.deepEqual(
      (await operations.model({ fleet, model: base })).bases.map(({ versionId }) => versionId),
      [(await operations.models({ fleet, name: "alexnet-avgv1" }))[0]?.versionId, kept?.versionId],
    );
    const { changes } = await operations.diff({ fleet, a: kept?.versionId ?? "", b: base });
    const changed = new Set(changes.map(({ name }) => name.split("/")[0]));
    assert.ok(!changed.has("extra") && !changed.has("last") && changed.has("conv1"));
    const { verdict } = await operations.replay({ fleet, model: child });
    assert.equal(verdict, "proved");
    await operations.close();
  });

  it("goes on with the same sources where models have no candidates, also with the model that is changed", async () => {
    const operations = await open("a");
    const script = join(repositoryRoot, "examples/small-alexnet.mjs");
    await promisify(execFile)(process.execPath, [script, "max", "Max", "28"], { cwd: folder });
    const file = await readFile(join(folder, "max.safetensors"));
    const { summary } = await operations.import(
      { byteLength: file.length, chunks: chunksOf(file) },
      { fleet, name: "max", architecture: await readFile(join(folder, "max.json"), "utf8") },
    );
    await operations.saveDerived({
      ...{ fleet, seed: "1" },
      query: `construct more from a where a.name = "max" mutate a["fc8"].insert = DENSE("more", units=10)`,
    });
    const evaluate = (names: string, rest = "") => `evaluate d from (construct deep from a where ${names}
      mutate a["conv3"].insert = CONV("copy", filters=8, kernel_size=3, padding="same", activation="relu"))
      with config = "c" ${rest} keep top(1, d["loss"])`;
    const short = { ...config, epochs: 1 };

    // The copy is as conv4, which the changed model has.
    const own = await operations.evaluateQuery({
      ...{ fleet, config: short, seed: "31", query: evaluate('a.name = "max"') },
    });
    assert.equal(own.newWeights[0]?.from?.versionId, summary?.versionId);
    const saved = await operations.model({ fleet, model: own.candidates[0]?.saved?.versionId ?? "" });
    const base = await operations.model({ fleet, model: saved.bases[0]?.versionId ?? "" });
    assert.deepEqual(
      base.bases.map(({ versionId }) => versionId),
      [summary?.versionId],
    );

    const query = evaluate(
      '(a.name = "alexnet-avgv1" or a.name = "max-more")',
      'vary config.net["more"].lr in [0]',
    );
    const request = { fleet, config: short, seed: "32", query };
    const { evaluation } = await operations.runQuery(request);
    const expected = evaluation?.newWeights.find((each) => each.model === "max-more-deep")?.from;
    assert.ok(expected?.name.startsWith("max"));
    const stop = new AbortController();
    await assert.rejects(
      operations.evaluateQuery(request, { signal: stop.signal, onProgress: () => stop.abort() }),
      { code: "TRAINING_STOPPED" },
    );
    const again = await operations.evaluateQuery(request);
    assert.deepEqual(again.newWeights.find((each) => each.model === "max-more-deep")?.from, expected);

    const other = { ...request, seed: "33" };
    const second = new AbortController();
    await assert.rejects(
      operations.evaluateQuery(other, { signal: second.signal, onProgress: () => second.abort() }),
      { code: "TRAINING_STOPPED" },
    );
    const { evaluation: planned } = await operations.runQuery(other);
    const source = planned?.newWeights.find((each) => each.model === "max-more-deep")?.from;
    const gone = [source?.versionId ?? "", "max-more"];
    for (const model of gone) await retireAndCollect(operations, model);
    const under = await operations.evaluateQuery(other);
    assert.deepEqual(under.newWeights.find((each) => each.model === "max-more-deep")?.from, source);
    assert.ok(under.candidates[0]?.saved);
    await operations.close();
  });

  it("keeps what it comes from, though it is retired and collected between choice and save", async () => {
    const operations = await open("b");
    const derive = (from: string) => `construct leased from a where a.name = "${from}"
      mutate a["conv5"].insert = CONV("extra", filters=8, kernel_size=3, padding="same")`;
    const { derived } = await operations.saveDerived({ fleet, query: derive("alexnet-avgv1"), seed: "1" });
    const base = derived[0]?.saved?.versionId ?? "";
    const short = { ...config, epochs: 1 };
    const query = `evaluate k from (select a where a.name = "alexnet-avgv1-leased") with config = "c"
      vary config.base_lr in [0.05, 0.01] keep top(2, k["loss"])`;
    let removed: Promise<void> | undefined;
    const report = await operations.evaluateQuery(
      { fleet, query, config: short, seed: "5" },
      { onProgress: () => void (removed ??= retireAndCollect(operations, base)) },
    );
    assert.ok(removed);
    await removed;
    assert.equal(report.candidates.filter(({ saved }) => saved !== undefined).length, 2);
    const child = await operations.model({ fleet, model: report.candidates[0]?.saved?.versionId ?? "" });
    assert.equal(child.bases[0]?.versionId, base);
    await assert.rejects(operations.evaluateQuery({ fleet, query, config: short, seed: "5" }), {
      code: "QUERY_INVALID",
    });
    await operations.close();
  });

  it("reports candidates that cannot be trained, each with its reason", async () => {
    const operations = await open("a");
    const ask = (vary: string, keep: string) =>
      operations.evaluateQuery({
        fleet,
        query: `evaluate w from (select a where a.name = "alexnet-avgv1") with config = "c" vary ${vary} keep ${keep}`,
        config,
        seed: "3",
      });
    const { candidates, notMade } = await ask(
      'config.epochs in [1, 2] and config.net["fc9"].lr auto',
      'top(3, w["loss"], 40)',
    );
    assert.deepEqual(
      notMade.map(({ reason }) => reason),
      [
        'config.net["fc9"].lr finds no layer with weights',
        'config.net["fc9"].lr finds no layer with weights',
      ],
    );
    assert.match(candidates[0]?.reason ?? "", /trains 31 steps, fewer than the 40/);
    assert.equal(candidates[1]?.saved?.name, "alexnet-avgv1-w");
    const { candidates: good } = await ask("config.epochs in [1]", 'above(w["accuracy"], 101)');
    assert.equal(good[0]?.reason, "it is below 101");
    await assert.rejects(ask('config.input_data in ["none"]', 'top(1, w["loss"])'), {
      code: "DATASET_UNKNOWN",
    });
    await assert.rejects(
      operations.evaluateQuery({
        fleet,
        query: 'evaluate w from (select a where a.name = "none") with config = "c" keep top(1, w["loss"])',
        config,
      }),
      { code: "QUERY_INVALID", message: /finds no model/ },
    );
    await operations.close();
  });
});

async function retireAndCollect(operations: ServerOperations, model: string): Promise<void> {
  await operations.retire({ fleet, model });
  await operations.collect({ fleet, ...(await operations.planCollection({ fleet })) });
}

async function* chunksOf(bytes: Buffer): AsyncGenerator<Uint8Array> {
  await Promise.resolve();
  yield bytes;
}

function withoutIds({ candidates, ...report }: EvaluatedModels): unknown {
  return {
    ...report,
    candidates: candidates.map(({ saved, ...candidate }) => ({
      ...candidate,
      saved: saved && { ...saved, versionId: "" },
    })),
  };
}
