/**
 * Measurements by programs of the device's own: what the program gets, what is read of what it leaves, and that no
 * output of it does any harm.
 */
import assert from "node:assert/strict";
import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, it, type TestContext } from "node:test";
import { measureExternally } from "../../../../agent/external/measure-externally.js";
import type { Measurement } from "../../../../agent/external/read-measurement.js";
import { measureProgramSchema } from "../../../../agent/settings/measure-program.js";
import { nodeClock, nodeRandom } from "../../../../shared/adapters/node-ports.js";
import { isStemmaError, type ErrorCode } from "../../../../shared/errors.js";
import { nodeFiles } from "../../../../shared/files/node-files.js";
import { sha256 } from "../../../../shared/tensor/hash.js";
import { safetensorsChunks } from "../../../../shared/tensor/safetensors.js";
import { sourceOfTensor } from "../../../../shared/tensor/tensor.js";
import { collectBytes, testProfile, WaitableLog } from "../../../helpers/agent-fixtures.js";
import { freeDisk } from "../../../helpers/free-disk.js";

const samples = 3;
/** A file of safetensors with tensors of float32 numbers. */
async function fileOf(
  tensors: Readonly<Record<string, readonly [shape: readonly number[], values: readonly number[]]>>,
): Promise<Uint8Array> {
  const sources = Object.entries(tensors).map(([name, [shape, values]]) => {
    const bytes = new Uint8Array(Float32Array.from(values).buffer);
    return { name, source: sourceOfTensor({ dtype: "F32", shape, bytes }) };
  });
  return collectBytes(safetensorsChunks(sources));
}

async function openMeasurement(t: TestContext) {
  const folder = await mkdtemp(join(tmpdir(), "stemma-measure-"));
  t.after(() => rm(folder, { recursive: true, force: true }));
  const slot = join(folder, "slot");
  const workFolder = join(folder, "work");
  await mkdir(slot);
  await writeFile(join(slot, "model.safetensors"), "the model");
  const log = new WaitableLog();
  const measure = (script: string, settings: object = {}): Promise<Measurement> =>
    measureExternally(
      {
        files: nodeFiles(),
        random: nodeRandom(),
        clock: nodeClock(),
        log,
        profile: testProfile(),
        commandOwner: process.getuid?.(),
        diskUse: () => Promise.resolve(freeDisk),
      },
      {
        line: "cam",
        program: measureProgramSchema.parse({ exec: ["/bin/sh", "-c", script], ...settings }),
        model: { versionId: sha256("version"), folder: slot, bytes: 9 },
        set: { task: "regression", inputShape: [2], targetSize: 1, classes: 0 },
        part: {
          count: samples,
          inputs: Float32Array.from([1, 2, 3, 4, 5, 6]),
          targets: Float32Array.from([7, 8, 9]),
        },
        workFolder,
        signal: new AbortController().signal,
      },
    );
  const outputs = async (name: string, shape: readonly number[], values: readonly number[]) => {
    const path = join(folder, name);
    await writeFile(path, await fileOf({ outputs: [shape, values] }));
    return path;
  };
  return { folder, workFolder, log, measure, outputs };
}

const told = (text: string): string => `echo '${text}' > measurement.json; `;
const good = told('{"losses": [1, 0.5, 3]}');
const hasCode = (code: ErrorCode) => (error: unknown) =>
  isStemmaError(error, code) && /measurement program/.test(error.message);

describe("a measurement by a program of the device's own", () => {
  it("gets the model, the held-out samples and its limits, and nothing else", async (t) => {
    const { folder, measure } = await openMeasurement(t);
    const copy = join(folder, "copy");
    const found = await measure(
      `cp -r "$STEMMA_INPUT" ${copy}; env > ${copy}/env; ls > ${copy}/ls; ${good}`,
      { timeoutSeconds: 9, maxOutputBytes: 5000, environment: { OWN: "1" } },
    );
    assert.deepEqual(found, { loss: 1.5, losses: Float64Array.of(1, 0.5, 3), outputs: undefined });
    assert.equal(await readFile(join(copy, "model/model.safetensors"), "utf8"), "the model");
    const { memoryLimitMb, threads } = testProfile().training;
    const heldOut = { count: 3, file: "samples/held-out.safetensors" };
    assert.deepEqual(JSON.parse(await readFile(join(copy, "job.json"), "utf8")), {
      format: 1,
      line: "cam",
      versionId: sha256("version"),
      model: "model/model.safetensors",
      samples: { task: "regression", inputShape: [2], targetSize: 1, classes: 0, heldOut },
      memoryLimitMb,
      threads,
      timeoutSeconds: 9,
      maxOutputBytes: 5000,
    });
    const inputs = [1, 2, 3, 4, 5, 6];
    const part = await fileOf({
      inputs: [[3, 2], inputs],
      targets: [
        [3, 1],
        [7, 8, 9],
      ],
    });
    assert.deepEqual(await readFile(join(copy, heldOut.file)), Buffer.from(part));
    assert.equal(await readFile(join(copy, "ls"), "utf8"), "");
    assert.match(await readFile(join(copy, "env"), "utf8"), /^OWN=1$/m);
  });

  it("may tell one figure, and leave predictions", async (t) => {
    const { measure, outputs } = await openMeasurement(t);
    const predictions = await outputs("three", [3, 1], [1, 2, 3]);
    assert.deepEqual(
      await measure(`${told('{"losses": 0.25, "more": 1}')} cp ${predictions} predictions.safetensors`),
      {
        loss: 0.25,
        losses: undefined,
        outputs: Float32Array.of(1, 2, 3),
      },
    );
  });

  it("fails with a code where it leaves something else", async (t) => {
    const { folder, measure, outputs } = await openMeasurement(t);
    const leave = (path: string): string => `${good} cp ${path} predictions.safetensors`;
    const other = join(folder, "other");
    await writeFile(other, await fileOf({ other: [[3], [1, 2, 3]] }));
    for (const [script, code, message = /./] of [
      [":", "TRAINER_OUTPUT_INVALID"],
      [told("{}"), "TRAINER_OUTPUT_INVALID"],
      [told('{"losses": [1, 2]}'), "TRAINER_OUTPUT_INVALID", /2 losses for 3 samples/],
      [told('{"losses": [1, 2, 3, 4]}'), "TRAINER_OUTPUT_INVALID"],
      [told('{"losses": [1, NaN, 3]}'), "TRAINER_OUTPUT_INVALID", /has no NaN/],
      [told('{"losses": NaN}'), "TRAINER_OUTPUT_INVALID"],
      [told('{"losses": [1, 1e999, 3]}'), "TRAINER_OUTPUT_INVALID"],
      [told('{"losses": [1, null, 3]}'), "TRAINER_OUTPUT_INVALID"],
      [told('{"losses": ["1", "2", "3"]}'), "TRAINER_OUTPUT_INVALID"],
      ["head -c 1000000 /dev/zero > measurement.json", "TRAINER_OUTPUT_INVALID", /at most 65656/],
      ["ln -s /dev/zero measurement.json", "TRAINER_OUTPUT_INVALID"],
      ["mkfifo measurement.json", "TRAINER_OUTPUT_INVALID"],
      ['rm -rf "$STEMMA_OUTPUT" "$STEMMA_INPUT"', "TRAINER_OUTPUT_INVALID"],
      [`${good} ln -s ${other} predictions.safetensors`, "TRAINER_OUTPUT_INVALID"],
      [`${good} echo '{}' > predictions.safetensors`, "TRAINER_OUTPUT_INVALID"],
      [leave(other), "TRAINER_OUTPUT_INVALID", /no|without a tensor "outputs"/],
      [leave(await outputs("two", [2, 1], [1, 2])), "TRAINER_OUTPUT_INVALID"],
      [leave(await outputs("nan", [3, 2], [1, 2, 3, 4, 5, NaN])), "TRAINER_OUTPUT_INVALID", /sample 2 /],
      [`${good} exit 1`, "TRAINER_FAILED"],
      [`${good} kill -SEGV $$`, "TRAINER_FAILED"],
      [`${good} kill -KILL $$`, "TRAINING_STOPPED", /Nothing was measured; ask again/],
      [`${good} truncate -s 1T more`, "TRAINER_OUTPUT_TOO_LARGE", /measure\.maxOutputBytes/],
    ] as readonly [string, ErrorCode, RegExp?][])
      await assert.rejects(
        measure(script),
        (error) => hasCode(code)(error) && message.test((error as Error).message),
        script,
      );
  });

  it("leaves nothing running, also what left its group", async (t) => {
    const { log, measure } = await openMeasurement(t);
    const stray = "mkfifo ready; setsid sh -c 'echo > ready; exec sleep 60' & read gone < ready; rm ready; ";
    await measure(`${stray} sleep 60 & ${good}`);
    assert.equal(log.count("measure-left-processes"), 1);
  });
});
