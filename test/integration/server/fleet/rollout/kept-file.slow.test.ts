/**
 * A line that delivers a file: it reaches devices byte for byte under its name, gated by the line's measurement
 * program, is refused where worse, is trained on by a program, and undone.
 */
import assert from "node:assert/strict";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { it } from "node:test";
import { openFileAsItIs } from "../../../../../shared/forms/file-as-it-is.js";
import { safetensorsChunks } from "../../../../../shared/tensor/safetensors.js";
import { sourceOfTensor } from "../../../../../shared/tensor/tensor.js";
import { readCurrent } from "../../../../../agent/current/read-current.js";
import { collectBytes } from "../../../../helpers/agent-fixtures.js";
import { testLine as line } from "../../../../helpers/agent-test-environment.js";
import { testFleet as fleet } from "../../../../helpers/test-server.js";
import { rollOut, takeLinearSamples, untrained } from "./program-fleet.js";
import { startFleet, train, verdicts, type Device, type Fleet } from "./rollout-fleet.js";

/** The loss of each sample is the number that the file begins with, and a little of its own. */
const measuring = `
const { readFileSync, writeFileSync } = require("node:fs");
const source = process.env.STEMMA_INPUT;
const job = JSON.parse(readFileSync(source + "/job.json"));
if (!job.model.endsWith("/soh.tflite")) throw new Error(job.model);
const loss = parseFloat(readFileSync(source + "/" + job.model, "latin1"));
const losses = Array.from({ length: job.samples.heldOut.count }, (_, at) => loss + (at % 7) / 1000);
writeFileSync("measurement.json", JSON.stringify({ losses }));
`;
const measure = { exec: [process.execPath, "-e", measuring] };
const trainer = {
  exec: [
    "/bin/sh",
    "-c",
    `(printf "0.5 "; cat "$STEMMA_INPUT/base/soh.tflite") > soh.tflite; echo '{}' > metrics.json`,
  ],
};

async function importFile(vehicles: Fleet, folder: string, name: string, content: string) {
  const path = join(folder, "soh.tflite");
  await writeFile(path, content);
  const opened = await openFileAsItIs(path);
  const bytes = new Uint8Array(opened.size);
  await opened.file.read(bytes, 0);
  await opened.close();
  return await importBytes(vehicles, name, bytes);
}

async function importBytes(vehicles: Fleet, name: string, bytes: Uint8Array) {
  const chunks = async function* () {
    yield bytes;
  };
  const stream = { byteLength: bytes.length, chunks: chunks() };
  return await vehicles.operations.import(stream, { fleet, name, line });
}

async function deliveredTo({ home }: Device): Promise<string> {
  const current = await readCurrent(home, line);
  const { manifest } = current;
  assert.deepEqual([manifest.file, Object.keys(manifest.files)], ["soh.tflite", ["soh.tflite"]]);
  return Buffer.from(await current.read("soh.tflite")).toString("latin1");
}

it("a file is rolled out by the line's own program, refused where worse, trained on, and undone", async (t) => {
  const vehicles = await startFleet(t, []);
  const folder = await mkdtemp(join(tmpdir(), "stemma-kept-"));
  t.after(() => rm(folder, { recursive: true, force: true }));
  const { operations } = vehicles;
  await importFile(vehicles, folder, "old", "1.0 old");
  const good = `0.2 good \0\xff${"x".repeat(70_000)}`;
  const imported = await importFile(vehicles, folder, "good", good);
  assert.equal(imported.isFile, true);
  await importFile(vehicles, folder, "bad", "3.0 bad");
  const source = sourceOfTensor({ dtype: "F32", shape: [1], bytes: new Uint8Array(4) });
  const tensors = await collectBytes(safetensorsChunks([{ name: "weight", source }]));
  await assert.rejects(importBytes(vehicles, "tensors", tensors), { code: "SHAPE_DIFFERENT" });

  const v1 = await vehicles.add("v1", "old", { ...untrained, measure, trainer });
  await takeLinearSamples(v1);
  assert.equal(await deliveredTo(v1), "1.0 old");
  const old = await v1.runs();

  const { plan, state } = await rollOut(vehicles, { name: "spring", model: "good", select: "all" });
  assert.deepEqual(
    plan.gates.map(({ losses, measuredBy }) => [losses, measuredBy]),
    [["", "program"]],
  );
  assert.deepEqual([state.phase, verdicts(state)], ["done", { v1: "passed" }]);
  const onDisk = await readFile(join(v1.home, "current", line, "soh.tflite"));
  assert.deepEqual(onDisk, Buffer.from(good));
  const worse = (await rollOut(vehicles, { name: "summer", model: "bad", select: "all" })).state;
  assert.deepEqual([worse.phase, verdicts(worse)], ["paused", { v1: "worse" }]);
  await operations.setRollout({ fleet, rollout: "summer", phase: "aborted" });
  assert.equal(await v1.runs(), (await operations.model({ fleet, model: "good" })).versionId);

  await operations.undoRollout({ fleet, rollout: "spring" });
  await v1.log.until("activated", 2, { versionId: old });
  assert.equal(await deliveredTo(v1), "1.0 old");

  const own = await train(vehicles, v1);
  assert.equal(await deliveredTo(v1), "0.5 1.0 old");
  const described = await operations.model({ fleet, model: own });
  assert.deepEqual([described.file?.name, described.file?.bytes], ["soh.tflite", 11]);
});
