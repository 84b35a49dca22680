/**
 * A program of a device's owner trains, is recorded and reported, and is run again on the server: proved where exactly
 * this program was approved on its machine, and never run otherwise.
 */
import assert from "node:assert/strict";
import { chmod, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { it } from "node:test";
import type { ReplayReport } from "../../../server/interface/api/models/evaluation-schemas.js";
import { testLine } from "../../helpers/agent-test-environment.js";
import { startRecordedFleet, trainLine } from "../../helpers/recorded-fleet.js";
import { runStemmaWith } from "../../helpers/run-stemma-here.js";
import { testFleet } from "../../helpers/test-server.js";

/** Changes the last tensor by all that it is given: job, samples, an argument, a file beside it, a variable. */
const nodeTrainer = `
import { readFileSync, writeFileSync } from "node:fs";
import { createHash } from "node:crypto";
import { step } from "./lib/step.mjs";
const input = process.env.STEMMA_INPUT;
const job = readFileSync(input + "/job.json");
const model = readFileSync(input + "/base/model.safetensors");
const { samples } = JSON.parse(job);
const hash = createHash("sha256").update(job).update(process.argv[2]).update(process.env.MODE);
hash.update(readFileSync(input + "/" + samples.train.file));
model.writeFloatLE(hash.digest()[0] * step, model.length - 4);
writeFileSync("model.safetensors", model);
const metric = { name: "loss", before: 2, after: 1, lowerIsBetter: true };
const measurements = [{ iteration: 1, epoch: 1, loss: 1, learningRate: step }];
writeFileSync("metrics.json", JSON.stringify({ metric, measurements }));
`;

it("a recorded program is run again where exactly it was approved, and proved", async (t) => {
  const { server, home, folder, stemma, replay, startAgent } = await startRecordedFleet(t);
  const [program, step, lock] = ["train.mjs", "lib/step.mjs", "requirements.lock"].map((name) =>
    join(folder, name),
  ) as [string, string, string];
  await writeFile(program, nodeTrainer);
  await writeFile(step, "export const step = 0.5;\n");
  await writeFile(lock, "numpy==2.1.0\n");
  const trainer = {
    exec: [process.execPath, program, "--fast"],
    environment: { MODE: "exact" },
    record: { files: [program, step], lock, variables: ["MODE"] },
  };
  const train = async (): Promise<string> => {
    const agent = await startAgent({
      lines: {
        [testLine]: {
          trainer,
          parameters: { rate: 0.25, epochs: 3 },
          dataset: { reader: "images-generated", parameters: {} },
        },
      },
    });
    const versionId = await trainLine(agent);
    await agent.handle.close();
    return versionId;
  };
  const model = await train();
  assert.equal((await replay(model)).reason, "program-not-approved");
  const approval = ["replay", "program", "approve", model, "--interpreter", process.execPath];
  const dry = await stemma(...approval, "--dry-run");
  for (const shown of [
    "train.mjs",
    "lib/step.mjs",
    "requirements.lock",
    'MODE="exact"',
    '"--fast"',
    process.execPath,
  ])
    assert.ok(dry.stdout.includes(shown), `${shown} in ${dry.stdout}`);
  assert.equal((await replay(model)).reason, "program-not-approved");
  assert.equal((await stemma(...approval, "--expect", "0".repeat(64))).status, 4);
  assert.equal((await stemma(...approval)).status, 0);

  const report = await replay(model);
  const { verdict, grade, dataFrom, text, proof } = report;
  assert.deepEqual([verdict, grade, dataFrom], ["proved", "bit-exact", "generator"], text);
  for (const [kind, member] of [
    ["bound", "program.bundle"],
    ["bound", "parameters.value"],
    ["rebuilt", "program.job"],
    ["rebuilt", "metadata.metric.after"],
    ["rebuilt", "record.objects.measurements"],
    ["stated", "program.machine"],
  ] as const)
    assert.ok(proof?.[kind].includes(member), `${member} is ${kind}`);
  const shown = await server.handle.operations.model({ fleet: testFleet, model });
  assert.deepEqual([shown.replayed?.verdict, shown.replayed?.engineId], ["proved", report.engineId]);

  // A file's story leaves the program out, wherever it is replayed.
  const file = join(home, "exported.safetensors");
  assert.equal((await stemma("model", "recover", model, "--file", file)).status, 0);
  for (const at of [server.home, join(home, "elsewhere")]) {
    const { status, stdout, stderr } = await runStemmaWith(
      ["replay", "run", file, "--home", at, "-o", "json"],
      {
        STEMMA_FLEET: testFleet,
      },
    );
    assert.equal(status, 5, stderr);
    assert.equal((JSON.parse(stdout) as ReplayReport[])[0]?.reason, "program-missing");
  }

  // Another interpreter than was approved, and a list that others could change.
  const approvals = join(server.home, "programs.json");
  const written = await readFile(approvals, "utf8");
  await writeFile(approvals, written.replace(/"sha256": "[0-9a-f]{8}/, '"sha256": "00000000'));
  assert.equal((await replay(model)).reason, "program-not-approved");
  await writeFile(approvals, written);
  await chmod(approvals, 0o666);
  await assert.rejects(replay(model), { code: "CONFIG_INVALID" });
  await chmod(approvals, 0o600);

  // One byte of the lock file makes another program.
  await writeFile(lock, "numpy==2.1.1\n");
  assert.equal((await replay(await train())).reason, "program-not-approved");

  const { program: id = "" } =
    (
      JSON.parse((await stemma("replay", "program", "list", "-o", "json")).stdout) as { program: string }[]
    )[0] ?? {};
  assert.equal(id, report.engineId);
  assert.equal((await stemma("replay", "program", "rm", id.slice(0, 12))).status, 0);
  assert.equal((await replay(model)).reason, "program-not-approved");
});
