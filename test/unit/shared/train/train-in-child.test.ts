/**
 * The engine as its callers use it: a bundle with an id, a child process, a job folder and a result folder. Its build
 * elsewhere and the optimizer's state over processes are in train-in-child.slow.test.ts.
 */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { cp, readFile, writeFile } from "node:fs/promises";
import { availableParallelism } from "node:os";
import { dirname, join, resolve } from "node:path";
import { describe, it } from "node:test";
import { fileURLToPath, pathToFileURL } from "node:url";
import { isStemmaError, type ErrorCode } from "../../../../shared/errors.js";
import { decodeArchitecture, weightSlots } from "../../../../shared/model/architecture.js";
import { fileOfBytes, readSafetensors } from "../../../../shared/tensor/safetensors.js";
import type { Hash } from "../../../../shared/tensor/tensor.js";
import { builtInEngineFolder, engineIdOfFolder } from "../../../../shared/train/engine-folder.js";
import {
  readResultFolder,
  trainInChild,
  writeJobFolder,
  type TrainingOutcome,
} from "../../../../shared/train/train-in-child.js";
import { readModelFiles } from "../../../../shared/train/engine/model-files.js";
import type { TrainingJob } from "../../../../shared/train/training.js";
import { drawn } from "../../../helpers/test-depth.js";
import { battery, bytes, engineRuns, job, refusal } from "./engine-runs.js";

const root = resolve(dirname(fileURLToPath(import.meta.url)), "../../../../..");
const { folder, run, runPlain, plainProgress } = engineRuns();

describe("training engine", () => {
  it("has the committed id, which does not depend on the folder's name", async () => {
    const { id } = JSON.parse(await readFile(join(root, "shared/train/engine-id.json"), "utf8")) as {
      id: string;
    };
    const built = await engineIdOfFolder(builtInEngineFolder());
    assert.equal(
      built,
      id,
      "the engine changed: see what changed its bits, then accept it with `node launcher/engine.mjs --accept`",
    );
    const { engineIdOf } = (await import(pathToFileURL(join(root, "launcher/engine.mjs")).href)) as {
      engineIdOf: (folder: string) => Promise<string>;
    };
    assert.equal(await engineIdOf(builtInEngineFolder()), built);
  });

  it("trains the same job to the same bytes in two processes, and to other bytes with another seed or invocation", async () => {
    // `threads` is a maximum: the number that a profile allows does not change the bits.
    const [first, second] = await Promise.all([runPlain(), run({ threads: 8 })]);
    assert.equal(await bytes(second), await bytes(first));
    for (const other of drawn<Partial<TrainingJob>>([{ seed: "2" }, { invocation: 1 }], 1))
      assert.notEqual(await bytes(await run(other)), await bytes(first), JSON.stringify(other));
    const same = (outcome: TrainingOutcome): object => ({ ...outcome.result, durationMs: 0 });
    assert.deepEqual(same(second), same(first), "results differ only in their duration");
  });

  it("writes tensors named by their canonical path, an architecture, measurements and provenance", async () => {
    const { result, architecture, modelFile, architectureFile } = await runPlain();
    assert.deepEqual(architecture, decodeArchitecture(await readFile(architectureFile)));
    const file = await readSafetensors(fileOfBytes(await readFile(modelFile)), modelFile);
    assert.deepEqual(
      file.tensors.map(({ name }) => name),
      weightSlots(architecture).map(({ path }) => path),
    );
    assert.equal(result.engine, await engineIdOfFolder(builtInEngineFolder()));
    assert.equal(result.backend.backend, "wasm");
    assert.equal(result.epochs, 3);
    assert.ok(result.measurements.length > 0 && result.metric!.after < result.metric!.before);
    const provenance = result.provenance as {
      parameters: { passed: object; defaulted: object };
      random: { streams: Record<string, number> };
      optimizer: { stateBefore: unknown };
      dataset: { hash: string };
    };
    assert.deepEqual(provenance.parameters.passed, { epochs: 3 });
    assert.ok(
      "learningRate" in provenance.parameters.defaulted && !("epochs" in provenance.parameters.defaulted),
    );
    assert.ok(
      (provenance.random.streams["order"] ?? 0) > 0 && (provenance.random.streams["initial/1/0"] ?? 0) > 0,
    );
    assert.equal(provenance.optimizer.stateBefore, "initial");
    assert.equal(provenance.dataset.hash, result.datasetHash);
    assert.deepEqual(
      [...new Set(plainProgress.map(({ phase }) => phase))],
      ["starting", "reading data", "evaluating before", "training", "evaluating after", "writing"],
    );
  });

  it("fine-tunes a base: a full one changes every tensor, a partial one keeps the bytes of the frozen ones", async () => {
    const base = await runPlain();
    const read = async ({ folder: where }: TrainingOutcome): Promise<Buffer[]> =>
      (
        await readModelFiles(
          await readFile(join(where, "model.safetensors")),
          await readFile(join(where, "architecture.json")),
          where,
        )
      ).tensors.map((tensor) => Buffer.from(tensor.bytes));
    const from = { folder: base.folder, versionId: "a".repeat(64) as Hash };
    const [full, head] = await Promise.all([
      run({ base: from, dataset: battery(1) }),
      run({ base: from, dataset: battery(1), parameters: { epochs: 2, trainable: "head" } }),
    ]);
    const before = await read(base);
    const changedBy = async (outcome: TrainingOutcome): Promise<boolean[]> =>
      (await read(outcome)).map((tensor, index) => !tensor.equals(before[index]!));
    assert.deepEqual(
      await changedBy(full),
      before.map(() => true),
    );
    const recurrent = weightSlots(base.architecture).map(
      ({ layer }) => base.architecture.layers[layer]!.className === "LSTM",
    );
    assert.deepEqual(
      await changedBy(head),
      recurrent.map((frozen) => !frozen),
    );
    assert.deepEqual((head.result.provenance as { base: unknown }).base, {
      versionId: "a".repeat(64),
      tensors: before.length,
    });
  });

  it("reports typed errors of the child", async () => {
    const cases: readonly (readonly [ErrorCode, Partial<TrainingJob>])[] = [
      ["RECIPE_UNKNOWN", { recipe: "nothing" }],
      ["RECIPE_PARAMETERS_INVALID", { parameters: { epochs: -1 } }],
      ["RECIPE_PARAMETERS_INVALID", { parameters: { colour: "red" } }],
      ["OPTIMIZER_REFUSED", { parameters: { optimizer: "adamax" } }],
      ["DATASET_UNKNOWN", { dataset: { reader: "nothing", parameters: {} } }],
      ["FILE_MISSING", { base: { folder: "/nowhere" } }],
      ["RECIPE_PARAMETERS_INVALID", { dataset: { reader: "images-generated", parameters: { count: 64 } } }],
      [
        "NOT_A_NUMBER",
        { parameters: { learningRate: 10, clipNorm: 0, optimizer: "sgd", epochs: 50, patience: 0 } },
      ],
      ["DATASET_EMPTY", { dataset: battery(0, { window: 100, cycles: 100 }) }],
      ["RECIPE_PARAMETERS_INVALID", { seed: "-1" }],
      ["RECIPE_PARAMETERS_INVALID", { threads: 0 }],
    ];
    for (const [code, change] of drawn(cases, 3)) await assert.rejects(run(change), refusal(code), code);
  });

  it("rejects a base whose files are damaged", async () => {
    const base = await runPlain();
    const damage = async (name: string, change: (bytes: Buffer) => Buffer): Promise<string> => {
      const where = folder();
      await cp(base.folder, where, { recursive: true });
      await writeFile(join(where, name), change(await readFile(join(where, name))));
      return where;
    };
    await assert.rejects(
      run({ base: { folder: await damage("model.safetensors", (file) => file.subarray(0, -1)) } }),
      (error) => isStemmaError(error),
    );
    await assert.rejects(
      run({
        base: {
          folder: await damage("architecture.json", (file) =>
            Buffer.from(file.toString().replace("LSTM", "Lambda")),
          ),
        },
      }),
      refusal("LAYER_NOT_ALLOWED"),
    );
  });

  it("ends immediately when it is aborted, and writes no result", async () => {
    const stop = new AbortController();
    const where = folder();
    const running = trainInChild(job({ parameters: { epochs: 10_000, patience: 0 } }), {
      workFolder: where,
      signal: stop.signal,
      onProgress: ({ phase }) => {
        if (phase === "training") stop.abort();
      },
    });
    await assert.rejects(running, refusal("TRAINING_STOPPED"));
    await assert.rejects(readResultFolder(join(where, "result")), refusal("TRAINING_STOPPED"));
    await assert.rejects(run({}, { signal: AbortSignal.abort() }), refusal("TRAINING_STOPPED"));
  });

  it("does not outlive the process that started it", async () => {
    const where = folder();
    await writeJobFolder(job({ parameters: { epochs: 10_000, patience: 0 } }), where);
    const child = spawn(
      process.execPath,
      [join(builtInEngineFolder(), "engine.mjs"), where, join(where, "result")],
      { stdio: ["pipe", "pipe", "ignore"] },
    );
    const ended = once(child, "close");
    for await (const part of child.stdout)
      if (String(part).includes('"training"')) {
        child.stdin.destroy();
        break;
      }
    assert.deepEqual(await ended, [3, null]);
  });

  it("stops at its memory limit with a typed error", async () => {
    await assert.rejects(
      run(
        {
          recipe: "image-classify",
          parameters: { filters: 256, batchSize: 512 },
          dataset: { reader: "images-generated", parameters: { count: 1200 } },
        },
        { memoryLimitMb: 64 },
      ),
      refusal("MEMORY_EXHAUSTED"),
    );
  });

  it("trains to the same bytes with one thread and with two", async () => {
    const change: Partial<TrainingJob> = {
      recipe: "image-classify",
      parameters: { epochs: 1, filters: 32 },
      dataset: { reader: "images-generated", parameters: { count: 160 } },
    };
    const [one, two] = await Promise.all([1, 2].map((threads) => run({ ...change, threads })));
    const used = (outcome: TrainingOutcome | undefined): unknown =>
      (outcome!.result.provenance["environment"] as { threads: unknown }).threads;
    assert.deepEqual([used(one), used(two)], [1, Math.min(2, availableParallelism())]);
    assert.equal(await bytes(two!), await bytes(one!));
  });

  it("rejects another engine than the expected one, and reports a missing one", async () => {
    await assert.rejects(
      run({}, { expectedEngine: "0".repeat(64) as Hash }),
      refusal("ENGINE_HASH_MISMATCH"),
    );
    await run(
      { parameters: { epochs: 1 } },
      { expectedEngine: await engineIdOfFolder(builtInEngineFolder()) },
    );
    await assert.rejects(run({}, { engineFolder: folder() }), refusal("BACKEND_UNAVAILABLE"));
  });
});
