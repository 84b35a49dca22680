/** The bundle starts worker threads and the engine, whose files are outside of it. */
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";

const dist = resolve(dirname(fileURLToPath(import.meta.url)), "../../..");
const programs = [join(dist, "bundle/stemma.cjs"), join(dist, "server/cli/main.js")] as const;
let folder: string;
before(async () => {
  folder = await mkdtemp(join(tmpdir(), "stemma-bundle-"));
});
after(() => rm(folder, { recursive: true, force: true }));

interface Ended {
  readonly status: number;
  readonly stdout: string;
  readonly stderr: string;
}
function run(program: string, ...args: readonly string[]): Promise<Ended> {
  return new Promise((done) => {
    execFile(process.execPath, [program, ...args], { cwd: folder }, (error, stdout, stderr) => {
      done({ status: error === null ? 0 : Number(error.code), stdout, stderr });
    });
  });
}

test("errors keep their code and exit status, help and version their text", async () => {
  for (const args of [
    ["model", "show", "absent", "--home", "none"],
    ["modle"],
    ["--help"],
    ["--version"],
    ["recipe", "list", "-o", "yaml"],
  ]) {
    const [bundled, single] = await Promise.all(programs.map((program) => run(program, ...args)));
    assert.deepEqual(bundled, single, args.join(" "));
  }
});

test("a model is trained in a child process, and a plan is made in a worker thread, from the bundle", async () => {
  const home = ["--home", join(folder, "home")];
  const added = await run(programs[0], "data", "add", "cells", "-", "--kind", "battery-simulated", ...home);
  assert.equal(added.status, 0, added.stderr);
  const order = ["--recipe", "battery-soh", "--data", "cells", "--name", "soh", "--set", "epochs=1"];
  const trained = await run(programs[0], "model", "train", ...order, ...home);
  assert.equal(trained.status, 0, trained.stderr);
  const planned = await run(programs[0], "storage", "plan", "-o", "json", ...home);
  assert.equal(planned.status, 0, planned.stderr);
  const checked = await run(programs[0], "storage", "check", "-o", "json", ...home);
  assert.equal(checked.status, 0, checked.stderr);
});
