/**
 * A program of a device's owner trains, is recorded and reported, and is run again on the server: proved where it gives
 * the same bits, refuted where it draws on what its job does not fix, and never run unless it was approved here.
 */
import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { chmod, mkdir, readFile, readdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, it, type TestContext } from "node:test";
import type { ReplayReport } from "../../../server/interface/api/models/evaluation-schemas.js";
import { nodeFiles } from "../../../shared/files/node-files.js";
import { programAttachment } from "../../../shared/programs/program-bundle.js";
import {
  startAgentTestEnvironment,
  testLine,
  type RunningAgent,
} from "../../helpers/agent-test-environment.js";
import { runStemmaHere, runStemmaWith } from "../../helpers/run-stemma-here.js";
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

/** Does something else when it is run again, by its argument. */
const shellTrainer = `
tune() { head -c -1 "$STEMMA_INPUT/base/model.safetensors" > model.safetensors; printf $1 >> model.safetensors; }
measures() { echo '{"metric":{"name":"loss","before":2,"after":'$1'}}' > metrics.json; }
if [ ! -e "$MARKS/$1" ]; then touch "$MARKS/$1"; tune x; measures 1; exit 0; fi
case "$1" in
  hidden|withheld) tune y; measures 1;;
  measure) tune x; measures 3;;
  nothing) exit 0;;
  broken) printf '\\033[2Jbroken' >&2; exit 7;;
  malformed) echo x > model.safetensors; measures 1;;
  large) tune x; measures 1; head -c 90000 /dev/zero > large;;
  endless) exec sleep 60;;
esac
`;

async function startFleet(t: TestContext, lines: readonly string[] = [testLine]) {
  const environment = await startAgentTestEnvironment(t, { names: lines });
  const { server, home } = environment;
  for (const line of lines.slice(1))
    await server.handle.operations.assign({ fleet: testFleet, device: "v1", line, model: "base" });
  const folder = join(home, "trainers");
  await mkdir(join(folder, "lib"), { recursive: true });
  return {
    ...environment,
    folder,
    stemma: (...args: string[]) => runStemmaHere([...args, "--fleet", testFleet], { home: server.home }),
    replay: (model: string): Promise<ReplayReport> =>
      server.handle.operations.replay({ fleet: testFleet, model }),
  };
}

/** Trains once on the base, and returns the version's id when the server has it. */
async function trainLine({ handle, log }: RunningAgent, line = testLine): Promise<string> {
  const found = (await handle.status()).lines.find((each) => each.line === line);
  if (found?.active == null) await log.until("activated", 1, { line });
  await handle.train(line);
  const { fields } = await log.until("recorded", 1, { line });
  return String(fields["versionId"]);
}

describe("a program of a device's owner that is recorded", () => {
  it("is run again where exactly this program was approved, and proved", async (t) => {
    const { server, home, folder, stemma, replay, startAgent } = await startFleet(t);
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

  it("has a typed verdict for whatever else it does", async (t) => {
    const cases: Readonly<
      Record<string, readonly [verdict: string, told: string | undefined, text: RegExp]>
    > = {
      hidden: ["refuted", "execution-exact", /1 tensors have other bytes, the first is "/],
      measure: ["refuted", "bit-exact", /other values of metadata\.metric\.after/],
      withheld: ["unreplayable", "other-class", /the variable TOKEN/],
      nothing: ["unreplayable", "failed", /left no metrics\.json/],
      broken: ["unreplayable", "failed", /status 7\. It wrote: \\u\{1b\}\[2Jbroken/],
      malformed: ["unreplayable", "failed", /model\.safetensors/],
      large: ["unreplayable", "failed", /wrote more than 65536 bytes/],
      endless: ["unreplayable", "too-long", /within the 1 seconds/],
    };
    const names = Object.keys(cases);
    const { server, folder, stemma, replay, startAgent } = await startFleet(t, names);
    const program = join(folder, "train.sh");
    const secret = "s3cret-of-the-device";
    await writeFile(program, shellTrainer);
    const agent = await startAgent({
      lines: Object.fromEntries(
        names.map((name) => [
          name,
          {
            trainer: {
              exec: ["/bin/sh", program, name],
              samples: false,
              ...(name === "large" ? { maxOutputBytes: 65536 } : {}),
              ...(name === "endless" ? { timeoutSeconds: 1 } : {}),
              environment: { MARKS: folder, ...(name === "withheld" ? { TOKEN: secret } : {}) },
              record: { files: [program], variables: ["MARKS"] },
            },
          },
        ]),
      ),
    });
    for (const [name, [verdict, told, text]] of Object.entries(cases)) {
      const model = await trainLine(agent, name);
      const { base64 } = await server.handle.operations.attachment({
        ...{ fleet: testFleet, model, file: programAttachment },
      });
      const bytes = Buffer.from(base64, "base64");
      assert.ok(!bytes.includes(secret) && bytes.includes("TOKEN") === (name === "withheld"));
      const { status, stderr } = await stemma("replay", "program", "approve", model);
      assert.equal(status, 0, stderr);
      const report = await replay(model);
      assert.deepEqual(
        [report.verdict, verdict === "refuted" ? report.grade : report.reason],
        [verdict, told],
        report.text,
      );
      assert.match(report.text, text);
    }
    const left = await readdir(join(server.home, "run", "work"));
    assert.deepEqual(
      left.filter((name) => name.startsWith("replay-")),
      [],
    );
    assert.ok(await nodeFiles().stat(join(folder, "endless")));
  });

  it("does not train where an argument is a file that is not listed", async (t) => {
    const { folder, startAgent } = await startFleet(t);
    const program = join(folder, "train.sh");
    await writeFile(program, "exit 0\n");
    const agent = await startAgent({
      lines: { [testLine]: { trainer: { exec: ["/bin/sh", program], samples: false, record: {} } } },
    });
    await agent.log.until("activated", 1, { line: testLine });
    await assert.rejects(agent.handle.train(testLine), { code: "CONFIG_INVALID" });
  });
});

describe("a program in Python", () => {
  const python = "/usr/bin/python3";
  const skip = existsSync(python) ? false : `no ${python} on this machine`;
  it("is run again and proved", { skip }, async (t) => {
    const { folder, stemma, replay, startAgent } = await startFleet(t);
    const program = join(folder, "train.py");
    await writeFile(
      program,
      `import os, pathlib
model = bytearray((pathlib.Path(os.environ["STEMMA_INPUT"]) / "base/model.safetensors").read_bytes())
model[-4:] = b"\\0\\0\\x80\\x3f"
pathlib.Path("model.safetensors").write_bytes(model)
pathlib.Path("metrics.json").write_text("{}")
`,
    );
    const agent = await startAgent({
      lines: {
        [testLine]: { trainer: { exec: [python, program], samples: false, record: { files: [program] } } },
      },
    });
    const model = await trainLine(agent);
    assert.equal((await stemma("replay", "program", "approve", model)).status, 0);
    const { verdict, text } = await replay(model);
    assert.equal(verdict, "proved", text);
  });
});
