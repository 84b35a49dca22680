/** `stemma reproduce compare`: folders, files and versions, and files that lie. */
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import type { RunComparison } from "../../../../../shared/determinism/reproduce/criteria.js";
import { safetensorsChunks } from "../../../../../shared/tensor/safetensors.js";
import { sourceOfTensor } from "../../../../../shared/tensor/tensor.js";
import { runStemmaHere, type ProgramResult } from "../../../../helpers/run-stemma-here.js";

describe("stemma reproduce compare", () => {
  let folder: string;
  const at = (...names: readonly string[]): string => join(folder, ...names);
  const stemma = (...words: readonly string[]): Promise<ProgramResult> =>
    runStemmaHere(["reproduce", "compare", ...words], { home: at("home") });
  const compared = async (a: string, b: string): Promise<RunComparison> =>
    JSON.parse((await stemma(at(a), at(b), "-o", "json")).stdout) as RunComparison;
  const write = (name: string, text: string): Promise<void> => writeFile(at(name), text);

  async function writeModel(name: string, value: number, tensor = "w"): Promise<void> {
    const bytes = new Uint8Array(new Float32Array([1, value]).buffer);
    const source = sourceOfTensor({ dtype: "F32", shape: [2], bytes });
    const chunks: Uint8Array[] = [];
    for await (const chunk of safetensorsChunks([{ name: tensor, source }]))
      chunks.push(Uint8Array.from(chunk));
    await writeFile(at(name), Buffer.concat(chunks));
  }

  before(async () => {
    folder = await mkdtemp(join(tmpdir(), "stemma-compare-test-"));
    for (const name of ["a", "b", "empty"]) await mkdir(at(name));
    await writeModel("a/model.safetensors", 2);
    await writeModel("b/model.safetensors", 2.5);
    for (const name of ["a", "b"]) await write(`${name}/log.jsonl`, '{"epoch":1,"loss":0.5,"seconds":9}\n');
    await write("a/predictions.csv", "sample,actual,predicted\n0,cat,cat\n1,dog,dog\n");
    await write(
      "b/predictions.json",
      '[{"sample":1,"actual":"dog","predicted":"dog"},{"sample":0,"actual":"cat","predicted":"cat"}]',
    );
  });
  after(() => rm(folder, { recursive: true, force: true }));

  it("compares every criterion of two folders, in whatever form and order they are written", async () => {
    const { verdict, first, findings } = await compared("a", "b");
    assert.equal(verdict, "different");
    assert.deepEqual([first?.criterion, first?.difference], ["tensors", 0.5]);
    assert.deepEqual(
      findings.map(({ verdict: each }) => each),
      ["equal", "equal", "equal", "not recorded", "equal", "equal", "different"],
    );
    assert.equal((await stemma(at("a"), at("b"))).status, 4);
  });

  it("ends with a status of its own where a side lacks something, and where nothing is there", async () => {
    assert.equal((await stemma(at("a"), at("a"))).status, 0);
    assert.equal((await stemma(at("a"), at("a/log.jsonl"))).status, 5);
    assert.equal((await stemma(at("empty"), at("empty"))).status, 3);
    assert.match((await stemma(at("a"), "nothing-of-this-name")).stderr, /MODEL_NOT_FOUND/);
  });

  it("refuses files that lie, and shows no markup of theirs", async () => {
    const predictions = async (text: string): Promise<string> => {
      await write("predictions-x.csv", text);
      return (await stemma(at("predictions-x.csv"), at("a/predictions.csv"))).stderr;
    };
    assert.match(await predictions("sample,predicted\n0,1\n0,1\n"), /twice.*TRAINER_OUTPUT_INVALID/s);
    assert.match(await predictions("sample,predicted\n0\n"), /line 2 has 1 column,/);
    assert.match(await predictions("sample\n"), /has no sample/);
    assert.match(await predictions('[{"sample":0}]'), /neither a column/);
    assert.match(await predictions("[1"), /not JSON/);
    await writeModel("named.safetensors", 1, "\u001b[31mred\nequal by all 7 criteria");
    const { stdout } = await stemma(at("named.safetensors"), at("a/model.safetensors"));
    assert.doesNotMatch(stdout, /\u001b|^equal by all/m);
    execFileSync("mkfifo", [at("empty/log.jsonl")]);
    assert.match((await stemma(at("empty"), at("a"))).stderr, /FILE_NOT_REGULAR/);
    await write("short.safetensors", "\u00ff".repeat(20));
    assert.match((await stemma(at("short.safetensors"), at("a/model.safetensors"))).stderr, /SAFETENSORS_/);
  });
});
