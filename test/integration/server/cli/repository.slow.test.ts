/** A model repository on the command line: the verbs, and what a modeller, a crash or a stranger does to it. */
import assert from "node:assert/strict";
import {
  chmod,
  chown,
  cp,
  mkdir,
  mkdtemp,
  readFile,
  realpath,
  rename,
  rm,
  symlink,
  writeFile,
} from "node:fs/promises";
import { once } from "node:events";
import { watch } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, beforeEach, describe, it } from "node:test";
import { tinyImport } from "../../../helpers/agent-fixtures.js";
import { tfjsModelFiles } from "../../../helpers/foreign-models.js";
import { runStemmaWith, type ProgramResult } from "../../../helpers/run-stemma-here.js";
import { spawnStemma } from "../../../helpers/run-stemma.js";
import { startTestServer } from "../../../helpers/test-server.js";

const cwd = process.cwd();
let folder: string;
let root: string;
let runs = 0;
const at = (...names: readonly string[]): string => join(root, ...names);
const stemma = (...args: readonly string[]): Promise<ProgramResult> =>
  runStemmaWith(args, { STEMMA_HOME: join(folder, "fleet-home"), STEMMA_FLEET: "cars" });
async function good(...args: readonly string[]): Promise<string> {
  const { status, stdout, stderr } = await stemma(...args);
  assert.equal(status, 0, `${args.join(" ")}\n${stdout}${stderr}`);
  return stdout;
}
async function refused(code: string, ...args: readonly string[]): Promise<string> {
  const { status, stderr } = await stemma(...args);
  assert.notEqual(status, 0, args.join(" "));
  assert.match(stderr, new RegExp(`\\[${code}\\]\\n$`));
  return stderr;
}
const json = async (...args: readonly string[]): Promise<never> =>
  JSON.parse(await good(...args, "-o", "json")) as never;
const names = async (...args: readonly string[]): Promise<readonly string[]> =>
  (await good(...args, "-o", "name")).split("\n").filter((line) => line !== "");

const kerasLog = "epoch,accuracy,loss,val_loss\n0,0.1,2.5,2.6\n1,0.4,nan,1.5\n2,0.8,0.5,0.9\n";

before(async () => {
  folder = await realpath(await mkdtemp(join(tmpdir(), "stemma-repository-")));
});
after(async () => {
  process.chdir(cwd);
  await rm(folder, { recursive: true, force: true });
});
/** A working folder with two models of one network, and the repository around it. */
beforeEach(async () => {
  root = join(folder, String(++runs));
  await mkdir(join(root, "code"), { recursive: true });
  for (const seed of ["1", "2"]) {
    const { bytes, architecture } = await tinyImport(seed);
    await writeFile(at(`${seed}.safetensors`), bytes);
    await writeFile(at("net.json"), architecture);
  }
  await writeFile(at("code", "train.py"), "print(1)\n");
  await writeFile(at("config.json"), JSON.stringify({ lr: 0.1, optimizer: { name: "sgd" } }));
  await writeFile(at("log.csv"), kerasLog);
  process.chdir(root);
  await good("init");
});

interface Described {
  readonly versionId: string;
  readonly metadata: Readonly<Record<string, unknown>>;
  readonly measurements: readonly unknown[];
  readonly bases: readonly { readonly name: string; readonly version: number }[];
  readonly record: { readonly uses?: { readonly checkpoints: readonly { readonly iteration: number }[] } };
}

describe("a modeller's day", () => {
  it("commits a model with all that belongs to it, and gives each part back", async () => {
    await writeFile(at("checkpoint-20.safetensors"), await readFile(at("2.safetensors")));
    await good(
      "add",
      "1.safetensors",
      "net.json",
      "code/train.py",
      "config.json",
      "log.csv",
      "checkpoint-20.safetensors",
    );
    process.chdir(at("code"));
    await good(
      "commit",
      "-m",
      "first\nwith more",
      "--name",
      "tiny",
      "--tag",
      "best",
      "--set",
      "lr=0.2",
      "--author",
      "ann",
    );
    process.chdir(root);
    const made: Described = await json("desc", "tiny:best");
    assert.equal(made.metadata["commit.message"], "first\nwith more");
    assert.equal(made.metadata["commit.author"], "ann");
    assert.equal(made.metadata["lr"], 0.2);
    assert.equal(made.metadata["optimizer.name"], "sgd");
    assert.deepEqual(made.measurements, [
      { epoch: 0, iteration: 0, learningRate: null, loss: 2.5, metrics: { accuracy: 0.1 }, validation: 2.6 },
      {
        epoch: 1,
        iteration: 1,
        learningRate: null,
        loss: null,
        metrics: { accuracy: 0.4, loss: null },
        validation: 1.5,
      },
      { epoch: 2, iteration: 2, learningRate: null, loss: 0.5, metrics: { accuracy: 0.8 }, validation: 0.9 },
    ]);
    assert.deepEqual(
      made.record.uses?.checkpoints.map(({ iteration }) => iteration),
      [20],
    );
    assert.deepEqual(await names("list", "--where", "lr=0.2"), ["tiny:1"]);
    const home = ["--home", at(".stemma"), "--fleet", "local"];
    await good("model", "recover", "tiny:1", "--checkpoint", "20", "--file", "20.out", ...home);
    assert.deepEqual(await readFile(at("20.out")), await readFile(at("2.safetensors")));
    // Nothing of it went to the fleet that the environment names.
    await refused("NOT_FOUND", "model", "list");
  });

  it("stages a model of several files with all of them", async () => {
    const { main, files } = tfjsModelFiles();
    for (const [name, bytes] of Object.entries(files)) await writeFile(at(name), bytes);
    assert.match(
      await good("add", "--as", "model", main),
      /3 tensors; .*opaque; 1 of 3 weights are quantised/,
    );
    await writeFile(at("g2.bin"), Buffer.from([8, 0, 0, 0]));
    assert.match(await good("status"), /changed since staged/);
    await refused("FILE_CHANGED", "commit", "-m", "one", "--name", "web");
    await good("add", "--as", "model", main);
    await good("commit", "-m", "one", "--name", "web");
    await rm(at("g2.bin"));
    await refused("FILE_MISSING", "add", "--as", "model", main);
  });

  it("keeps the history of a file, and takes files over that are not added again", async () => {
    await good("add", "1.safetensors", "code/train.py", "config.json", "log.csv");
    await good("commit", "-m", "one", "--name", "tiny");
    await good("add", "2.safetensors");
    await good("commit", "-m", "two");
    await writeFile(at("code", "train.py"), "print(2)\n");
    assert.match(await good("status"), /changed, not staged +script +code\/train.py/);
    await refused("USAGE", "commit", "-m", "nothing is staged");
    await good("commit", "--all", "-m", "three: only the script");
    assert.deepEqual(await names("list", "--file", "train.py"), ["tiny:1", "tiny:3"]);
    assert.equal(await good("desc", "tiny:2", "--show", "train.py"), "print(1)\n");
    assert.equal(await good("desc", "tiny", "--show", "train.py"), "print(2)\n");
    const three: Described = await json("desc");
    assert.deepEqual(
      three.bases.map((base) => `${base.name}:${base.version}`),
      ["tiny:2"],
    );
    assert.equal(three.metadata["lr"], 0.1);
    await refused("MODEL_PART_MISSING", "desc", "tiny:3", "--show", "log.csv");
    await good("add", "--forget", "code/train.py");
    await good("commit", "-m", "four");
    await refused("MODEL_PART_MISSING", "desc", "--show", "train.py");
    const compared = await good("diff", "tiny:1", "tiny:2", "tiny:3");
    assert.match(compared, /tiny:2 against tiny:1: \d tensors differ/);
    assert.match(compared, /file train.py +script (\w{12}) +script \1 +script (?!\1)\w{12}/);
    assert.doesNotMatch(compared, /^lr /m);
    assert.match(await good("list", "--graph"), /tiny:4[^]*tiny:1/);
    assert.equal((await stemma("archive", "--dry-run")).status, 0);
  });

  it("copies a version to a new model, with its weights or not", async () => {
    await good("add", "1.safetensors", "net.json", "code/train.py");
    await good("commit", "-m", "one", "--name", "tiny");
    await good("copy", "tiny:1", "wide");
    assert.deepEqual(await readFile(at("wide.safetensors")), await readFile(at("1.safetensors")));
    await writeFile(at("wide.safetensors"), await readFile(at("2.safetensors")));
    await refused("FILE_CHANGED", "commit", "-m", "trained");
    await good("commit", "-a", "-m", "trained");
    const wide: Described = await json("desc", "wide:1");
    assert.deepEqual(
      wide.bases.map(({ name, version }) => [name, version]),
      [["tiny", 1]],
    );
    assert.match(await good("desc", "wide"), /LAYER +CLASS +SHAPE +PARAMETERS/);
    await writeFile(at("code", "train.py"), "print(3)\n");
    await refused("FILE_EXISTS", "copy", "tiny:1", "fresh", "--no-weights");
    await good("copy", "tiny:1", "fresh", "--no-weights", "--force");
    assert.equal(await readFile(at("code", "train.py"), "utf8"), "print(1)\n");
    await assert.rejects(readFile(at("fresh.safetensors")));
    await refused("USAGE", "copy", "tiny:1", "again");
    await refused("USAGE", "commit", "-m", "without weights");
    await refused("USAGE", "commit", "-m", " ");
    await good("add", "--unstage");
    assert.match(await good("status"), /nothing staged[^]*model wide/);
  });

  it("works on a fleet that the line names", async () => {
    const server = await startTestServer({ home: at("served") });
    try {
      const fleet = ["--home", at("served"), "--fleet", "vans"];
      await good("add", "1.safetensors", "code/train.py", ...fleet);
      await good("commit", "-m", "to the fleet", "--name", "tiny", ...fleet);
      assert.deepEqual(await names("list", ...fleet), ["tiny:1"]);
      assert.equal(await good("desc", "tiny", "--show", "train.py", ...fleet), "print(1)\n");
      assert.deepEqual(await names("list"), []);
    } finally {
      await server.handle.close();
    }
  });
});

describe("commits that are cut short, repeated or concurrent", () => {
  it("make one version", async () => {
    await good("add", "1.safetensors", "config.json");
    const staged = await readFile(at(".stemma", "staging", "list.json"));
    await good("commit", "-m", "one", "--name", "tiny");
    // As after a kill between the import and the rest of the commit.
    await writeFile(at(".stemma", "staging", "list.json"), staged);
    assert.match(await good("commit", "-m", "one", "--name", "tiny", "--tag", "best"), /tiny:1 .* already/);
    assert.deepEqual(await names("list"), ["tiny:1"]);
    assert.match(await good("status"), /nothing staged[^]*#best/);
    await refused("USAGE", "commit", "-m", "one");
    await good("add", "2.safetensors");
    const both = await Promise.all([stemma("commit", "-m", "a"), stemma("commit", "-m", "b")]);
    assert.deepEqual(both.map(({ status }) => status).sort(), [0, 2]);
    assert.deepEqual(await names("list"), ["tiny:1", "tiny:2"]);
  });

  for (const changes of [1, 8, 16, 24, 32, 48])
    it(`make one version, also killed at the ${changes}. change of a file of the repository`, async () => {
      await good("add", "1.safetensors", "config.json", "log.csv");
      const child = spawnStemma(["commit", "-m", "one", "--name", "tiny", "--tag", "best"], {
        STEMMA_HOME: undefined,
      });
      let seen = 0;
      const watched = watch(at(".stemma"), { recursive: true }, () => {
        if (++seen >= changes) child.kill("SIGKILL");
      });
      await once(child, "close");
      watched.close();
      const staged = (await names("status")).length;
      const after = await stemma("commit", "-m", "one", "--name", "tiny", "--tag", "best");
      assert.equal(after.status, staged === 0 ? 2 : 0, after.stderr);
      assert.deepEqual(await names("list"), ["tiny:1"]);
      const made: Described = await json("desc", "tiny:best");
      assert.deepEqual([made.metadata["lr"], made.measurements.length], [0.1, 3]);
      assert.match(await good("status"), /nothing staged/);
    });

  it("are refused where a staged file is another by now, or gone, and go on afterwards", async () => {
    await good("add", "1.safetensors", "config.json");
    await writeFile(at("config.json"), "{}");
    assert.match(await good("status"), /changed since staged/);
    await refused("FILE_CHANGED", "commit", "-m", "x", "--name", "tiny");
    await rm(at("config.json"));
    assert.match(await good("status"), /missing/);
    await refused("FILE_MISSING", "commit", "-m", "x", "--name", "tiny");
    await good("add", "--unstage", "config.json");
    await good("commit", "-m", "x", "--name", "tiny");
    assert.deepEqual(await names("list"), ["tiny:1"]);
  });

  it("A, B, A again is three versions", async () => {
    for (const seed of ["1", "2", "1"]) {
      await good("add", `${seed}.safetensors`);
      await good("commit", "-m", seed, "--name", "tiny");
    }
    assert.deepEqual(await names("list"), ["tiny:1", "tiny:2", "tiny:3"]);
  });
});

describe("a repository", () => {
  it("is made once, and nothing that is there is damaged", async () => {
    assert.match(await good("init"), /already; nothing was changed/);
    await mkdir(at("other", ".stemma"), { recursive: true });
    await writeFile(at("other", ".stemma", "mine"), "x");
    await refused("NOT_ALLOWED", "init", "other");
    assert.equal(await readFile(at("other", ".stemma", "mine"), "utf8"), "x");
    await writeFile(at("file"), "x");
    await refused("NOT_ALLOWED", "init", "file");
    await mkdir(at("linked"));
    await symlink(at("nowhere"), at("linked", ".stemma"));
    await refused("NOT_ALLOWED", "init", "linked");
    // The home of a fleet is none.
    await good("model", "import", "1.safetensors", "--name", "x", "--home", at("plain", ".stemma"));
    await refused("NOT_ALLOWED", "init", "plain");
  });

  it("that is moved, copied or behind a link has its versions; one of another release is refused", async () => {
    await good("add", "1.safetensors");
    await good("commit", "-m", "one", "--name", "tiny");
    await good("add", "2.safetensors");
    await cp(root, join(folder, "copied"), { recursive: true });
    await rename(root, join(folder, "moved"));
    for (const name of ["moved", "copied"]) {
      process.chdir(join(folder, name));
      assert.deepEqual(await names("list"), ["tiny:1"]);
      await good("commit", "-m", "two");
      assert.deepEqual(await names("list"), ["tiny:1", "tiny:2"]);
    }
    await mkdir(join(folder, "linked"));
    await symlink(join(folder, "copied", ".stemma"), join(folder, "linked", ".stemma"));
    process.chdir(join(folder, "linked"));
    assert.deepEqual(await names("list"), ["tiny:1", "tiny:2"]);
    assert.match(await good("init"), /already/);
    await writeFile(
      join(folder, "copied", ".stemma", "repository.json"),
      '{"kind":"stemma-repository","format":2}',
    );
    assert.match(await refused("HOME_FORMAT_UNKNOWN", "list"), /format 2/);
    await refused("HOME_FORMAT_UNKNOWN", "init");
    await writeFile(join(folder, "copied", ".stemma", "repository.json"), "[[");
    await refused("HOME_FORMAT_UNKNOWN", "status");
  });

  it("is read where it cannot be written", { skip: process.getuid?.() === 0 }, async () => {
    await good("add", "1.safetensors");
    await good("commit", "-m", "one", "--name", "tiny");
    await chmod(at(".stemma", "staging"), 0o500);
    assert.match(await good("status"), /tiny:1/);
    await refused("FILE_FAILED", "add", "2.safetensors");
    await chmod(at(".stemma", "staging"), 0o700);
  });

  it("of another user is not used by itself", { skip: process.getuid?.() !== 0 }, async () => {
    await chown(at(".stemma", "repository.json"), 12345, 12345);
    assert.match(await refused("NOT_ALLOWED", "add", "1.safetensors"), /12345/);
    await refused("NOT_ALLOWED", "init");
    assert.deepEqual(await names("list", "--home", at(".stemma"), "--fleet", "local"), []);
  });

  it("is needed by the verbs, unless a fleet is named", async () => {
    process.chdir(folder);
    const bare = await runStemmaWith(["list"], { STEMMA_HOME: undefined, STEMMA_FLEET: undefined });
    assert.match(bare.stderr, /stemma init[^]*\[NOT_FOUND\]/);
    await refused("NOT_FOUND", "add", join(root, "1.safetensors"));
    assert.deepEqual(await names("list", "--home", at(".stemma"), "--fleet", "local"), []);
  });
});

describe("hostile files", () => {
  it("are refused when they are added, and what steers a terminal is shown as text", async () => {
    await writeFile(at("torch.safetensors"), Buffer.from([0x50, 0x4b, 3, 4, 0, 0, 0, 0, 0, 0]));
    assert.match(await refused("MODEL_FILE_MALFORMED", "add", "torch.safetensors"), /cut short/);
    await writeFile(at("a\u001b[2Jb.py"), "x");
    const { stderr, status } = await stemma("add", "a\u001b[2Jb.py");
    assert.notEqual(status, 0);
    assert.ok(!stderr.includes("\u001b"));
    await refused("NOT_ALLOWED", "add", ".stemma/server-key.json");
    await symlink(at(".stemma", "server-key.json"), at("key.json"));
    await refused("NOT_ALLOWED", "add", "key.json");
    await writeFile(at("unknown.xyz"), "?");
    await refused("USAGE", "add", "unknown.xyz");
    await refused("FILE_MISSING", "add", "nothing.py");
    await mkdir(at("code", "deeper"));
    await writeFile(at("code", "deeper", "train.py"), "");
    await refused("USAGE", "add", "code/train.py", "code/deeper/train.py");
    await refused("DATASET_UNKNOWN", "add", "--data", "nothing");
    await writeFile(at("bad.yaml"), "a: [1,");
    await refused("CONFIG_INVALID", "add", "bad.yaml");
    await writeFile(at("own.json"), '{"commit": {"author": "root"}}');
    await refused("CONFIG_INVALID", "add", "own.json");
    await writeFile(at(".stemma", "staging", "list.json"), "{");
    await refused("CONFIG_INVALID", "status");
    await rm(at(".stemma", "staging", "list.json"));
    assert.match(await good("status"), /nothing staged/);
  });

  it("of a version are not written outside of the repository", async () => {
    const fleet = ["--home", at(".stemma"), "--fleet", "local"];
    for (const [path, lands] of [
      ["script ../../evil.py", "evil.py"],
      ["script /tmp/evil.py", "evil.py"],
      ["script .stemma/repository.json", "evil.py"],
    ] as const) {
      await writeFile(at("evil.py"), path);
      await good(
        "model",
        "import",
        "1.safetensors",
        "--name",
        "x",
        "--attach",
        "evil.py",
        "--meta",
        `file.evil.py=${path}`,
        ...fleet,
      );
      await rm(at("evil.py"));
      await good("copy", "x", "y", "--no-weights");
      assert.equal(await readFile(at(lands), "utf8"), path);
      await good("add", "--unstage");
    }
    // A story is of its version alone.
    await writeFile(at("stemma.story.json"), "{}");
    await good(
      "model",
      "import",
      "1.safetensors",
      "--name",
      "told",
      "--attach",
      "stemma.story.json",
      ...fleet,
    );
    await rm(at("stemma.story.json"));
    assert.deepEqual(await names("copy", "told", "y", "--no-weights"), []);
    await good("add", "--unstage");
    await writeFile(at("evil.py"), "x");
    await symlink(folder, at("out"));
    await good(
      "model",
      "import",
      "1.safetensors",
      "--name",
      "x",
      "--attach",
      "evil.py",
      "--meta",
      "file.evil.py=script out/evil.py",
      ...fleet,
    );
    await refused("NOT_ALLOWED", "copy", "x", "y", "--no-weights");
    await assert.rejects(readFile(join(folder, "evil.py")));
  });
});
