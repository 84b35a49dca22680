/**
 * A program of a device's owner trains, is recorded and reported, and is run again on the server: proved where it gives
 * the same bits, refuted where it draws on what its job does not fix, and never run unless it was approved here.
 */
import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { mkdir, readFile, readdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, it, type TestContext } from "node:test";
import type { ReplayReport } from "../../../server/interface/api/models/evaluation-schemas.js";
import { programAttachment } from "../../../shared/programs/program-bundle.js";
import { startAgentTestEnvironment, testLine } from "../../helpers/agent-test-environment.js";
import { runStemmaHere, runStemmaWith } from "../../helpers/run-stemma-here.js";
import { testFleet } from "../../helpers/test-server.js";

/** Adds a step to the last bytes of the base, by job, samples, argument, file beside it and variable. */
const trainer = `
import { readFileSync, writeFileSync, existsSync } from "node:fs";
import { createHash } from "node:crypto";
import { step } from "./lib/step.mjs";
const input = process.env.STEMMA_INPUT;
const job = JSON.parse(readFileSync(input + "/job.json", "utf8"));
const model = readFileSync(input + "/base/model.safetensors");
const hash = createHash("sha256").update(readFileSync(input + "/job.json")).update(process.argv[2]).update(process.env.MODE ?? "");
if (job.samples !== null) hash.update(readFileSync(input + "/" + job.samples.train.file));
const drawn = process.argv[2] === "hidden" ? Math.random() : 0;
model.writeFloatLE(Math.fround(hash.digest()[0] * step + drawn), model.length - 4);
console.log(JSON.stringify({ type: "progress", epoch: 1, epochs: 1 }));
writeFileSync("model.safetensors", model);
writeFileSync("metrics.json", JSON.stringify({
  metric: { name: "loss", before: 2, after: 1, lowerIsBetter: true },
  measurements: [{ iteration: 1, epoch: 1, loss: 1, learningRate: step }],
  hasSecret: process.env.TOKEN !== undefined,
}));
`;

interface Setting {
  readonly argument?: string;
  readonly environment?: Readonly<Record<string, string>>;
  readonly variables?: readonly string[];
  readonly isRecorded?: boolean;
}

async function recordedModel(t: TestContext) {
  const environment = await startAgentTestEnvironment(t);
  const { server, home, startAgent } = environment;
  const folder = join(home, "trainers");
  await mkdir(join(folder, "lib"), { recursive: true });
  const [program, step, lock] = ["train.mjs", "lib/step.mjs", "requirements.lock"].map((name) =>
    join(folder, name),
  ) as [string, string, string];
  await writeFile(program, trainer);
  await writeFile(step, "export const step = 0.5;\n");
  await writeFile(lock, "numpy==2.1.0\n");
  const train = async ({
    argument = "fixed",
    environment: variables = {},
    variables: named = [],
    isRecorded = true,
  }: Setting = {}): Promise<string> => {
    const agent = await startAgent({
      lines: {
        [testLine]: {
          trainer: {
            exec: [process.execPath, program, argument],
            environment: variables,
            ...(isRecorded ? { record: { files: [program, step], lock, variables: named } } : {}),
          },
          parameters: { epochs: 3, rate: 0.25 },
          dataset: { reader: "images-generated", parameters: {} },
        },
      },
    });
    if (!hasBase(agent)) await agent.log.until("activated", 1, { line: testLine });
    await agent.handle.train(testLine);
    const { fields } = await agent.log.until("recorded", 1, { line: testLine });
    await agent.handle.close();
    return String(fields["versionId"]);
  };
  const stemma = (...args: string[]) => runStemmaHere([...args, "--fleet", testFleet], { home: server.home });
  const replay = (model: string): Promise<ReplayReport> =>
    server.handle.operations.replay({ fleet: testFleet, model });
  const approve = async (model: string): Promise<void> => {
    const { status, stderr } = await stemma(
      ...["replay", "program", "approve", model, "--interpreter", process.execPath],
    );
    assert.equal(status, 0, stderr);
  };
  return { ...environment, folder, program, step, lock, train, stemma, replay, approve };
}

describe("a program of a device's owner that is recorded", () => {
  it("is run again where it was approved, and proved", async (t) => {
    const { train, replay, approve, stemma, server } = await recordedModel(t);
    const model = await train({ environment: { MODE: "fast" }, variables: ["MODE"] });
    const unapproved = await replay(model);
    assert.equal(unapproved.reason, "program-not-approved");
    const dry = await stemma(
      "replay",
      "program",
      "approve",
      model,
      "--dry-run",
      "--interpreter",
      process.execPath,
    );
    for (const shown of [
      "train.mjs",
      "lib/step.mjs",
      "requirements.lock",
      'MODE="fast"',
      '"fixed"',
      process.execPath,
    ])
      assert.ok(dry.stdout.includes(shown), `${shown} in ${dry.stdout}`);
    assert.equal((await replay(model)).reason, "program-not-approved");
    await approve(model);
    const report = await replay(model);
    assert.deepEqual(
      [report.verdict, report.grade, report.dataFrom],
      ["proved", "bit-exact", "generator"],
      report.text,
    );
    for (const [kind, member] of [
      ["bound", "program.bundle"],
      ["bound", "parameters.value"],
      ["rebuilt", "program.job"],
      ["rebuilt", "metadata.metric.after"],
      ["rebuilt", "record.objects.measurements"],
      ["stated", "program.machine"],
    ] as const)
      assert.ok(report.proof?.[kind].includes(member), `${member} is ${kind}`);
    const { replayed } = await server.handle.operations.model({ fleet: testFleet, model });
    assert.deepEqual([replayed?.verdict, replayed?.engineId], ["proved", report.engineId]);

    const dropped = await server.handle.operations.dropTensors({ fleet: testFleet, models: [model] });
    assert.match(dropped.kept[0]?.because ?? "", /not approved any more/);
    const [approved] = JSON.parse((await stemma("replay", "program", "list", "-o", "json")).stdout) as {
      program: string;
    }[];
    assert.equal(approved?.program, report.engineId);
    assert.equal((await stemma("replay", "program", "rm", approved.program.slice(0, 12))).status, 0);
    assert.equal((await replay(model)).reason, "program-not-approved");
  });

  it("is refuted where it draws on what its job does not fix", async (t) => {
    const { train, replay, approve } = await recordedModel(t);
    const model = await train({ argument: "hidden" });
    await approve(model);
    const { verdict, grade, difference, text } = await replay(model);
    assert.deepEqual([verdict, grade, difference?.tensors], ["refuted", "execution-exact", 1], text);
    assert.ok((difference?.largest?.difference ?? 0) > 0);
    assert.ok(text.includes(JSON.stringify(difference?.first)));
  });

  it("is another program after a change of one byte of it, or of its lock file", async (t) => {
    const { train, replay, approve, lock, step } = await recordedModel(t);
    await approve(await train());
    for (const [path, text] of [
      [lock, "numpy==2.1.1\n"],
      [step, "export const step = 0.6;\n"],
    ] as const) {
      await writeFile(path, text);
      assert.equal((await replay(await train())).reason, "program-not-approved", path);
    }
  });

  it("keeps a variable on the device, and refutes nothing without it", async (t) => {
    const { train, replay, approve, server } = await recordedModel(t);
    const secret = "s3cret-of-the-device";
    const model = await train({ argument: "hidden", environment: { TOKEN: secret } });
    const { base64 } = await server.handle.operations.attachment({
      ...{ fleet: testFleet, model, file: programAttachment },
    });
    const bytes = Buffer.from(base64, "base64");
    assert.ok(bytes.includes("TOKEN") && !bytes.includes(secret));
    await approve(model);
    const { verdict, reason, text } = await replay(model);
    assert.deepEqual([verdict, reason], ["unreplayable", "other-class"]);
    assert.match(text, /variable TOKEN/);
  });

  it("is not taken from a file, nor by an interpreter that changed", async (t) => {
    const { train, replay, approve, stemma, home, server } = await recordedModel(t);
    const model = await train();
    await approve(model);
    const file = join(home, "exported.safetensors");
    assert.equal((await stemma("model", "recover", model, "--file", file)).status, 0);
    for (const at of [server.home, join(home, "elsewhere")]) {
      const { status, stdout } = await runStemmaWith(
        ["replay", "run", file, "--home", at, "--fleet", testFleet, "-o", "json"],
        {},
      );
      assert.deepEqual([status, (JSON.parse(stdout) as ReplayReport[])[0]?.reason], [5, "program-missing"]);
    }
    const approvals = join(server.home, "programs.json");
    const text = await readFile(approvals, "utf8");
    await writeFile(approvals, text.replace(/"sha256": "[0-9a-f]{4}/, '"sha256": "0000'));
    assert.equal((await replay(model)).reason, "program-not-approved");
    await writeFile(approvals, text, { mode: 0o666 });
    const { chmod } = await import("node:fs/promises");
    await chmod(approvals, 0o666);
    await assert.rejects(replay(model), { code: "CONFIG_INVALID" });
    assert.deepEqual(
      (await readdir(join(server.home, "run", "work"))).filter((name) => name.startsWith("replay-")),
      [],
    );
  });

  it("has a typed verdict for whatever it does on the server", async (t) => {
    const { train, replay, approve, program, folder } = await recordedModel(t);
    const mark = join(folder, "second-run");
    const begin = trainer.replace(
      "const input",
      `const isAgain = existsSync(${JSON.stringify(mark)});\nwriteFileSync(${JSON.stringify(mark)}, "");\nconst input`,
    );
    const { rm } = await import("node:fs/promises");
    for (const [again, expected] of [
      ["process.exit(0)", /left no metrics\.json/],
      ['console.error("\\x1b[2Jbroken"); process.exit(7)', /status 7\. It wrote: \\u\{1b\}\[2Jbroken/],
      [
        'writeFileSync("model.safetensors", "x"); writeFileSync("metrics.json", "{}"); process.exit(0)',
        /failed|cannot|not/,
      ],
    ] as const) {
      await rm(mark, { force: true });
      await writeFile(program, begin.replace("const model", `if (isAgain) { ${again} }\nconst model`));
      const model = await train();
      await approve(model);
      const { verdict, reason, text } = await replay(model);
      assert.deepEqual([verdict, reason], ["unreplayable", "failed"], text);
      assert.match(text, expected);
    }
  });
});

describe("a program of a device's owner that is not recorded", () => {
  it("leaves nothing of itself on the server", async (t) => {
    const { train, replay } = await recordedModel(t);
    assert.equal((await replay(await train({ isRecorded: false }))).reason, "other-trainer");
  });
});

describe("a program in Python", () => {
  const python = "/usr/bin/python3";
  const skip = existsSync(python) ? false : `no ${python} on this machine`;
  it("is run again and proved", { skip }, async (t) => {
    const { train, replay, stemma, program, startAgent } = await recordedModel(t);
    void train;
    const script = program.replace(".mjs", ".py");
    await writeFile(
      script,
      `import os, pathlib
source = pathlib.Path(os.environ["STEMMA_INPUT"])
model = bytearray((source / "base/model.safetensors").read_bytes())
model[-4:] = b"\\0\\0\\x80\\x3f"
pathlib.Path("model.safetensors").write_bytes(model)
pathlib.Path("metrics.json").write_text("{}")
`,
    );
    const agent = await startAgent({
      lines: {
        [testLine]: { trainer: { exec: [python, script], samples: false, record: { files: [script] } } },
      },
    });
    if (!hasBase(agent)) await agent.log.until("activated", 1, { line: testLine });
    await agent.handle.train(testLine);
    const { fields } = await agent.log.until("recorded", 1, { line: testLine });
    const model = String(fields["versionId"]);
    const { status, stderr } = await stemma("replay", "program", "approve", model);
    assert.equal(status, 0, stderr);
    const { verdict, text } = await replay(model);
    assert.equal(verdict, "proved", text);
  });
});
