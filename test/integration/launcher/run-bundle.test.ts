/**
 * Compiled code of a bundle is kept for the next run of the same command. Whatever is wrong with it, the command does
 * what the bundle says.
 */
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath, pathToFileURL } from "node:url";

const dist = resolve(dirname(fileURLToPath(import.meta.url)), "../../..");
const runner = pathToFileURL(join(dist, "../launcher/run-bundle.mjs")).href;
let root: string;
before(async () => {
  root = await mkdtemp(join(tmpdir(), "stemma-run-bundle-"));
  await mkdir(join(root, "dist/bundle"), { recursive: true });
});
after(() => rm(root, { recursive: true, force: true }));

async function writeBundle(code: string): Promise<void> {
  const hash = createHash("sha256").update(code).digest("hex");
  await writeFile(join(root, "dist/bundle/stemma.cjs"), `${code}//${hash}\n`);
}

function run(...args: readonly string[]): string {
  const script = `import { runBundle } from ${JSON.stringify(runner)}; runBundle(${JSON.stringify(root)}, "stemma");`;
  const options = ["--input-type=module", "-e", script, "--", "stemma", ...args];
  return execFileSync(process.execPath, options, { encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] });
}

async function compiled(): Promise<readonly string[]> {
  return (await readdir(join(root, ".build/compiled")).catch(() => [])).sort();
}

/** A bundle that prints a letter, and loads one more package where it is asked to. */
const bundle = (letter: string): string =>
  `if (process.argv[3] === "more") require("node:zlib");\nprocess.stdout.write("${letter}");\n` +
  `process.exitCode = process.argv[2] === "wrong" ? 2 : 0;\n`;

test("is written once for each command that ends well, and named after words only", async () => {
  await writeBundle(bundle("a"));
  for (const args of [["list"], ["list"], ["list", "/some/path"]]) assert.equal(run(...args), "a");
  assert.deepEqual((await compiled()).length, 1);
  assert.match((await compiled())[0] ?? "", /^stemma-list-v/);
  assert.throws(() => run("wrong"));
  assert.equal((await compiled()).length, 1);
});

test("of a run that loads more packages replaces what there was, and the next run keeps it", async () => {
  run("more");
  run("more", "more");
  const [name = ""] = (await compiled()).filter((each) => each.startsWith("stemma-more"));
  const before = await readFile(join(root, ".build/compiled", name));
  run("more", "more");
  assert.deepEqual(await readFile(join(root, ".build/compiled", name)), before);
  assert.equal(before.readUInt32LE(32), 1);
});

test("is replaced where a byte is flipped, where it is cut, and where it is of another bundle of the same length", async () => {
  const path = join(root, ".build/compiled", (await compiled())[0] ?? "");
  const good = await readFile(path);
  const flipped = Buffer.from(good);
  flipped[good.length >> 1] = (flipped[good.length >> 1] ?? 0) ^ 1;
  for (const bad of [flipped, good.subarray(0, 20), good.subarray(0, -1), Buffer.alloc(0)]) {
    await writeFile(path, bad);
    assert.equal(run("list"), "a");
    assert.equal((await readFile(path)).length, good.length);
  }
  await writeBundle(bundle("b"));
  assert.equal(run("list"), "b");
  assert.equal(run("list"), "b");
});

test("is done without where its folder cannot be written", async () => {
  await rm(join(root, ".build"), { recursive: true });
  await writeFile(join(root, ".build"), "a file");
  assert.equal(run("list"), "b");
});
