/**
 * `stemma model list` in pages, `model recover --form tfjs` and `--verbose`, without a server and with one.
 */
import assert from "node:assert/strict";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import type { ExportedModelJson } from "../../../../shared/model/model-json-export.js";
import { safetensorsChunks } from "../../../../shared/tensor/safetensors.js";
import { opaqueModelSource } from "../../../../shared/save/model-source.js";
import type { ModelSource } from "../../../../shared/model/model.js";
import { openNodeHome } from "../../../../server/storage/repository/node-home.js";
import { openRepository } from "../../../../server/storage/repository/open-repository.js";
import { sourceOfTensor, type Tensor } from "../../../../shared/tensor/tensor.js";
import { collectBytes, tinyImport } from "../../../helpers/agent-fixtures.js";
import { runStemmaHere, type ProgramResult } from "../../../helpers/run-stemma-here.js";
import { startTestServer } from "../../../helpers/test-server.js";

describe("models on the command line", () => {
  let folder: string;
  let home: string;
  /** Has a version with checkpoints and an optimizer's state. */
  let trainedHome: string;
  const run = async (...args: string[]): Promise<ProgramResult> => runStemmaHere(args, { home });
  const good = async (...args: string[]): Promise<ProgramResult> => {
    const ended = await run(...args);
    assert.equal(ended.status, 0, ended.stderr);
    return ended;
  };

  before(async () => {
    folder = await mkdtemp(join(tmpdir(), "stemma-models-"));
    home = join(folder, "home");
    for (const seed of ["1", "2", "3"]) {
      const { bytes, architecture } = await tinyImport(seed);
      await writeFile(join(folder, `${seed}.safetensors`), bytes);
      await writeFile(join(folder, "model.json"), architecture);
      await good(
        ...["model", "import", join(folder, `${seed}.safetensors`), "--name", "tiny"],
        ...["--arch", join(folder, "model.json"), "--meta", `seed=${seed}`],
      );
    }
    const opaque = safetensorsChunks([
      { name: "w", source: sourceOfTensor({ dtype: "U8", shape: [3], bytes: Uint8Array.of(1, 2, 3) }) },
    ]);
    await writeFile(join(folder, "opaque.safetensors"), await collectBytes(opaque));
    await good("model", "import", join(folder, "opaque.safetensors"), "--name", "opaque");
    trainedHome = join(folder, "trained");
    await saveTrained(trainedHome);
  });
  after(() => rm(folder, { recursive: true, force: true }));

  it("logs what a model was trained from, a page of it where one is asked for", async () => {
    const own = join(folder, "logged");
    const stemma = async (...args: string[]): Promise<ProgramResult> => runStemmaHere(args, { home: own });
    for (const seed of ["1", "2", "3"])
      await stemma(
        ...["model", "import", join(folder, `${seed}.safetensors`), "--name", "chain"],
        ...["--arch", join(folder, "model.json"), ...(seed === "1" ? [] : ["--base", "chain"])],
      );
    const names = async (...args: string[]): Promise<string> =>
      (await stemma("model", "log", "chain", "-o", "name", ...args)).stdout;
    assert.equal(await names(), "chain:3\nchain:2\nchain:1\n");
    assert.equal(await names("--limit", "1", "--offset", "1"), "chain:2\n");
    assert.equal(await names("--offset", "3"), "");
    assert.equal((await stemma("model", "log", "chain", "--descendants")).status, 2);
  });

  for (const where of ["a home", "its server"]) {
    it(`lists pages and versions that match conditions, at ${where}`, async () => {
      await atServer(where === "its server", home, async () => {
        const names = async (...args: string[]): Promise<string[]> =>
          (await good("model", "list", "-o", "name", ...args)).stdout
            .split("\n")
            .filter((line) => line !== "");
        assert.deepEqual(await names(), ["tiny:1", "tiny:2", "tiny:3", "opaque:1"]);
        assert.deepEqual(await names("--limit", "2"), ["tiny:3", "opaque:1"]);
        assert.deepEqual(await names("--limit", "2", "--offset", "2"), ["tiny:1", "tiny:2"]);
        assert.deepEqual(await names("--where", "seed>=2"), ["tiny:2", "tiny:3"]);
        assert.deepEqual(await names("--where", "seed>=2", "--where", "seed<3"), ["tiny:2"]);
        const page = await good("model", "list", "--limit", "1");
        assert.match(page.stderr, /1 of 4 .*--offset 1/);
        assert.equal((await good("model", "list")).stderr, "");
        for (const args of [
          ["--limit", "0"],
          ["--limit", "x"],
          ["--where", "seed"],
        ])
          assert.equal((await run("model", "list", ...args)).status, 2, args.join(" "));
      });
    });

    it(`recovers to a pipe, and without a file says that nothing was written, at ${where}`, async () => {
      await atServer(where === "its server", home, async () => {
        const piped = await good("model", "recover", "opaque", "--file", "-");
        assert.equal(piped.stdout, await readFile(join(folder, "opaque.safetensors"), "utf8"));
        assert.match(piped.stderr, /opaque:1 recovered exactly/);
        assert.match((await good("model", "recover", "opaque")).stdout, /nothing was written.*--file PATH/);
      });
    });

    it(`recovers a checkpoint, and the optimizer's state beside a model, at ${where}`, async () => {
      await atServer(where === "its server", trainedHome, async () => {
        const recover = (...args: string[]): Promise<ProgramResult> =>
          runStemmaHere(["model", "recover", "trained", ...args], { home: trainedHome });
        const out = await mkdtemp(join(folder, "parts-"));
        const file = join(out, "soh.safetensors");
        assert.equal((await recover("--checkpoint", "20", "--file", file)).status, 0);
        assert.deepEqual(await readFile(file), await fileOf(trained.checkpoint));
        const unknown = await recover("--checkpoint", "3", "--file", join(out, "none"));
        assert.equal(unknown.status, 3);
        assert.match(unknown.stderr, /iterations 10, 20[^]*MODEL_PART_MISSING/);
        const both = await recover("--with", "optimizer", "--file", file, "--force");
        assert.match(both.stdout, /trained:1 recovered[^]*trained:1 \(the optimizer's state\) recovered/);
        assert.deepEqual(await readFile(file), await fileOf(trained.model));
        assert.deepEqual(
          await readFile(join(out, "soh.optimizer.safetensors")),
          await fileOf(trained.optimizer),
        );
        // Nothing is written where one of the two files exists.
        await rm(file);
        assert.notEqual((await recover("--with", "optimizer", "--file", file)).status, 0);
        await assert.rejects(readFile(file), { code: "ENOENT" });
        for (const mixed of [
          ["--with", "optimizer", "--checkpoint", "10"],
          ["--with", "optimizer", "--file", "-"],
        ])
          assert.equal((await recover(...mixed)).status, 2);
      });
    });

    it(`recovers for TensorFlow.js, at ${where}`, async () => {
      await atServer(where === "its server", home, async () => {
        const web = await mkdtemp(join(folder, "tfjs-"));
        await good("model", "recover", "tiny:2", "--form", "tfjs", "--folder", web);
        const json = JSON.parse(await readFile(join(web, "model.json"), "utf8")) as ExportedModelJson;
        const [group] = json.weightsManifest;
        assert.deepEqual(group?.paths, ["weights.bin"]);
        const weights = await readFile(join(web, "weights.bin"));
        const count = group.weights.reduce(
          (sum, { shape }) => sum + shape.reduce((product, extent) => product * extent, 1),
          0,
        );
        assert.equal(weights.length, 4 * count);
        await good("model", "recover", "tiny:2", "--form", "tfjs", "--file", join(web, "soh.json"));
        assert.deepEqual(await readFile(join(web, "soh.weights.bin")), weights);
        // The written files describe the same model: imported again with it as base, nothing is new.
        for (const files of [
          [join(folder, "2.safetensors"), "--arch", join(web, "model.json")],
          [join(web, "soh.json")],
        ]) {
          const again = await good(
            ...["model", "import", ...files, "--name", "tiny", "--base", "tiny:2", "--dry-run", "-o", "json"],
          );
          assert.equal((JSON.parse(again.stdout) as { unchanged: boolean }).unchanged, true);
        }
        const twice = ["--arch", join(web, "model.json"), "--name", "x"];
        assert.match(
          (await run("model", "import", join(web, "model.json"), ...twice)).stderr,
          /Leave out --arch/,
        );
        const refused = await run("model", "recover", "opaque", "--form", "tfjs", "--folder", web, "--force");
        assert.match(refused.stderr, /MODEL_OPAQUE/);
        assert.equal((await run("model", "recover", "tiny", "--form", "tfjs")).status, 2);
      });
    });
  }

  it("shows the stack and causes of an error only with --verbose", async () => {
    const plan = join(folder, "no-plan");
    await writeFile(plan, "{");
    const args = ["storage", "apply", "--plan", plan];
    assert.doesNotMatch((await run(...args)).stderr, /caused by|\n {4}at /);
    assert.match(
      (await run(...args, "--verbose")).stderr,
      /PLAN_INVALID[^]*\n {4}at [^]*caused by SyntaxError/,
    );
  });
});

const named = (name: string, value: number): Tensor & { readonly name: string } => ({
  name,
  dtype: "U8",
  shape: [3],
  bytes: Uint8Array.of(value, 2, 3),
});
const trained = { model: named("w", 1), checkpoint: named("w", 20), optimizer: named("m/w", 7) };

async function fileOf({ name, ...tensor }: Tensor & { readonly name: string }): Promise<Buffer> {
  return Buffer.from(await collectBytes(safetensorsChunks([{ name, source: sourceOfTensor(tensor) }])));
}

/** A version with two checkpoints and an optimizer's state. */
async function saveTrained(home: string): Promise<void> {
  const opened = await openNodeHome(home);
  const repository = await openRepository(opened, "local");
  const modelOf = (tensor: Tensor & { readonly name: string }): ModelSource => opaqueModelSource([tensor]);
  await repository.save(modelOf(trained.model), {
    name: "trained",
    uses: {
      optimizer: modelOf(trained.optimizer),
      checkpoints: [10, 20].map((iteration) => ({ iteration, model: modelOf(named("w", iteration)) })),
    },
  });
  await repository.close();
  await opened.close();
}

async function atServer(isServed: boolean, home: string, work: () => Promise<void>): Promise<void> {
  if (!isServed) return work();
  const server = await startTestServer({ home, fleets: ["local"] });
  try {
    await work();
  } finally {
    await server.handle.close();
  }
}
