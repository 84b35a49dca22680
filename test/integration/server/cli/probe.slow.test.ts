/** Probes on the command line: of a model in a home and on a server, compared by their files. */
import assert from "node:assert/strict";
import { mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { describeReplay } from "../../../../server/cli/replay-text.js";
import { decodeProbe, encodeProbe, type ProbeSummary } from "../../../../shared/determinism/probe-summary.js";
import { encodeArchitecture } from "../../../../shared/model/architecture.js";
import { sha256 } from "../../../../shared/tensor/hash.js";
import { tinyImport } from "../../../helpers/agent-fixtures.js";
import { denseOn, inputLayer, layerOn, modelOf } from "../../../helpers/probed-models.js";
import { runStemmaHere, type ProgramResult } from "../../../helpers/run-stemma-here.js";
import { startTestServer, testFleet } from "../../../helpers/test-server.js";

describe("probes on the command line", () => {
  let folder: string;
  const at = (name: string): string => join(folder, name);
  const run = async (...args: string[]): Promise<ProgramResult> => runStemmaHere(args, { home: at("home") });
  const good = async (...args: string[]): Promise<string> => {
    const ended = await run(...args);
    assert.equal(ended.status, 0, ended.stderr + ended.stdout);
    return ended.stdout;
  };
  const bad = async (status: number, ...args: string[]): Promise<string> => {
    const ended = await run(...args);
    assert.equal(ended.status, status, ended.stderr + ended.stdout);
    return ended.stdout + ended.stderr;
  };
  const summaryOf = async (name: string): Promise<ProbeSummary> =>
    decodeProbe(await readFile(at(name)), name);
  const importTiny = async (...more: string[]): Promise<string> => {
    const { bytes, architecture } = await tinyImport("1");
    await writeFile(at("tiny.safetensors"), bytes);
    await writeFile(at("model.json"), architecture);
    return good(
      "model",
      "import",
      at("tiny.safetensors"),
      "--name",
      "tiny",
      "--arch",
      at("model.json"),
      ...more,
    );
  };

  before(async () => {
    folder = await mkdtemp(join(tmpdir(), "stemma-probes-"));
    await importTiny();
    await good("probe", "tiny", "--file", at("a.json"), "--tensors");
  });
  after(() => rm(folder, { recursive: true, force: true }));

  it("runs twice, and writes a summary with the model's own root and all tensors beside it", async () => {
    const summary = await summaryOf("a.json");
    const shown = JSON.parse(await good("model", "show", "tiny", "-o", "json")) as {
      readonly record: { readonly root: string; readonly architecture: string };
    };
    assert.equal(summary.model.root, shown.record.root);
    assert.equal(summary.model.architecture, shown.record.architecture);
    assert.deepEqual(summary.runs, { count: 2, differing: 0 });
    assert.equal(summary.environment["node"], process.version);
    assert.match(await bad(2, "probe", "tiny", "--file", at("a.json")), /FILE_EXISTS/);
    assert.deepEqual(
      (await readdir(folder)).filter((name) => name.startsWith("a.")),
      ["a.json", "a.safetensors"],
    );
  });

  it("gives the same on a server, with more threads, where the engine is exact", async (context) => {
    const server = await startTestServer({ home: at("server") });
    context.after(() => server.remove());
    const { bytes, architecture } = await tinyImport("1");
    await server.handle.operations.import(
      {
        byteLength: bytes.length,
        chunks: (async function* () {
          yield await Promise.resolve(bytes);
        })(),
      },
      { fleet: testFleet, name: "tiny", architecture },
    );
    const ended = await runStemmaHere(
      ["probe", "tiny", "--fleet", testFleet, "--threads", "2", "--runs", "1", "--file", at("b.json")],
      { home: server.home },
    );
    assert.equal(ended.status, 0, ended.stderr);
    assert.match(ended.stdout, /one run, so nothing was compared/);
    assert.match(
      await good("probe", "diff", at("a.json"), at("b.json")),
      /^the same: all \d+ outputs and gradients/,
    );
  });

  it("ends with 4 and names the layer where two summaries differ, exactly where both have their tensors", async () => {
    const summary = await summaryOf("a.json");
    const layers = summary.layers.map((layer, index) =>
      index !== 2
        ? layer
        : {
            ...layer,
            training: {
              ...layer.training!,
              outputs: layer.training!.outputs.map((output) => ({ ...output!, digest: sha256("x") })),
            },
          },
    );
    await writeFile(at("moved.json"), encodeProbe({ ...summary, layers }));
    const text = await bad(4, "probe", "diff", at("a.json"), at("moved.json"));
    assert.match(text, /first difference: the forward pass of training, layer 2 \(Dense\), output 0/);
    // Tensors of another probe beside a summary are not taken for its own.
    await writeFile(at("moved.safetensors"), await readFile(at("a.safetensors")));
    assert.match(await bad(1, "probe", "diff", at("a.json"), at("moved.json")), /FILE_CHANGED/);
    await good("probe", "tiny", "--backend", "cpu", "--runs", "1", "--tensors", "--file", at("cpu.json"));
    const other = JSON.parse(
      (await run("probe", "diff", at("a.json"), at("cpu.json"), "-o", "json")).stdout,
    ) as {
      readonly same: boolean;
      readonly exact?: { readonly largest: number; readonly of: number };
    };
    // The two backends may agree on so few numbers.
    assert.ok(other.same || (other.exact!.largest < 1e-5 && other.exact!.of > 0), JSON.stringify(other));
  });

  it("refuses what cannot be compared, and what is no summary", async () => {
    await good("probe", "tiny", "--seed", "2", "--runs", "1", "--file", at("seed.json"));
    assert.match(
      await bad(2, "probe", "diff", at("a.json"), at("seed.json")),
      /not the same: the seed \(1 and 2\)/,
    );
    assert.match(
      await bad(1, "probe", "diff", at("a.json"), at("model.json")),
      /is not the summary of a probe/,
    );
    assert.match(await bad(3, "probe", "diff", at("a.json"), at("nowhere.json")), /FILE_MISSING/);
    for (const [option, value] of [
      ["--threads", "3"],
      ["--seed", "-1"],
      ["--batch", "0"],
      ["--memory", "1"],
    ])
      await bad(2, "probe", "tiny", option!, value!);
    await bad(2, "probe", "tiny", "--tensors");
    await bad(2, "probe", "tiny", "--backend", "native");
    await bad(3, "probe", "nobody");
    const wide = modelOf(inputLayer([1000, 1000]), layerOn("Flatten", [0]));
    await writeFile(at("wide.json"), encodeArchitecture(wide));
    for (const backend of ["wasm", "cpu"])
      assert.match(
        await bad(1, "probe", at("wide.json"), "--batch", "8", "--memory", "16", "--backend", backend),
        /smaller --batch, or with a larger --memory/,
      );
  });

  it("lists each architecture: probed only where a probe ran, refused with its layer", async () => {
    const noisy = modelOf(
      inputLayer([3]),
      denseOn(0, 3, 3, "relu"),
      layerOn("GaussianNoise", [1], { stddev: 0.1 }),
    );
    await writeFile(at("noisy.json"), encodeArchitecture(noisy));
    const named = await good("probe", at("noisy.json"), "--runs", "1", "--file", at("noise.json"));
    assert.match(named, /the engine does not train it: Layer 2 \(GaussianNoise\) draws random numbers/);
    assert.match(named, /probed: the evaluation\n/);
    interface Row {
      readonly architecture: string;
      readonly exact: string;
      readonly because: string;
    }
    const list = async (...args: string[]): Promise<readonly Row[]> =>
      JSON.parse(await good("probe", "list", ...args, "-o", "json")) as readonly Row[];
    const [row, ...others] = await list();
    assert.deepEqual([row?.exact, others.length], ["not probed", 0]);
    assert.match(row!.because, /by its layers alone/);
    const [probed] = await list(at("a.json"), at("noise.json"));
    assert.equal(probed?.exact, "probed: same bits");
    assert.match(probed.because, /2 runs \(wasm, 1 thread/);
    const more = ["tiny", "--runs", "1"] as const;
    await good("probe", ...more, "--file", at("once.json"));
    await good("probe", ...more, "--seed", "7", "--file", at("other-seed.json"));
    assert.equal((await list(at("once.json")))[0]?.exact, "probed once");
    const apart = (await list(at("once.json"), at("other-seed.json")))[0]!;
    assert.deepEqual(
      [apart.exact, /1 of other weights or inputs/.test(apart.because)],
      ["probed once", true],
    );
    assert.equal((await list(at("once.json"), at("a.json")))[0]?.exact, "probed: same bits");
    assert.equal((await list(at("moved.json"), at("a.json")))[0]?.exact, "probed: different");
    // Its hash stands for the architecture, whose weights are drawn.
    assert.match(
      await good("probe", row!.architecture.slice(0, 12), "--runs", "1"),
      /weights drawn from the seed/,
    );
  });

  it("is offered where a replay gives other tensors", () => {
    const report = {
      verdict: "refuted",
      text: "…",
      name: "soh",
      version: 2,
      versionId: sha256("v"),
      difference: {},
    };
    assert.match(describeReplay(report as never), /stemma probe soh:2 --file FILE/);
    assert.doesNotMatch(describeReplay({ ...report, difference: undefined } as never), /probe/);
  });
});
