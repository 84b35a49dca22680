/** Files that are kept as they are, on the command line: at a home, at its server, and in a modeller's repository. */
import assert from "node:assert/strict";
import { mkdir, mkdtemp, readFile, realpath, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { after, before, describe, it } from "node:test";
import { vectorFolder } from "../../../helpers/foreign-models.js";
import { noiseBytes } from "../../../helpers/noise-bytes.js";
import { runStemmaHere, runStemmaWith, type ProgramResult } from "../../../helpers/run-stemma-here.js";
import { startTestServer } from "../../../helpers/test-server.js";

const bytesOf = (text: string): Buffer => Buffer.from(`\x1c\0\0\0TFL3${text}`, "latin1");

for (const where of ["a home", "its server"])
  describe(`a file as it is, at ${where}`, () => {
    let folder: string;
    let close: () => Promise<void> = () => Promise.resolve();
    const at = (...names: string[]): string => join(folder, ...names);
    const run = (...args: string[]): Promise<ProgramResult> =>
      runStemmaHere(["model", ...args], { home: at("home") });
    const good = async (...args: string[]): Promise<string> => {
      const { status, stdout, stderr } = await run(...args);
      assert.equal(status, 0, stderr);
      return stdout;
    };
    const refused = async (code: string, ...args: string[]): Promise<void> => {
      const { status, stderr } = await run(...args);
      assert.notEqual(status, 0);
      assert.match(stderr, new RegExp(`\\[${code}\\]`));
    };
    const keep = (content: string, ...args: string[]): Promise<string> =>
      writeFile(at("soh.tflite"), bytesOf(content)).then(() =>
        good("import", at("soh.tflite"), "--as", "file", "--name", "soh", ...args),
      );

    before(async () => {
      folder = await mkdtemp(join(tmpdir(), "stemma-files-"));
      await mkdir(at("home"));
      if (where === "its server") {
        const server = await startTestServer({ home: at("home"), fleets: ["local"] });
        close = () => server.handle.close();
      }
      assert.match(await keep("one two"), /a file as it is; 15 B of 15 B stored/);
      await keep("one TWO", "--base", "soh");
      await keep("one TWO and three", "--base", "soh");
    });
    after(async () => {
      await close();
      await rm(folder, { recursive: true, force: true });
    });

    it("comes back byte for byte, under an ending that claims nothing else, or as safetensors", async () => {
      await good("recover", "soh:2", "--file", at("out.tflite"));
      assert.deepEqual(await readFile(at("out.tflite")), bytesOf("one TWO"));
      assert.equal((await stat(at("out.tflite"))).mode & 0o111, 0);
      for (const name of ["out.onnx", "out.safetensors", "out.json"]) {
        await refused("USAGE", "recover", "soh:2", "--file", at(name));
        await assert.rejects(stat(at(name)), { code: "ENOENT" });
      }
      await good("recover", "soh:1", "--file", at("plain"), "--form", "original");
      assert.deepEqual(await readFile(at("plain")), bytesOf("one two"));
      assert.equal(await good("recover", "soh:1", "--file", "-"), bytesOf("one two").toString());
      await good("recover", "soh:1", "--form", "safetensors", "--file", at("soh.safetensors"));
      const again = await good(
        "import",
        at("soh.safetensors"),
        "--name",
        "soh",
        "--base",
        "soh:1",
        "--dry-run",
        "-o",
        "json",
      );
      const report = JSON.parse(again) as { readonly unchanged: boolean; readonly isFile?: boolean };
      assert.deepEqual([report.unchanged, report.isFile], [true, true]);
      const changed = await readFile(at("soh.safetensors"));
      changed[changed.length - 1] = 0;
      await writeFile(at("soh.safetensors"), changed);
      await refused("ROOT_MISMATCH", "import", at("soh.safetensors"), "--name", "x");
      await good("verify", "soh:3");
    });

    it("is stored as its difference where its bytes moved, and comes back", async () => {
      const body = Buffer.from(noiseBytes(100_000, 3)).toString("latin1");
      const files = [`by 1.0 ${body}`, `by 1.0.1, exported ${body}end`];
      for (const [before, content] of files.entries())
        await keep(content, "--name", "moved", ...(before === 0 ? [] : ["--base", "moved"]));
      const { status, stdout, stderr } = await runStemmaHere(["storage", "apply", "--budget", "none"], {
        home: at("home"),
      });
      assert.equal(status, 0, stderr);
      const share = Number(/now \(([\d.]+) %\)/.exec(stdout)?.[1]);
      assert.ok(share < 60, stdout);
      for (const [before, content] of files.entries()) {
        await good("recover", `moved:${before + 1}`, "--file", at("moved.tflite"), "--force");
        assert.deepEqual(await readFile(at("moved.tflite")), bytesOf(content));
      }
    });

    it("is shown and compared as a file, not as a network", async () => {
      const shown = await good("show", "soh:1");
      assert.match(
        shown,
        /^file +soh\.tflite, a file of 15 bytes, sha256 [0-9a-f]{64}, as stated by who saved it$/m,
      );
      assert.doesNotMatch(shown, /layers|TENSOR/);
      assert.match(
        await good("diff", "soh:1", "soh:2"),
        /two files of 15 bytes: 3 bytes differ in their places/,
      );
      assert.match(await good("diff", "soh:2", "soh:3"), /two files of 15 and 25 bytes: 10 bytes differ/);
      assert.match(await good("diff", "soh:2", "soh:2"), /the same in all/);
      assert.match(await good("card", "soh:1"), /- file: `soh\.tflite, a file of 15 bytes/);
      await refused("MODEL_OPAQUE", "nearest", "soh");
      await refused("MODEL_OPAQUE", "recover", "soh", "--form", "tfjs", "--folder", at("web"));
      await refused("MODEL_OPAQUE", "reduce", "soh", "--scheme", "quantize-uniform:8", "--name", "r");
      await refused("NOT_ALLOWED", "recover", "soh", "--form", "original", "--layers", "x");
    });

    it("comes back byte for byte too where it is of another tool, from its tensors and its rest", async () => {
      const vector = (name: string): string => fileURLToPath(new URL(name, vectorFolder));
      for (const name of ["state.pt", "cnn-3.keras"]) {
        const [model = ""] = name.split(".");
        await good("import", vector(name), "--name", model);
        await good("recover", model, "--form", "original", "--file", at(name));
        assert.deepEqual(await readFile(at(name)), await readFile(vector(name)));
        await refused("USAGE", "recover", model, "--form", "original", "--file", at("x.onnx"));
        await good("recover", model, "--file", at(`${model}.safetensors`));
      }
      await good("import", at("state.safetensors"), "--name", "state", "--base", "state", "--force");
      await refused("MODEL_PART_MISSING", "recover", "state", "--form", "original");
      await writeFile(at("stemma.rest"), "STEMREST");
      const lying = await run(
        "import",
        vector("state.safetensors"),
        "--name",
        "z",
        "--attach",
        at("stemma.rest"),
      );
      assert.match(lying.stderr + lying.stdout, /rest of its file does not fit/);
      await refused("MODEL_PART_MISSING", "recover", "z", "--form", "original");
    });

    it("is imported as it is only where that is said, under a plain name, and without what reads it", async () => {
      await refused("SAFETENSORS_MALFORMED", "import", at("soh.tflite"), "--name", "x");
      await writeFile(at("a b.tflite"), "TFL3");
      await refused("NAME_INVALID", "import", at("a b.tflite"), "--as", "file", "--name", "x");
      await refused(
        "USAGE",
        "import",
        at("soh.tflite"),
        "--as",
        "file",
        "--arch",
        at("soh.tflite"),
        "--name",
        "x",
      );
    });
  });

it("a file is committed, copied under another name and committed again in a repository", async (t) => {
  const cwd = process.cwd();
  const root = await realpath(await mkdtemp(join(tmpdir(), "stemma-repository-")));
  t.after(async () => {
    process.chdir(cwd);
    await rm(root, { recursive: true, force: true });
  });
  process.chdir(root);
  const stemma = async (...args: readonly string[]): Promise<string> => {
    const { status, stdout, stderr } = await runStemmaWith(args, {
      STEMMA_HOME: undefined,
      STEMMA_FLEET: undefined,
    });
    assert.equal(status, 0, `${args.join(" ")}\n${stdout}${stderr}`);
    return stdout;
  };
  await stemma("init");
  await writeFile("soh.tflite", bytesOf("one"));
  assert.match(await stemma("add", "--as", "file", "soh.tflite"), /file .*11 bytes, kept as they are/);
  await stemma("commit", "-m", "first", "--name", "soh");
  await stemma("copy", "soh", "wide");
  assert.deepEqual(await readFile("wide.tflite"), bytesOf("one"));
  await writeFile("wide.tflite", bytesOf("two"));
  await stemma("commit", "-a", "-m", "second");
  assert.match(await stemma("desc", "wide"), /file +wide\.tflite, a file of 11 bytes/);
  assert.match(await stemma("diff"), /wide:1 against soh:1: two files of 11 bytes: 3 bytes differ/);
});
