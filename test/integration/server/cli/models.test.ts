/**
 * `stemma model list` in pages, `model recover --form tfjs` and `--verbose`, without a server and with one.
 */
import assert from "node:assert/strict";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import type { ExportedModelJson } from "../../../../shared/model/model-json-export.js";
import { startServer } from "../../../../server/main.js";
import { silentLog } from "../../../../shared/adapters/node-ports.js";
import { safetensorsChunks } from "../../../../shared/tensor/safetensors.js";
import { sourceOfTensor } from "../../../../shared/tensor/tensor.js";
import { collectBytes, tinyImport } from "../../../helpers/agent-fixtures.js";
import { runStemma, type ProgramResult } from "../../../helpers/run-stemma.js";

describe("models on the command line", { timeout: 120_000 }, () => {
  let folder: string;
  let home: string;
  const run = async (...args: string[]): Promise<ProgramResult> => runStemma(args, { home });
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
  });
  after(() => rm(folder, { recursive: true, force: true }));

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
        const again = await good(
          ...["model", "import", join(folder, "2.safetensors"), "--name", "tiny", "--base", "tiny:2"],
          ...["--arch", join(web, "model.json"), "--dry-run", "-o", "json"],
        );
        assert.equal((JSON.parse(again.stdout) as { unchanged: boolean }).unchanged, true);
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

async function atServer(isServed: boolean, home: string, work: () => Promise<void>): Promise<void> {
  if (!isServed) return work();
  const server = await startServer({ home, fleets: ["local"], mqttPort: 0, httpPort: 0 }, silentLog());
  try {
    await work();
  } finally {
    await server.close();
  }
}
