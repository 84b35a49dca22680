/**
 * A program in JavaScript that draws from Math.random and starts others: killed in the middle and begun again, it is
 * recorded whole, and proved on a server whose home has another path.
 */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { readdir, readFile, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { it } from "node:test";
import { testLine } from "../../helpers/agent-test-environment.js";
import { pollUntil } from "../../helpers/poll-until.js";
import { startRecordedFleet, trainLine } from "../../helpers/recorded-fleet.js";
import { testFleet } from "../../helpers/test-server.js";

const hasCompiler = ["cc", "gcc", "clang"].some((name) => spawnSync(name, ["--version"]).status === 0);
const skip = hasCompiler && process.platform === "linux" ? false : "no C compiler for Linux here";

const source = `
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { execFileSync } from "node:child_process";
const mark = process.env.MARKS + "/begun";
if (!existsSync(mark)) {
  writeFileSync(mark, "");
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 60_000);
}
const model = readFileSync(process.env.STEMMA_INPUT + "/base/model.safetensors");
let sum = Number(execFileSync("/bin/sh", ["-c", "od -An -N2 -tu2 /dev/urandom"]));
for (let i = 0; i < 10_000; i++) sum += Math.random();
model.writeFloatLE(sum, model.length - 4);
writeFileSync("model.safetensors", model);
writeFileSync("metrics.json", "{}");
`;

it("survives being killed, and is proved elsewhere with what it drew", { skip }, async (t) => {
  const { server, home, folder, stemma, replay, startAgent } = await startRecordedFleet(t);
  const program = join(folder, "train.mjs");
  await writeFile(program, source);
  const agent = await startAgent({
    lines: {
      [testLine]: {
        trainer: {
          exec: [process.execPath, program],
          environment: { MARKS: folder },
          record: { files: [program], variables: ["MARKS"], randomness: true },
        },
        dataset: { reader: "images-generated", parameters: {} },
      },
    },
  });
  await agent.log.until("activated", 1, { line: testLine });
  const stopped = agent.handle.train(testLine).catch((error: unknown) => error);
  await pollUntil("the program begins", () => stat(join(folder, "begun")).catch(() => undefined));
  const noted = (await readdir(home, { recursive: true })).find((name) => name.endsWith("process.json"));
  const { pid } = JSON.parse(await readFile(join(home, noted ?? ""), "utf8")) as { pid: number };
  process.kill(pid, "SIGKILL");
  assert.match(String(await stopped), /killed by SIGKILL/);
  const model = await trainLine(agent);
  const left = (await readdir(home, { recursive: true })).filter((name) => /\/(given|taken)$/.test(name));
  assert.deepEqual(left, [], "a profile is left in the agent's home");
  const approved = await stemma("replay", "program", "approve", model, "--interpreter", process.execPath);
  assert.equal(approved.status, 0, approved.stderr);
  for (const when of ["first", "second"]) {
    const { verdict, grade, text, libraries } = await replay(model);
    assert.deepEqual([verdict, grade], ["proved", "bit-exact"], `${when}: ${text}`);
    assert.equal(libraries?.verdict, "equal", libraries?.text);
  }
  const { provenance, environment } = await server.handle.operations.model({ fleet: testFleet, model });
  const { libraries } = (provenance as { program: { libraries: { program: string }[] } }).program;
  assert.deepEqual(
    libraries.map((each) => each.program),
    ["node", "dash", "od"].filter((name) => libraries.some((each) => each.program === name)),
  );
  assert.match(environment["loadOrder"] ?? "", /libc\.so.*; \S+: /);
  const work = await readdir(join(server.home, "run", "work"), { recursive: true });
  assert.deepEqual(
    work.filter((name) => name.startsWith("replay-")),
    [],
  );
});
