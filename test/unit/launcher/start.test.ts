/** `npm start -- --packaged` runs what `npm run package` made, says what it is, and builds nothing. */
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { chmod, cp, mkdir, mkdtemp, readFile, realpath, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { repositoryRoot } from "../../helpers/markdown.js";

const target = `${process.platform}-${process.arch}`;
let checkout = "";
before(async () => {
  // Nothing is installed or built in it.
  checkout = await realpath(await mkdtemp(join(tmpdir(), "stemma-start-")));
  for (const name of [
    "package.json",
    "launcher/start.mjs",
    "launcher/prepare.mjs",
    "launcher/build-stamp.mjs",
  ])
    await cp(join(repositoryRoot, name), join(checkout, name));
});
after(() => rm(checkout, { recursive: true, force: true }));

function start(...args: readonly string[]): Promise<{ status: number; stdout: string; stderr: string }> {
  const { STEMMA_DATA: _, ...env } = process.env;
  return new Promise((resolve) => {
    execFile(
      process.execPath,
      [join(checkout, "launcher/start.mjs"), ...args],
      { env },
      (error, stdout, stderr) => {
        resolve({ status: error === null ? 0 : Number(error.code), stdout, stderr });
      },
    );
  });
}

test("executables that are missing are named, with the command that makes them", async () => {
  const { status, stderr } = await start("--packaged");
  assert.equal(status, 1);
  assert.match(
    stderr,
    new RegExp(`out/stemma-\\S+-${target} and out/stemma-agent-\\S+-${target} are missing`),
  );
  assert.match(stderr, new RegExp(`npm run package -- --target ${target}`));
});

test("the demo gets the agent's executable, all other options, and the checkout's data", async () => {
  const { version } = JSON.parse(await readFile(join(repositoryRoot, "package.json"), "utf8")) as {
    version: string;
  };
  await mkdir(join(checkout, "out"));
  const fake =
    '#!/bin/sh\n[ "$1" = --version ] && echo "made of paper" || { echo "$@ $STEMMA_DATA"; exit 4; }\n';
  const paths = ["stemma", "stemma-agent"].map((name) =>
    join(checkout, "out", `${name}-${version}-${target}`),
  );
  for (const path of paths) {
    await writeFile(path, fake);
    await chmod(path, 0o755);
  }
  const { status, stdout, stderr } = await start("--rounds", "1", "--packaged");
  assert.equal(status, 4);
  assert.equal(stdout, `demo --agent ${paths[1]} --rounds 1 ${join(checkout, "../shared/data")}\n`);
  assert.match(stderr, /out\/stemma-agent-\S+ is made of paper/);
});
