/** `stemma probe --exec`: the summaries that a program leaves are compared; it gets the tensors of a model. */
import assert from "node:assert/strict";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { after, before, describe, it } from "node:test";
import { figuresOf } from "../../../../shared/determinism/figures.js";
import { decodeProbe, encodeProbe, type ProbeSummary } from "../../../../shared/determinism/probe-summary.js";
import { openModelFile } from "../../../../shared/forms/model-file.js";
import { rootOf } from "../../../../shared/layouts/file-of-layout.js";
import { modelSourceOfSafetensors } from "../../../../shared/save/model-source.js";
import { sha256 } from "../../../../shared/tensor/hash.js";
import type { Hash } from "../../../../shared/tensor/tensor.js";
import { runStemmaHere, type ProgramResult } from "../../../helpers/run-stemma-here.js";
import { safetensorsHeaderText } from "../../../../shared/tensor/safetensors-header.js";

const figures = (...numbers: number[]) => figuresOf(Float32Array.from(numbers), [numbers.length]);

/** The summary of a module of PyTorch with one layer, which gives this number. */
function summaryOf(output: number, root: Hash = sha256("weights")): ProbeSummary {
  const operations = [{ name: "aten.addmm.default", kernel: "cpu torch", digest: "0".repeat(16) }];
  const pass = { outputs: [figures(output)], operations, unlisted: 0 };
  return {
    format: 1,
    kind: "stemma-probe",
    model: { architecture: sha256("modules"), root, weights: "own", parameters: 1 },
    inputs: { seed: "1", batch: 1, tensors: [figures(1)] },
    environment: {
      backend: "cpu",
      threads: "1",
      architecture: "x86_64",
      python: "3.12.1",
      "library.torch": "2.9.0",
    },
    layers: [
      {
        name: "head.fc",
        className: "Linear",
        inputs: [],
        evaluation: pass,
        training: pass,
        backward: { ...pass, operations: [], weights: [{ name: "weight", gradient: figures(output) }] },
      },
    ],
    loss: figures(output),
    refused: null,
    runs: { count: 1, differing: 0 },
  };
}

/** Leaves the summary that is named after its run: "first.json" until there is one, then "second.json". */
const program = `
  const { copyFileSync, existsSync, writeFileSync, readFileSync } = require("node:fs");
  const { join } = require("node:path");
  const [, , folder] = process.argv;
  const marker = join(folder, "ran");
  const name = existsSync(marker) ? "second.json" : "first.json";
  const model = join(process.env.STEMMA_INPUT, "model.safetensors");
  writeFileSync(marker, existsSync(model) ? readFileSync(model) : "");
  if (existsSync(join(folder, name))) copyFileSync(join(folder, name), join(process.env.STEMMA_RUN, "probe.json"));
`;

describe("a probe by a program of the user's own", () => {
  let folder: string;
  before(async () => {
    folder = await mkdtemp(join(tmpdir(), "stemma-probe-program-"));
    await writeFile(join(folder, "program.cjs"), program);
  });
  after(() => rm(folder, { recursive: true, force: true }));

  async function run(
    words: readonly string[],
    first?: ProbeSummary,
    second: ProbeSummary | undefined = first,
  ): Promise<ProgramResult> {
    for (const name of ["ran", "first.json", "second.json"]) await rm(join(folder, name), { force: true });
    if (first !== undefined) await writeFile(join(folder, "first.json"), encodeProbe(first));
    if (second !== undefined) await writeFile(join(folder, "second.json"), encodeProbe(second));
    const exec = ["--exec", process.execPath, join(folder, "program.cjs"), folder];
    const ended = await runStemmaHere(["probe", ...words, ...exec], { home: join(folder, "home") });
    return { ...ended, stdout: ended.stdout.replace(/\s+/g, " ") };
  }

  it("says that its runs are equal, keeps the summary, and names the software that computed", async () => {
    const file = join(folder, "kept.json");
    const { status, stdout } = await run(["--file", file], summaryOf(1));
    assert.equal(status, 0, stdout);
    assert.match(stdout, /2 runs in processes of their own gave the same bits/);
    assert.match(stdout, /cpu, 1 thread, x86_64, Python 3\.12\.1, PyTorch 2\.9\.0/);
    assert.deepEqual(decodeProbe(await readFile(file), file).runs, { count: 2, differing: 0 });
  });

  it("names the module in which its runs differ first, and the operation; of the backward pass none", async () => {
    const { status, stdout } = await run([], summaryOf(1), summaryOf(1.5));
    assert.equal(status, 4);
    assert.match(stdout, /2 runs did NOT give the same bits: 4 values differ/);
    assert.match(stdout, /first difference: the evaluation, layer 0 \(head\.fc, Linear\), output 0/);
    const one = summaryOf(1);
    const other = summaryOf(1.5);
    const [layer] = one.layers;
    const backwardAlone = { ...one, layers: [{ ...layer!, backward: other.layers[0]!.backward }] };
    assert.match((await run([], one, backwardAlone)).stdout, /no operation that made it is listed/);
  });

  it("refuses runs of other weights or inputs, and a program that leaves nothing or fails", async () => {
    const others = await run([], summaryOf(1), summaryOf(1, sha256("others")));
    assert.match(others.stderr, /did not probe the same: the weights .*TRAINER_OUTPUT_INVALID/s);
    assert.match((await run([])).stderr, /left no probe\.json .*TRAINER_OUTPUT_INVALID/s);
    const home = join(folder, "home");
    const failed = await runStemmaHere(["probe", "--exec", process.execPath, "nosuch.cjs"], { home });
    assert.match(failed.stderr, /TRAINER_FAILED/);
    const hyphened = ["--exec", process.execPath, "--exec=-e", "--exec=process.exit(7)"];
    assert.match((await runStemmaHere(["probe", ...hyphened], { home })).stderr, /status 7/);
    const unheard = await runStemmaHere(["probe", "net", "--timeout", "5"], { home });
    assert.match(unheard.stderr, /--timeout goes with --exec.*USAGE/s);
    const nothing = await runStemmaHere(["probe"], { home });
    assert.match(nothing.stderr, /Name one model or architecture to probe, or a program .*USAGE/s);
    assert.match(
      (await run(["--tensors", "--file", join(folder, "t.json")])).stderr,
      /the program decides --tensors/,
    );
  });

  it("gives it the model's tensors, and says whether those ran", async () => {
    const home = join(folder, "home");
    const path = join(folder, "net.safetensors");
    const header = Buffer.from(
      safetensorsHeaderText([{ name: "weight", dtype: "F32", shape: [1] }], undefined),
    );
    const length = Buffer.alloc(8);
    length.writeBigUInt64LE(BigInt(header.length));
    await writeFile(path, Buffer.concat([length, header, Buffer.alloc(4)]));
    await runStemmaHere(["model", "import", path, "--name", "net"], { home });
    const shown = await runStemmaHere(["model", "show", "net", "-o", "json"], { home });
    const { record } = JSON.parse(shown.stdout) as { readonly record: { readonly root: Hash } };
    const same = await run(["net"], summaryOf(1, record.root));
    assert.equal(same.status, 0, same.stderr);
    assert.match(same.stdout, /^net:1 by /);
    assert.doesNotMatch(same.stdout, /weights are not those/);
    assert.ok((await readFile(join(folder, "ran"))).includes('"weight"'));
    assert.match((await run(["net"], summaryOf(1))).stdout, /the weights are not those of net:1/);
  });

  it("says so by the names of the file that it gets, for a model in a layout", async () => {
    const home = join(folder, "home");
    const vectors = new URL("../../../../../test/vectors/layouts/", import.meta.url);
    const [weights = "", layers = ""] = ["cnn.pt", "cnn.json"].map((name) =>
      fileURLToPath(new URL(name, vectors)),
    );
    const words = ["--name", "cnn", "--arch", layers, "--layout", "pytorch"];
    const imported = await runStemmaHere(["model", "import", weights, ...words], { home });
    assert.equal(imported.status, 0, imported.stderr);
    const file = await openModelFile(weights);
    const { leaves } = await modelSourceOfSafetensors(file.file, weights);
    await file.close();
    const same = await run(["cnn"], summaryOf(1, rootOf(leaves)));
    assert.equal(same.status, 0, same.stderr);
    assert.doesNotMatch(same.stdout, /weights are not those/);
    const shown = await runStemmaHere(["model", "show", "cnn", "-o", "json"], { home });
    const { record } = JSON.parse(shown.stdout) as { readonly record: { readonly root: Hash } };
    assert.match(
      (await run(["cnn"], summaryOf(1, record.root))).stdout,
      /the weights are not those of cnn:1/,
    );
  });
});
