/** Relatives on the command line: nearest, transfer, parts of a model, and the drawings of `model log`. */
import assert from "node:assert/strict";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { fileOfBytes, readSafetensors } from "../../../../shared/tensor/safetensors.js";
import { tensorOfSource } from "../../../../shared/tensor/tensor.js";
import { tinyImport } from "../../../helpers/agent-fixtures.js";
import { runStemmaHere, type ProgramResult } from "../../../helpers/run-stemma-here.js";

interface TensorBytes {
  readonly name: string;
  readonly bytes: readonly number[];
}

async function tensorsIn(path: string): Promise<readonly TensorBytes[]> {
  const file = await readSafetensors(fileOfBytes(await readFile(path)), path);
  return await Promise.all(
    file.tensors.map(async (entry) => ({
      name: entry.name,
      bytes: [...(await tensorOfSource(file.source(entry))).bytes],
    })),
  );
}

describe("relatives on the command line", () => {
  let folder: string;
  const at = (name: string): string => join(folder, name);
  const run = async (...args: string[]): Promise<ProgramResult> => runStemmaHere(args, { home: at("home") });
  const good = async (...args: string[]): Promise<string> => {
    const ended = await run(...args);
    assert.equal(ended.status, 0, ended.stderr);
    return ended.stdout;
  };
  const json = async (...args: string[]): Promise<unknown> => JSON.parse(await good(...args, "-o", "json"));
  const refused = async (code: string, ...args: string[]): Promise<void> => {
    const { stderr, status } = await run(...args);
    assert.notEqual(status, 0);
    assert.ok(stderr.includes(code), stderr);
  };

  before(async () => {
    folder = await mkdtemp(join(tmpdir(), "stemma-lineage-"));
    for (const seed of ["1", "2"]) {
      const { bytes, architecture } = await tinyImport(seed);
      await writeFile(at(`${seed}.safetensors`), bytes);
      await writeFile(at("model.json"), architecture);
      await good(
        ...["model", "import", at(`${seed}.safetensors`), "--name", "tiny", "--arch", at("model.json")],
        ...(seed === "1" ? ["--meta", "quality=0.5"] : ["--base", "tiny:1"]),
      );
    }
  });
  after(() => rm(folder, { recursive: true, force: true }));

  it("names what an import without a base may come from, as a note that another import takes", async () => {
    const imported = ["model", "import", at("2.safetensors"), "--name", "tiny", "--arch", at("model.json")];
    const first = await run(...imported, "--fleet", "hints");
    assert.deepEqual([first.status, first.stderr.includes("--base")], [0, false]);
    const { stderr } = await run(...imported, "--fleet", "hints");
    const [, base = "", version = ""] =
      /with --base (\S+), and .*: stemma model rm (\S+)$/m.exec(stderr) ?? [];
    await good("model", "rm", version, "--fleet", "hints");
    const again = await run(...imported, "--fleet", "hints", "--base", base);
    assert.deepEqual([again.status, again.stderr.includes("--base")], [0, false], again.stderr);
    const { likelyBases } = (await json(...imported, "--fleet", "hints", "--dry-run")) as {
      readonly likelyBases: readonly { readonly version: number }[];
    };
    assert.deepEqual(
      likelyBases.map((each) => each.version),
      [3, 1],
    );
  });

  it("asks for the nearest, which is the better of two with equally many layers", async () => {
    const answer = (await json("model", "nearest", "--arch", at("model.json"))) as {
      readonly layers: number;
      readonly nearest: { readonly name: string; readonly version: number };
    };
    assert.deepEqual([answer.layers, answer.nearest.name, answer.nearest.version], [3, "tiny", 1]);
  });

  it("starts a child of the nearest: under its lease only what changed is stored, and the lease ends", async () => {
    const start = at("start.safetensors");
    const { lease, frozen } = (await json(
      ...["model", "transfer", "--arch", at("model.json"), "--file", start],
    )) as { readonly lease: { readonly id: string }; readonly frozen: readonly string[] };
    assert.deepEqual(frozen, ["input_layer_0", "dense_1", "dense_2"]);
    const sorted = (tensors: readonly TensorBytes[]): readonly TensorBytes[] =>
      tensors.toSorted((a, b) => (a.name < b.name ? -1 : 1));
    assert.deepEqual(
      sorted(await tensorsIn(start)),
      sorted(await tensorsIn(at("1.safetensors"))),
      "the tensors of the nearest",
    );
    const child = (await json(
      ...["model", "import", start, "--name", "child", "--arch", at("model.json"), "--lease", lease.id],
    )) as {
      readonly newTensorBytes: number;
      readonly summary: { readonly record: { readonly bases: unknown[] } };
    };
    assert.deepEqual([child.newTensorBytes, child.summary.record.bases.length], [0, 1]);
    await refused("LEASE_UNKNOWN", "model", "import", start, "--name", "late", "--lease", lease.id);
    // Ending it once more changes nothing.
    await good("storage", "leases", "--end", lease.id);
  });

  it("reads some layers of a model, and writes them back onto it", async () => {
    const part = at("part.safetensors");
    await good("model", "recover", "tiny:2", "--layers", "dense_1*", "--file", part);
    const before = await tensorsIn(part);
    assert.deepEqual(before.map(({ name }) => name).sort(), ["dense_1/bias", "dense_1/kernel"]);
    const bytes = await readFile(part);
    const last = bytes.length - 1;
    bytes[last] = (bytes[last] ?? 0) ^ 1;
    await writeFile(part, bytes);
    await good("model", "import", part, "--name", "tiny", "--onto", "tiny:2");
    const whole = at("whole.safetensors");
    await good("model", "recover", "tiny:3", "--file", whole);
    const changed = await tensorsIn(part);
    const old = new Map((await tensorsIn(at("2.safetensors"))).map((one) => [one.name, one.bytes]));
    for (const { name, bytes: now } of await tensorsIn(whole)) {
      const expected = changed.find((one) => one.name === name)?.bytes ?? old.get(name);
      assert.deepEqual(now, expected, name);
    }
    assert.notDeepEqual(changed, before);
    await refused("MODEL_NOT_FOUND", "model", "import", part, "--name", "tiny", "--onto", "nobody");
    await refused(
      "MODEL_NOT_FOUND",
      "model",
      "recover",
      "nobody",
      "--layers",
      "dense_1*",
      "--file",
      at("no"),
    );
    await refused("LAYER_NOT_FOUND", "model", "recover", "tiny:2", "--layers", "conv*", "--file", at("none"));
  });

  it("draws a family in the terminal, for Graphviz and as a picture", async () => {
    const lines = (await good("model", "log", "tiny:2", "--graph")).trimEnd().split("\n");
    assert.deepEqual(
      lines.map((line) => line.slice(0, 8)),
      ["* tiny:2", "* tiny:1"],
    );
    for (const line of lines) assert.ok(line.length <= 80, line);
    const dot = await good("model", "log", "tiny:2", "--dot");
    assert.match(dot, /^digraph lineage \{\n/);
    assert.equal([...dot.matchAll(/ -> /g)].length, 1);
    const svg = await good("model", "log", "tiny:2", "--svg");
    assert.match(svg, /^<svg [^]*tiny:1[^]*<\/svg>\n$/);
    await refused("USAGE", "model", "log", "tiny:2", "--svg", "--dot");
  });
});
