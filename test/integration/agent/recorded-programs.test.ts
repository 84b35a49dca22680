/**
 * A device's own program is run again on the server: proved where it gives the same bits, refuted where it draws on
 * what its job does not fix; where it does something else, the reason is typed.
 */
import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { readdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import type { Explanation } from "../../../server/cli/explain-difference.js";
import { programAttachment } from "../../../shared/programs/program-bundle.js";
import { testLine } from "../../helpers/agent-test-environment.js";
import { startRecordedFleet, trainLine } from "../../helpers/recorded-fleet.js";
import { testFleet } from "../../helpers/test-server.js";

/** Does something else when it is run again, by its argument. */
const shellTrainer = `
tune() { head -c -1 "$STEMMA_INPUT/base/model.safetensors" > model.safetensors; printf $1 >> model.safetensors; }
measures() { echo '{"metric":{"name":"loss","before":2,"after":'$1'}}' > metrics.json; }
if [ ! -e "$MARKS/$1" ]; then touch "$MARKS/$1"; tune x; measures 1; exit 0; fi
case "$1" in
  same) tune x; measures 1;;
  hidden|withheld) tune y; measures 1;;
  measure) tune x; measures 3;;
  nothing) exit 0;;
  broken) printf '\\033[2Jbroken' >&2; exit 7;;
  malformed) echo x > model.safetensors; measures 1;;
  large) tune x; measures 1; head -c 90000 /dev/zero > large;;
  endless) exec sleep 60;;
esac
`;

describe("a program of a device's owner that is recorded", () => {
  it("has a typed verdict for whatever else it does", async (t) => {
    const cases: Readonly<
      Record<string, readonly [verdict: string, told: string | undefined, text: RegExp]>
    > = {
      same: ["proved", "bit-exact", /every tensor has the recorded bytes/],
      hidden: ["refuted", "execution-exact", /1 tensor has other bytes, the first is "/],
      measure: ["refuted", "bit-exact", /other values of metadata\.metric\.after/],
      withheld: ["unreplayable", "other-class", /the variable TOKEN/],
      nothing: ["unreplayable", "failed", /left no metrics\.json/],
      broken: ["unreplayable", "failed", /status 7\. It wrote: \\u\{1b\}\[2Jbroken/],
      malformed: ["unreplayable", "failed", /model\.safetensors/],
      large: ["unreplayable", "failed", /wrote more than 65536 bytes/],
      endless: ["unreplayable", "too-long", /within the 1 seconds/],
    };
    const names = Object.keys(cases);
    const { server, folder, stemma, replay, startAgent } = await startRecordedFleet(t, names);
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
    const models: string[] = [];
    for (const [name, [verdict, told, text]] of Object.entries(cases)) {
      const model = await trainLine(agent, name);
      models.push(model);
      const { base64 } = await server.handle.operations.attachment({
        ...{ fleet: testFleet, model, file: programAttachment },
      });
      const bytes = Buffer.from(base64, "base64");
      assert.ok(!bytes.includes(secret) && bytes.includes("TOKEN") === (name === "withheld"));
      const { status, stderr } = await stemma("replay", "program", "approve", model);
      assert.equal(status, 0, stderr);
      const report = await replay(model);
      assert.deepEqual(
        [report.verdict, verdict === "unreplayable" ? report.reason : report.grade],
        [verdict, told],
        report.text,
      );
      assert.match(report.text, text);
    }
    const [same = "", hidden = ""] = models;
    const why = await stemma("replay", "explain", hidden);
    assert.equal(why.status, 4, why.stderr);
    assert.match(why.stdout, /weights +different: 1 tensor, the first "/);
    assert.match(why.stdout, /evaluations +equal/);
    assert.match(why.stdout, /predictions +not looked at/);
    const both = JSON.parse(
      (await stemma("replay", "explain", same, hidden, "-o", "json")).stdout,
    ) as Explanation;
    const differing = both.points.filter(({ verdict }) => verdict === "different").map(({ point }) => point);
    assert.deepEqual(differing, ["provenance", "versions"], both.conclusion);
    const left = await readdir(join(server.home, "run", "work"));
    assert.deepEqual(
      left.filter((name) => name.startsWith("replay-")),
      [],
    );
  });

  it("is proved where it has the model in PyTorch's names and axes", async (t) => {
    const { server, folder, stemma, replay, startAgent } = await startRecordedFleet(t);
    const vector = (name: string): string =>
      fileURLToPath(new URL(`../../../../test/vectors/layouts/${name}`, import.meta.url));
    const arch = ["--arch", vector("cnn.json"), "--layout", "pytorch"];
    const imported = await stemma("model", "import", vector("cnn.pt"), "--name", "cnn", ...arch);
    assert.equal(imported.status, 0, imported.stderr);
    const { operations } = server.handle;
    const to = { fleet: testFleet, device: "v1", line: testLine, model: "cnn" };
    await operations.assign({ ...to, force: true });
    const { versionId } = await operations.model({ fleet: testFleet, model: "cnn" });
    const program = join(folder, "train.sh");
    const original = '"$STEMMA_INPUT/base/original.safetensors"';
    const tune = `head -c -1 ${original} > model.safetensors; printf x >> model.safetensors`;
    await writeFile(program, `${tune}; echo '{}' > metrics.json\n`);
    const trainer = { exec: ["/bin/sh", program], samples: false, record: { files: [program] } };
    const agent = await startAgent({ lines: { [testLine]: { trainer } } });
    await agent.log.until("activated", 1, { line: testLine, versionId });
    const model = await trainLine(agent);
    const { status, stderr } = await stemma("replay", "program", "approve", model);
    assert.equal(status, 0, stderr);
    const report = await replay(model);
    assert.deepEqual([report.verdict, report.grade], ["proved", "bit-exact"], report.text);
  });

  it("does not train where an argument is a file that is not listed", async (t) => {
    const { folder, startAgent } = await startRecordedFleet(t);
    const program = join(folder, "train.sh");
    await writeFile(program, "exit 0\n");
    const agent = await startAgent({
      lines: { [testLine]: { trainer: { exec: ["/bin/sh", program], samples: false, record: {} } } },
    });
    await agent.log.until("activated", 1, { line: testLine });
    await assert.rejects(agent.handle.train(testLine), { code: "CONFIG_INVALID" });
  });

  it("does not train where the interpreter is a script that starts another program", async (t) => {
    const { folder, startAgent } = await startRecordedFleet(t, ["unlisted", "listed"]);
    const program = join(folder, "python");
    await writeFile(program, '#!/bin/sh\nexec /usr/bin/env true "$@"\n', { mode: 0o755 });
    const trainer = (files: readonly string[]): object => ({
      trainer: { exec: [program], samples: false, record: { files } },
    });
    const agent = await startAgent({ lines: { unlisted: trainer([]), listed: trainer([program]) } });
    for (const line of ["unlisted", "listed"]) await agent.log.until("activated", 1, { line });
    await assert.rejects(agent.handle.train("unlisted"), {
      code: "CONFIG_INVALID",
      message: /does not list the script .*python/,
    });
    await assert.rejects(agent.handle.train("listed"), { code: "TRAINER_OUTPUT_INVALID" });
  });
});

describe("a program in Python", () => {
  const python = "/usr/bin/python3";
  const skip = existsSync(python) ? false : `no ${python} on this machine`;
  it("is run again and proved", { skip }, async (t) => {
    const { folder, stemma, replay, startAgent } = await startRecordedFleet(t);
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
