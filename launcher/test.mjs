// npm test: prepares the checkout, checks the types, runs every test, and reports how long each part took.
// Long tests run a seeded sample of their cases; STEMMA_TEST_FULL=1 runs them all.
//   npm test -- unit/shared/tensor      only the tests whose path contains one of the given texts
import { spawn } from "node:child_process";
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { existsSync } from "node:fs";
import { availableParallelism, tmpdir } from "node:os";
import { join, relative } from "node:path";
import { prepare, root } from "./prepare.mjs";

const kinds = ["unit", "property", "contract", "integration", "fault", "fleet"];
const words = process.argv.slice(2).filter((word) => !word.startsWith("--"));
const skipTypes = process.argv.includes("--no-types");

async function testFiles() {
  const found = [];
  for (const kind of kinds) {
    const folder = join(root, "dist/test", kind);
    if (!existsSync(folder)) continue;
    const names = await readdir(folder, { recursive: true });
    for (const name of names.sort()) {
      const path = join(folder, name);
      if (name.endsWith(".test.js") && (words.length === 0 || words.some((word) => path.includes(word))))
        found.push(path);
    }
  }
  return found;
}

/** Unit tests that run in one process: starting it takes longer than most of them. */
const filesInOne = 10;
/** Of a test file that needs a process of its own: hooks for all of its tests, and what belongs to the process. */
const needsOwnProcess =
  /^(before|beforeEach|after|afterEach)\(|process\.(env|chdir|on|once|exit|exitCode|memoryUsage)\b|\b(globalThis|spawn|execFile|Worker|mock)\b/m;

/** Replaces unit tests by files that import several of them. A failure still names the test's own file and line. */
async function grouped(files) {
  const folder = join(root, "dist/test/groups");
  await rm(folder, { recursive: true, force: true });
  await mkdir(folder, { recursive: true });
  const alone = [];
  const together = [];
  for (const file of files) {
    const isUnit = relative(root, file).startsWith(join("dist", "test", "unit"));
    const fits = isUnit && !needsOwnProcess.test(await readFile(file, "utf8"));
    (fits ? together : alone).push(file);
  }
  const groups = [];
  for (let at = 0; at < together.length; at += filesInOne) {
    const path = join(folder, `unit-${String(groups.length + 1).padStart(2, "0")}.js`);
    const imports = together.slice(at, at + filesInOne).map((file) => relative(folder, file));
    await writeFile(
      path,
      imports.map((name) => `await import("./${name.replaceAll("\\", "/")}");\n`).join(""),
    );
    groups.push(path);
  }
  return [...groups, ...alone];
}

/** What tests put into the folder for temporary files, also those that are killed, goes with this folder. */
const temporary = await mkdtemp(join(tmpdir(), "stemma-t-"));

function run(args, onLine) {
  return new Promise((resolve) => {
    const child = spawn(process.execPath, args, {
      cwd: root,
      stdio: ["ignore", "pipe", "inherit"],
      env: { ...process.env, TMPDIR: temporary, FORCE_COLOR: process.stdout.isTTY ? "1" : "0" },
    });
    let rest = "";
    child.stdout.on("data", (chunk) => {
      process.stdout.write(chunk);
      rest += chunk;
      const lines = rest.split("\n");
      rest = lines.pop();
      lines.forEach(onLine);
    });
    for (const signal of ["SIGINT", "SIGTERM"]) process.once(signal, () => child.kill(signal));
    child.on("close", (code) => resolve(code ?? 1));
  });
}

const began = Date.now();
const seconds = (since) => ((Date.now() - since) / 1000).toFixed(1);
console.error(
  `stemma: the complete test suite takes about 12 minutes on two cores${process.env.STEMMA_TEST_FULL ? ", much longer with STEMMA_TEST_FULL" : ""}.`,
);
await prepare();

/** Whether the types are right. The compiler uses one core, so the first tests run meanwhile. */
async function checkTypes() {
  const since = Date.now();
  const code = await run(
    [join(root, "node_modules/typescript/bin/tsc"), "-p", "tsconfig.json", "--noEmit"],
    () => {},
  );
  console.error(`stemma: types ${code === 0 ? "checked" : "are wrong"} in ${seconds(since)} s`);
  return code === 0;
}

const files = await testFiles();
if (files.length === 0) {
  console.error(`stemma: no test file matches ${words.join(" ")}; the folders are ${kinds.join(", ")}.`);
  await rm(temporary, { recursive: true, force: true });
  process.exit(1);
}
const typesAreRight = words.length === 0 && !skipTypes ? checkTypes() : Promise.resolve(true);
const totals = { pass: 0, fail: 0, cancelled: 0, skipped: 0 };
const since = Date.now();
// One file more than there are cores, since many wait for processes and timers. The timeout ends a file that hangs.
const code = await run(
  [
    "--test",
    "--test-reporter=spec",
    `--test-concurrency=${Math.min(2, availableParallelism()) + 1}`,
    `--test-timeout=${process.env.STEMMA_TEST_FULL ? 3_600_000 : 600_000}`,
    ...(words.length === 0 ? await grouped(files) : files).map((file) => relative(root, file)),
  ],
  (line) => {
    const match = /^(?:\u001b\[\d+m)?(?:ℹ|#) (pass|fail|cancelled|skipped) (\d+)/.exec(line);
    if (match) totals[match[1]] = Number(match[2]);
  },
);
const typesFailed = !(await typesAreRight);
await rm(temporary, { recursive: true, force: true });
console.error(
  `stemma: tests of ${files.length} files in ${seconds(since)} s, everything in ${seconds(began)} s`,
);
console.log(`${totals.pass} passed, ${totals.fail + totals.cancelled} failed, ${totals.skipped} skipped`);
if (typesFailed)
  console.error(
    "stemma: the types are wrong; the compiler's lines are above, npm run typecheck prints them alone",
  );
process.exitCode = code !== 0 || typesFailed ? 1 : 0;
