/** A device trains on the native backend where its profile names it, and a crash there is not the end of the job. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { decideBackend, TrainingBackends } from "../../../../agent/backend/training-backend.js";
import type { Link } from "../../../../agent/backend/link-file.js";
import { nativeFolder } from "../../../../agent/backend/link-file.js";
import { trainOnBackend } from "../../../../agent/trainer/train-on-backend.js";
import { isStemmaError, StemmaError, type ErrorCode } from "../../../../shared/errors.js";
import { runsDisagree } from "../../../../shared/train/native/native-class.js";
import { sha256 } from "../../../../shared/tensor/hash.js";
import type { ChildOptions, TrainingOutcome } from "../../../../shared/train/train-in-child.js";
import type { BackendName, TrainingJob } from "../../../../shared/train/training.js";
import { memoryFiles } from "../../../helpers/files/memory-files.js";

const hash = sha256("x");
const runner = sha256("runner");
const job = { recipe: "battery-soh", threads: 4, memoryLimitMb: 512 } as unknown as TrainingJob;
const exactness = {
  tensorflow: "2.18.1",
  library: hash,
  arch: "x64",
  instructionSet: "avx",
  threads: 2,
  oneDnn: "1",
  deterministicOps: "1",
  referenceTraining: hash,
};
const json = (value: unknown): Uint8Array => new TextEncoder().encode(JSON.stringify(value));

/** A home with a link, and what every call of a training was given. */
async function linkedHome(backends: readonly BackendName[], fail?: () => unknown, memoryLimitMb = 512) {
  const files = memoryFiles();
  await files.makeFolder("/lib");
  await files.makeFolder(nativeFolder("/home"));
  await files.makeFolder("/work/state");
  const write = async (path: string, bytes: Uint8Array): Promise<void> => {
    const file = await files.open(path, "create");
    await file.write(bytes, 0);
    await file.close();
  };
  const libraries = [];
  for (const name of ["libtensorflow_cc.so.2", "libtensorflow_framework.so.2"]) {
    await write(`/lib/${name}`, json(name));
    const found = await files.stat(`/lib/${name}`);
    libraries.push({ name, bytes: found?.size, modifiedMs: found?.modifiedMs, sha256: hash });
  }
  const probe = {
    worst: { operation: "matMul", error: 1e-7 },
    compared: 43,
    peakBytes: 1,
    loadOrder: ["libc.so.6", "libtensorflow_cc.so.2"],
    backendOrder: ["tensorflow", "cpu"],
    notes: [],
  };
  const binding = { sha256: hash, from: "compiled" };
  const link = { format: 1, runner, folder: "/lib", libraries, binding, versions: {}, probe };
  await write("/home/native/link.json", json({ ...link, linkedAtMs: 0, stemma: "test" }));
  await write("/home/native/engine.json", json({ job: 2, knownAnswer: hash, class: exactness }));
  const calls: { readonly job: TrainingJob; readonly child: ChildOptions; readonly state: boolean }[] = [];
  const failures: string[] = [];
  const train = async (given: TrainingJob, child: ChildOptions): Promise<TrainingOutcome> => {
    calls.push({ job: given, child, state: (await files.stat("/work/state")) !== undefined });
    if (child.engineFolder !== undefined && fail !== undefined) throw fail();
    const engine = child.engineFolder === undefined ? hash : runner;
    return { result: { engine } } as unknown as TrainingOutcome;
  };
  const run = (child: Partial<ChildOptions> = {}): Promise<TrainingOutcome> =>
    trainOnBackend(
      {
        files,
        home: "/home",
        train,
        backends: new TrainingBackends({ files, home: "/home", backends, memoryLimitMb }),
        onNativeFailed: (text) => failures.push(text),
      },
      job,
      { workFolder: "/work", memoryLimitMb: 512, ...child },
    );
  return { files, run, calls, failures };
}

const failing = (code: ErrorCode) => (): StemmaError => new StemmaError(code, `it failed with ${code}.`);

test("with native first in the profile, the linked runner trains, with its threads and a memory limit", async () => {
  const { run, calls } = await linkedHome(["native", "wasm"]);
  const { environment } = await run();
  assert.deepEqual(
    calls.map(({ job: { threads }, child }) => [threads, child.engineFolder, child.processLimitMb]),
    [[2, "/home/native", 512]],
  );
  assert.equal(environment?.loadOrder, "libc.so.6, libtensorflow_cc.so.2");
  assert.equal(environment?.libraries?.["tensorflow.sha256"], hash);
});

test("without native first, or with what is linked changed, wasm trains", async () => {
  const wasm = await linkedHome(["wasm", "native"]);
  await wasm.run();
  assert.equal(wasm.calls[0]?.child.engineFolder, undefined);
  const changed = await linkedHome(["native", "wasm"]);
  const file = await changed.files.open("/lib/libtensorflow_cc.so.2", "update");
  await file.write(json("another library, which is longer"), 0);
  await file.close();
  await changed.run();
  assert.equal(changed.calls[0]?.child.engineFolder, undefined);
  assert.deepEqual(changed.failures, []);
  const small = await linkedHome(["native", "wasm"], undefined, 128);
  await small.run();
  assert.equal(small.calls[0]?.child.engineFolder, undefined);
});

test("a crash is told of, and the same job is trained on wasm, from its beginning and only there", async () => {
  const { run, calls, failures } = await linkedHome(["native", "wasm"], failing("TRAINING_STOPPED"));
  const outcome = await run();
  assert.equal(outcome.result.engine, hash);
  assert.deepEqual(failures, ["it failed with TRAINING_STOPPED."]);
  assert.deepEqual(
    calls.map(({ child, job: { threads }, state }) => [child.engineFolder, threads, state]),
    [
      ["/home/native", 2, true],
      [undefined, 4, false],
    ],
  );
  // Cut short on wasm, it goes on there.
  await run();
  assert.equal(calls[2]?.child.engineFolder, undefined);
});

test("with native alone, a crash is a failed job, and so is a training without a link", async () => {
  const { run, files } = await linkedHome(["native"], failing("TRAINING_STOPPED"));
  const isFailed = (words: RegExp) => (error: unknown) =>
    isStemmaError(error, "BACKEND_UNAVAILABLE") && words.test(error.message);
  await assert.rejects(run(), isFailed(/The native backend failed: .* names no other/));
  await files.remove("/home/native");
  await assert.rejects(run(), isFailed(/no libtensorflow is linked .* add "wasm"/));
});

test("a failure of the job's own, or a stop, is not the backend's", async () => {
  const own = await linkedHome(["native", "wasm"], failing("NOT_A_NUMBER"));
  await assert.rejects(own.run(), (error) => isStemmaError(error, "NOT_A_NUMBER"));
  const stop = new AbortController();
  const stopped = await linkedHome(["native", "wasm"], () => {
    stop.abort();
    return failing("TRAINING_STOPPED")();
  });
  await assert.rejects(stopped.run({ signal: stop.signal }), (error) =>
    isStemmaError(error, "TRAINING_STOPPED"),
  );
  assert.deepEqual([own.calls.length, stopped.calls.length], [1, 1]);
  assert.deepEqual([...own.failures, ...stopped.failures], []);
});

test("what people read says why a backend trains", () => {
  const link = { class: { ...exactness, referenceTraining: runsDisagree }, folder: "/lib" } as Link;
  const text = (backends: readonly BackendName[], linked: Link | string): string =>
    decideBackend(backends, linked).text;
  assert.equal(text(["wasm"], link), "wasm: the profile asks for wasm");
  assert.equal(
    text(["native", "wasm"], link),
    "native: libtensorflow 2.18.1 in /lib, no GPU, 2 threads, two runs disagree",
  );
  assert.equal(text(["native", "wasm"], "x"), "wasm: the profile asks for native, but x");
  assert.equal(decideBackend(["native"], "x").backend, "none");
});
