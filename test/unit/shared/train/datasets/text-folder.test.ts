/** Texts in folders: terms, the recorded vocabulary, and what is refused. */
import assert from "node:assert/strict";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { nodeFiles } from "../../../../../shared/files/node-files.js";
import { loadDataset } from "../../../../../shared/train/datasets/registry.js";
import { termsOf, vocabularyOf, wordsOf } from "../../../../../shared/train/datasets/terms.js";
import { refusal } from "./dataset-fixtures.js";

let folder: string;
before(async () => {
  folder = await mkdtemp(join(tmpdir(), "stemma-texts-"));
  for (const [name, text] of [
    ["cold", "Motor cold start failed"],
    ["warm", "Motor ran warm, no fault"],
  ] as const) {
    await mkdir(join(folder, name));
    for (let index = 0; index < 10; index++)
      await writeFile(join(folder, name, `${index}.txt`), `${text} ${"ok ".repeat(index)}`);
  }
});
after(() => rm(folder, { recursive: true, force: true }));

const load = (parameters = {}): ReturnType<typeof loadDataset> =>
  loadDataset({ reader: "text-folder", location: folder, parameters }, nodeFiles());
const vocabularyIn = ({ set }: Awaited<ReturnType<typeof loadDataset>>): string[] =>
  (set.description["columns"] as { name: string; role: string }[]).flatMap(({ name, role }) =>
    role === "input" ? [name] : [],
  );

describe("terms", () => {
  it("are words and pairs of neighbours, by rules that do not depend on Unicode's tables", () => {
    assert.deepEqual(wordsOf("Don't STOP, Ärger: a1-b2"), ["don't", "stop", "Ärger", "a1", "b2"]);
    assert.deepEqual(
      [...termsOf("a b a b", "both")],
      [
        ["a", 2],
        ["a b", 2],
        ["b", 2],
        ["b a", 1],
      ],
    );
    assert.deepEqual([...termsOf("a b a", "bigrams").keys()], ["a b", "b a"]);
    assert.deepEqual([...termsOf("", "both")], []);
  });
  it("are chosen by the number of texts that have them", () => {
    const texts = ["c a", "c b", "c a"].map((text) => termsOf(text, "unigrams"));
    assert.deepEqual(vocabularyOf(texts, { limit: 9, minTexts: 1 }), ["c", "a", "b"]);
    assert.deepEqual(vocabularyOf(texts, { limit: 9, minTexts: 2 }), ["c", "a"]);
    assert.deepEqual(vocabularyOf(texts, { limit: 1, minTexts: 1 }), ["c"]);
  });
});

describe("the reader text-folder", () => {
  it("counts the terms of the training texts' vocabulary, which it records", async () => {
    const read = await load({ numbers: "count", maxTerms: 4 });
    const { set } = read;
    const vocabulary = vocabularyIn(read);
    assert.deepEqual([set.inputShape, set.classes, set.task], [[4], 2, "classification"]);
    assert.deepEqual(vocabulary[0], "motor");
    for (let row = 0; row < set.train.count; row++) assert.equal(set.train.inputs[4 * row], 1);
    // Another reading with the recorded vocabulary gives the same samples: how a deployed model repeats it.
    assert.equal((await load({ numbers: "count", vocabulary })).hash, read.hash);
    const pairs = await load({ terms: "bigrams", numbers: "share", vocabulary: "cold start,no fault" });
    for (let row = 0; row < pairs.set.train.count; row++) {
      const [cold, warm] = pairs.set.train.inputs.subarray(2 * row, 2 * row + 2);
      assert.equal(cold! > 0, pairs.set.train.targets[row] === 0);
      assert.equal(warm! > 0, pairs.set.train.targets[row] === 1);
    }
  });
  it("refuses what is not text, other files and parameters", async () => {
    await assert.rejects(load({ terms: "words" }), refusal("RECIPE_PARAMETERS_INVALID"));
    await assert.rejects(load({ minTexts: 100 }), refusal("DATASET_EMPTY"));
    await writeFile(join(folder, "cold", "x.txt"), Uint8Array.of(0xff, 0xfe));
    await assert.rejects(load(), refusal("DATASET_MALFORMED"));
    await rm(join(folder, "cold", "x.txt"));
    await writeFile(join(folder, "cold", "x.html"), "a");
    await assert.rejects(load(), refusal("DATASET_MALFORMED"));
    await rm(join(folder, "cold", "x.html"));
  });
});
