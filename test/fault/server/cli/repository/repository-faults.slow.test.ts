/** A model repository whose commands are killed (-9) at any change of its files, and one on a read-only disk. */
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { once } from "node:events";
import { watch } from "node:fs";
import { cp, mkdir, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { promisify } from "node:util";
import { tinyImport } from "../../../../helpers/agent-fixtures.js";
import { seededNumbers } from "../../../../helpers/manual-clock.js";
import { repositoryRoot } from "../../../../helpers/markdown.js";
import { runStemmaWith, type ProgramResult } from "../../../../helpers/run-stemma-here.js";
import { spawnStemma } from "../../../../helpers/run-stemma.js";
import { makeReadOnly, mountSmallDisk } from "../../../../helpers/small-disk.js";

const cwd = process.cwd();
const seed = Number(process.env["STEMMA_TEST_SEED"] ?? 31);
const kills = Number(process.env["STEMMA_TEST_KILLS"] ?? 3);

let folder: string;
const stemma = (...args: readonly string[]): Promise<ProgramResult> =>
  runStemmaWith(args, { STEMMA_HOME: join(process.cwd(), ".stemma"), STEMMA_FLEET: "local" });
async function good(...args: readonly string[]): Promise<string> {
  const { status, stdout, stderr } = await stemma(...args);
  assert.equal(status, 0, `${args.join(" ")}\n${stdout}${stderr}`);
  return stdout;
}
const names = async (): Promise<readonly string[]> =>
  (await good("list", "-o", "name"))
    .split("\n")
    .filter((line) => line !== "")
    .sort();

/** A repository of its own, which is the working folder from here on. */
async function begin(name: string): Promise<void> {
  await mkdir(join(folder, name));
  process.chdir(join(folder, name));
  await good("init");
}

/** Runs a command and kills it at so many changes of the repository's files. @returns whether it was killed */
async function killedAt(changes: number, args: readonly string[]): Promise<boolean> {
  const child = spawnStemma(args, { STEMMA_HOME: undefined, STEMMA_FLEET: undefined });
  child.stdout.resume();
  child.stderr.resume();
  let seen = 0;
  const watched = watch(join(process.cwd(), ".stemma"), { recursive: true }, () => {
    if (++seen >= changes) child.kill("SIGKILL");
  });
  const [, signal] = (await once(child, "close")) as [number | null, string | null];
  watched.close();
  return signal === "SIGKILL";
}

describe(`a repository (seed ${seed})`, () => {
  const random = seededNumbers(seed);
  /** More changes each time: from the command's first ones to those near its end. */
  const moment = (kill: number): number => 1 + kill * 12 + Math.floor(random() * 12);

  before(async () => {
    folder = await mkdtemp(join(tmpdir(), "stemma-repository-faults-"));
  });
  after(async () => {
    process.chdir(cwd);
    await rm(folder, { recursive: true, force: true });
  });

  it("has every version after archive was killed, and archives to the end", async () => {
    await begin("archived");
    const files = new Map<string, Uint8Array>();
    for (const each of ["1", "2", "3"]) {
      const { bytes } = await tinyImport(each);
      files.set(`tiny:${each}`, bytes);
      await writeFile("m.safetensors", bytes);
      await good("add", "m.safetensors");
      await good("commit", "-m", each, "--name", "tiny");
    }
    let killed = 0;
    for (let kill = 0; kill < kills; kill++) {
      if (await killedAt(moment(kill), ["archive"])) killed++;
      await good("storage", "check");
      assert.deepEqual(await names(), [...files.keys()]);
    }
    assert.ok(killed > 0);
    await good("archive");
    for (const [name, bytes] of files) {
      await good("model", "recover", name, "--file", "back.safetensors", "--force");
      assert.deepEqual(await readFile("back.safetensors"), Buffer.from(bytes));
    }
    await good("storage", "check");
  });

  it("has whole models or none after evaluate was killed, and the same command keeps each once", async () => {
    await begin("evaluated");
    const script = join(repositoryRoot, "examples/small-alexnet.mjs");
    await promisify(execFile)(process.execPath, [script, "digits", "Average", "28"], { cwd: process.cwd() });
    await good("add", "digits.safetensors", "digits.json");
    await good("commit", "-m", "a network", "--name", "digits");
    await good("data", "add", "shapes", "-", "--kind", "images-generated", "--set", "count=40");
    await writeFile("c.json", '{"recipe":"image-classify","input_data":"shapes","epochs":1,"batch":8}');
    const evaluate = [
      "query",
      `evaluate b from (select m where m.name = "digits") with config = "c.json"
       vary config.base_lr in [0.01, 0.001, 0.0001] keep top(2, b["loss"], 2)`,
      ...["--seed", "7"],
    ];
    const allowed = ["digits-b:1", "digits-b:2"];
    let killed = 0;
    for (let kill = 0; kill < kills; kill++) {
      if (await killedAt(moment(kill), evaluate)) killed++;
      const kept = (await names()).filter((name) => name !== "digits:1");
      assert.ok(
        kept.every((name) => allowed.includes(name)),
        kept.join(),
      );
      for (const name of kept) await good("model", "verify", name);
      await good("storage", "check");
    }
    assert.ok(killed > 0);
    await good(...evaluate);
    assert.deepEqual(await names(), [...allowed, "digits:1"]);
    await good("storage", "check");
  });

  it("is read on a read-only disk, where nothing is written", async (t) => {
    await begin("written");
    for (const each of ["1", "2"]) {
      const { bytes, architecture } = await tinyImport(each);
      await writeFile("m.safetensors", bytes);
      await writeFile("net.json", architecture);
      await good("add", "m.safetensors", "net.json");
      await good("commit", "-m", each, "--name", "tiny");
    }
    const disk = await mountSmallDisk(64);
    if (typeof disk === "string") {
      t.skip(disk);
      return;
    }
    try {
      await cp(join(folder, "written"), join(disk.folder, "work"), { recursive: true });
      const why = makeReadOnly(disk.folder);
      if (why !== undefined) {
        t.skip(why);
        return;
      }
      process.chdir(join(disk.folder, "work"));
      const files = await readdir(process.cwd(), { recursive: true });
      const out = (name: string): string => join(folder, name);
      assert.deepEqual(await names(), ["tiny:1", "tiny:2"]);
      assert.match(await good("status"), /nothing staged/);
      assert.match(await good("model", "log", "tiny"), /tiny:1/);
      assert.match(await good("diff", "tiny:1", "tiny:2"), /tensors differ/);
      assert.match(await good("desc", "tiny"), /LAYER/);
      await good("desc", "tiny", "--html", out("tiny.html"));
      assert.equal(await good("query", "select m where m.number = 2", "-o", "name"), "tiny:2\n");
      await good("model", "recover", "tiny:2", "--file", out("back.safetensors"));
      assert.deepEqual(await readFile(out("back.safetensors")), await readFile("m.safetensors"));
      await good("publish", "tiny", "--file", out("tiny.bundle"));
      await good("storage", "check");
      for (const args of [
        ["commit", "-a", "-m", "x"],
        ["add", "m.safetensors"],
        ["archive"],
        ["pull", "--file", out("tiny.bundle")],
      ]) {
        const { status, stderr } = await stemma(...args);
        assert.notEqual(status, 0, args.join(" "));
        assert.match(stderr, /\[[A-Z_]+\]\n$/, args.join(" "));
      }
      assert.deepEqual(await readdir(process.cwd(), { recursive: true }), files);
    } finally {
      process.chdir(folder);
      await disk.release();
    }
  });
});
