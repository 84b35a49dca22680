/** A process of the engine that runs many jobs: the bits of processes of their own, and jobs that end it. */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { readdir } from "node:fs/promises";
import { dirname, join } from "node:path";
import { afterEach, describe, it } from "node:test";
import { EngineWorker, workerScript } from "../../../../shared/train/engine-worker.js";
import { writeJobFolder } from "../../../../shared/train/train-in-child.js";
import type { LossReport, TrainingJob } from "../../../../shared/train/training.js";
import { defined } from "../../../../shared/defined.js";
import { isEndedEarly } from "../../../../shared/train/engine-process.js";
import { pollUntil } from "../../../helpers/poll-until.js";
import { battery, bytes, engineRuns, job, refusal } from "./engine-runs.js";

const { folder, run, runPlain } = engineRuns();

/** The children of this process that are workers in a folder. */
function workersIn(place: string): readonly number[] {
  const children = readdirSync("/proc/self/task").flatMap((thread) =>
    readFileSync(`/proc/self/task/${thread}/children`, "utf8").split(" ").filter(Boolean),
  );
  return children.map(Number).filter((pid) => readFileSync(`/proc/${pid}/cmdline`, "utf8").includes(place));
}

describe("a worker of the engine", { skip: process.platform !== "linux" && "it looks at /proc" }, () => {
  let place = "";
  let worker: EngineWorker;
  const open = (): EngineWorker => {
    place = folder();
    return (worker = new EngineWorker(place));
  };
  afterEach(() => worker.close());
  const other: Partial<TrainingJob> = {
    seed: "2",
    threads: 2,
    dataset: battery(1, { cycles: 90, cells: 1 }),
  };

  it("gives every job the bits of a process of its own, whatever it ran before", async () => {
    open();
    const [plain, fresh] = [await bytes(await runPlain()), await bytes(await run(other))];
    assert.equal(await bytes(await run({}, { worker })), plain);
    const [pid] = workersIn(place);
    assert.equal(await bytes(await run(other, { worker })), fresh);
    assert.equal(await bytes(await run({}, { worker })), plain);
    assert.deepEqual(workersIn(place), [pid], "all in one process");
    await worker.close();
    assert.deepEqual(
      (await readdir(dirname(place))).filter((name) => place.endsWith(name)),
      [],
    );
  });

  it("goes on with the next job after one that failed, was refused or was stopped", async () => {
    open();
    const nobody = { worker, onPlan: () => Promise.reject(new Error("not today")) };
    await assert.rejects(
      run({ parameters: { epochs: 0 } }, { worker }),
      refusal("RECIPE_PARAMETERS_INVALID"),
    );
    await assert.rejects(run({}, nobody), /not today/);
    const stop = new AbortController();
    const stopped = run({}, { worker, signal: stop.signal, onProgress: () => stop.abort() });
    await assert.rejects(stopped, refusal("TRAINING_STOPPED"));
    await assert.rejects(run({}, { worker, signal: stop.signal }), refusal("TRAINING_STOPPED"));
    assert.equal(await bytes(await run({}, { worker })), await bytes(await runPlain()));
  });

  it("tells the losses after the steps that a job names, and ends a job without its process", async () => {
    open();
    const lossReports = [2, 5];
    const told = async (
      change: Partial<TrainingJob>,
      shared?: EngineWorker,
    ): Promise<readonly LossReport[]> => {
      const reports: LossReport[] = [];
      const onLoss = (report: LossReport): void => void reports.push(report);
      const trained = await run({ ...change, lossReports }, { onLoss, ...defined({ worker: shared }) });
      assert.equal(await bytes(trained), await bytes(await run(change)), "it is the same training");
      return reports.map(({ step, loss }) => ({ step, loss }));
    };
    const plain = await told({});
    assert.deepEqual(
      plain.map(({ step }) => step),
      lossReports,
    );
    assert.deepEqual(await told({ threads: 2 }, worker), plain);
    const [pid] = workersIn(place);
    const onLoss = (_: LossReport, end: () => void): void => {
      end();
    };
    for (const shared of [undefined, worker])
      await assert.rejects(
        run(
          { parameters: { epochs: 10_000, patience: 0 }, lossReports: [1] },
          { onLoss, ...defined({ worker: shared }) },
        ),
        isEndedEarly,
      );
    assert.equal(await bytes(await run({}, { worker })), await bytes(await runPlain()));
    assert.deepEqual(workersIn(place), [pid], "it was not ended with its job");
  });

  it("ends no later job than the one that was meant", async () => {
    open();
    let end = (): void => undefined;
    await run({ lossReports: [1] }, { worker, onLoss: (_, ending) => (end = ending) });
    const next = run({}, { worker, onProgress: () => end() });
    assert.equal(await bytes(await next), await bytes(await runPlain()));
  });

  it("refuses to tell losses of trainings that are not of steps alone", async () => {
    open();
    const bagging = { recipe: "bagging", parameters: { recipe: "battery-soh" }, lossReports: [1] };
    await assert.rejects(run(bagging, { worker }), refusal("RECIPE_PARAMETERS_INVALID"));
    await assert.rejects(
      run({ lossReports: [1] }, { worker, state: {} }),
      refusal("RECIPE_PARAMETERS_INVALID"),
    );
  });

  it("stops a job while its process starts", async () => {
    open();
    const jobFolder = folder();
    await writeJobFolder(job(), jobFolder);
    const stop = new AbortController();
    const phases: string[] = [];
    const stopped = worker.run(
      { jobFolder, resultFolder: join(jobFolder, "result") },
      { signal: stop.signal, onProgress: ({ phase }) => phases.push(phase) },
    );
    stop.abort();
    await assert.rejects(stopped, refusal("TRAINING_STOPPED"));
    assert.deepEqual(phases, [], "a training that took its course tells of itself");
  });

  it("repeats a job whose process was killed, once", async () => {
    open();
    let kills = 0;
    const killing = (most: number) => ({
      worker,
      onProgress: ({ phase }: { readonly phase: string }) => {
        if (phase !== "training" || kills === most) return;
        kills++;
        for (const pid of workersIn(place)) process.kill(pid, "SIGKILL");
      },
    });
    assert.equal(await bytes(await run({}, killing(1))), await bytes(await runPlain()));
    assert.equal(kills, 1);
    await assert.rejects(run({}, killing(3)), refusal("TRAINING_STOPPED"));
    assert.equal(kills, 3);
    assert.equal(await bytes(await run({}, { worker })), await bytes(await runPlain()));
  });
});

it("a worker ends with the process that started it", { skip: process.platform !== "linux" }, async () => {
  const [place, work] = [folder(), folder()];
  await writeJobFolder(job({ parameters: { epochs: 10_000, patience: 0 } }), work);
  const module = new URL("../../../../shared/train/engine-worker.js", import.meta.url).href;
  const program = `
    const { EngineWorker } = await import(${JSON.stringify(module)});
    const { readFileSync, writeSync } = await import("node:fs");
    const folders = { jobFolder: ${JSON.stringify(work)}, resultFolder: ${JSON.stringify(`${work}/result`)} };
    void new EngineWorker(${JSON.stringify(place)}).run(folders, {
      onProgress: ({ phase }) => {
        if (phase !== "training") return;
        writeSync(1, readFileSync("/proc/thread-self/children"));
        process.kill(process.pid, "SIGKILL");
      },
    });`;
  const { stdout, stderr, signal } = spawnSync(process.execPath, ["--input-type=module", "-e", program]);
  assert.equal(signal, "SIGKILL", stderr.toString());
  const pid = Number(stdout);
  assert.ok(pid > 0);
  await pollUntil(`process ${pid} has ended`, () => !existsSync(`/proc/${pid}`));
});

it("an engine that does not end as a worker needs it is refused", () => {
  assert.throws(() => workerScript("run();"), refusal("INTERNAL"));
  assert.ok(workerScript("a()?await b():await c();\n").startsWith("a()?await b():await(async function"));
});
