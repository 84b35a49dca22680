/** Starting and closing the WebAssembly backend, and what it refuses to compute. */
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { copyFile, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import type { Rank } from "@tensorflow/tfjs";
import { build } from "esbuild";
import { isStemmaError } from "../../../../../shared/errors.js";
import { startWasmBackend, wasmFiles } from "../../../../../shared/train/backends/wasm.js";
import { drawn } from "../../../../helpers/test-depth.js";

const run = promisify(execFile);
const installed = createRequire(import.meta.url).resolve(
  `@tensorflow/tfjs-backend-wasm/wasm-out/${wasmFiles.backend}`,
);
const kernels = fileURLToPath(new URL("../../../../../shared/train/kernels/kernels.wasm", import.meta.url));
const trainer = fileURLToPath(new URL("train-a-little.js", import.meta.url));

test("only one runs at a time, and closing restores everything", async () => {
  const listeners = (): number[] =>
    ["uncaughtException", "unhandledRejection"].map((event) => process.listenerCount(event));
  const before = listeners();
  const { tf, close } = await startWasmBackend();
  assert.deepEqual(listeners(), before, "tfjs's start code adds handlers that hide the origin of an error");
  await assert.rejects(startWasmBackend(), (error) => isStemmaError(error, "BACKEND_UNAVAILABLE"));
  assert.equal(tf.getBackend(), "wasm");
  assert.ok(tf.getKernel("StemmaBatchNorm", "wasm"));
  close();
  assert.equal(tf.findBackend("wasm"), null);
  assert.equal(tf.getKernel("StemmaBatchNorm", "wasm"), undefined);
  assert.equal(tf.getKernel("Conv2DBackpropFilter", "wasm"), undefined);
  assert.ok(tf.getKernel("MaxPool", "wasm"), "the stock kernel is back");
  const again = await startWasmBackend({ fused: false });
  assert.equal(again.tf.getKernel("StemmaBatchNorm", "wasm"), undefined);
  assert.deepEqual([...again.tf.add(again.tf.tensor1d([1, 2]), 1).dataSync()], [2, 3]);
  again.close();
  assert.deepEqual(listeners(), before);
});

test("gradients on another backend stay tfjs's own while the wasm backend runs", async () => {
  const { tf, close } = await startWasmBackend();
  await tf.setBackend("cpu");
  tf.tidy(() =>
    assert.deepEqual(
      [
        ...tf
          .grad((x) => tf.relu6(x).mul(2))(tf.tensor1d([-1, 3, 7]))
          .dataSync(),
      ],
      [-0, 2, 0].map((v) => v + 0),
    ),
  );
  await tf.setBackend("wasm");
  close();
});

test("exhausted memory is an error and does not overwrite tensors", async () => {
  const { tf, close, allocatedBytes } = await startWasmBackend({ memoryLimitMb: 4 });
  const held = tf.ones([512, 1024]);
  assert.ok(allocatedBytes() >= 2 ** 21);
  assert.throws(
    () => tf.tidy(() => tf.ones([1024, 1024])),
    (error) => isStemmaError(error, "MEMORY_EXHAUSTED") && error.exitStatus === 1,
  );
  assert.equal(tf.ones([512, 512]).sum().dataSync()[0], 512 * 512, "what fits still works");
  held.dispose();
  close();
});

test("kernels other than the committed ones are rejected, and so is an incomplete folder", async () => {
  const folder = await mkdtemp(join(tmpdir(), "stemma-kernels-"));
  try {
    await copyFile(installed, join(folder, wasmFiles.backend));
    await assert.rejects(startWasmBackend({ folder }), (error) =>
      isStemmaError(error, "BACKEND_UNAVAILABLE"),
    );
    const bytes = await readFile(kernels);
    bytes[bytes.length - 1]! ^= 1;
    await writeFile(join(folder, wasmFiles.kernels), bytes);
    await assert.rejects(startWasmBackend({ folder }), (error) =>
      isStemmaError(error, "ENGINE_HASH_MISMATCH"),
    );
    await copyFile(kernels, join(folder, wasmFiles.kernels));
    (await startWasmBackend({ folder })).close();
    await assert.rejects(
      startWasmBackend({ binaries: { backend: new Uint8Array(8), kernels: await readFile(kernels) } }),
      (error) => isStemmaError(error, "BACKEND_UNAVAILABLE"),
    );
    (await startWasmBackend()).close();
  } finally {
    await rm(folder, { recursive: true });
  }
});

test("operations without a kernel or a gradient are rejected by name", async () => {
  const { tf, close } = await startWasmBackend();
  const refused =
    (operation: string) =>
    (error: unknown): boolean =>
      isStemmaError(error, "OPERATION_MISSING") &&
      error.details["operation"] === operation &&
      error.message.includes(operation);
  const x = tf.tensor1d([3, 1, 2]);
  assert.throws(() => tf.tidy(() => tf.spectral.fft(tf.complex(x, x))), refused("Complex"));
  assert.throws(() => tf.tidy(() => tf.grad((v) => tf.topk(v, 2).values)(x)), refused("TopK"));
  assert.throws(
    () =>
      tf.tidy(() =>
        tf.conv2d(tf.ones<Rank.R4>([1, 2, 4, 4]), tf.ones<Rank.R4>([3, 3, 2, 2]), 1, "same", "NCHW"),
      ),
    refused("NCHW"),
  );
  assert.deepEqual([...tf.topk(x, 2).values.dataSync()], [3, 2], "without a gradient it works");
  x.dispose();
  close();
  assert.equal(tf.getGradient("TopK"), undefined);
});

/**
 * The hash that train-a-little prints. It may change only with a deliberate change of the kernels' arithmetic,
 * after which old records replay to other bits.
 */
const goldenTraining = "6739e42eb5751a150f302274663bd455b66ebca98da8ce3b0e388259bc285df5";

test("the same training gives the same bytes in two processes, with other flags, and from a bundle without node_modules", async () => {
  const folder = await mkdtemp(join(tmpdir(), "stemma-bundle-"));
  try {
    const expected = (await run(process.execPath, [trainer])).stdout;
    assert.equal(expected.trim(), goldenTraining);
    for (const flag of drawn(["--no-liftoff", "--no-wasm-tier-up"], 1))
      assert.equal((await run(process.execPath, [flag, trainer])).stdout, expected, `V8 with ${flag}`);
    const banner =
      'import { createRequire as makeRequire } from "node:module"; import { dirname as folderOf } from "node:path"; import { fileURLToPath as pathOf } from "node:url"; const require = makeRequire(import.meta.url), __filename = pathOf(import.meta.url), __dirname = folderOf(__filename);';
    await build({
      entryPoints: [trainer],
      bundle: true,
      minify: true,
      platform: "node",
      format: "esm",
      target: "node20",
      outfile: join(folder, "engine.mjs"),
      banner: { js: banner },
      logLevel: "silent",
    });
    await Promise.all([
      copyFile(installed, join(folder, wasmFiles.backend)),
      copyFile(kernels, join(folder, wasmFiles.kernels)),
    ]);
    assert.equal(
      (await run(process.execPath, [join(folder, "engine.mjs")], { cwd: folder })).stdout,
      expected,
    );
  } finally {
    await rm(folder, { recursive: true });
  }
});
