/** Tables as data: strict CSV, columns with roles, scales from the training rows, a split by ratio and seed. */
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { join } from "node:path";
import { describe, it } from "node:test";
import { nodeFiles } from "../../../../../shared/files/node-files.js";
import {
  canonicalSamples,
  sampleSetHash,
  sampleSetOfBytes,
} from "../../../../../shared/train/datasets/canonical-samples.js";
import { parseCsv } from "../../../../../shared/train/datasets/csv-records.js";
import type { SampleSet } from "../../../../../shared/train/datasets/dataset.js";
import { loadDataset } from "../../../../../shared/train/datasets/registry.js";
import type { DatasetReference } from "../../../../../shared/train/training.js";
import { dataFolder, noFiles, refusal, skipWithout } from "./dataset-fixtures.js";

const parse = (text: string, delimiter = ","): readonly (readonly string[])[] =>
  parseCsv({ bytes: Buffer.from(text), where: "t.csv", delimiter }).map(({ fields }) => fields);
const read = async (text: string, parameters: DatasetReference["parameters"]): Promise<SampleSet> => {
  const files = { ...noFiles, read: () => Promise.resolve(Buffer.from(text)) };
  return (await loadDataset({ reader: "csv", location: "t.csv", parameters }, files)).set;
};
const inOrder = { split: "order", validationThousandths: 0 };
const colours = "size,colour,price\n1,red,10\n2,blue,20\n3,red,30\n4,blue,40\n";

describe("CSV", () => {
  it("has quoted fields with delimiters, quotes and line ends, and either line end", () => {
    assert.deepEqual(parse('\ufeffa,"b,""c"\r\n"1\n2",\n\n'), [
      ["a", 'b,"c'],
      ["1\n2", ""],
    ]);
    assert.deepEqual(parse("a;b\tc", ";"), [["a", "b\tc"]]);
    assert.deepEqual(parse(""), []);
  });
  it("is refused with its line where it is not RFC 4180", () => {
    for (const text of ['a\n"b', 'a\nb"c', 'a\n"b"c', "a\nb\rc", "a\nb,c", "a,b\n\nc,d"])
      assert.throws(() => parse(text), refusal("DATASET_MALFORMED"), text);
    assert.throws(() => parse('"x\ny"\nb"c'), /line 3/);
    const latin1 = { bytes: Uint8Array.of(0x61, 0xe9), where: "t.csv", delimiter: "," };
    assert.throws(() => parseCsv(latin1), refusal("DATASET_MALFORMED"));
  });
});

describe("a table", () => {
  it("has inputs, words as one number each, and targets, with their roles in the description", async () => {
    const set = await read(colours, { ...inOrder, categories: "colour=red|blue", scales: "size=1:2" });
    assert.deepEqual(set.inputShape, [3]);
    assert.deepEqual([...set.train.inputs], [0, 1, 0, 0.5, 0, 1, 1, 1, 0]);
    assert.deepEqual([...set.train.targets, ...set.heldOut.targets], [10, 20, 30, 40]);
    assert.deepEqual(set.description["columns"], [
      { name: "size", role: "input", kind: "number", centre: 1, scale: 2 },
      { name: "colour", role: "input", kind: "category", words: ["red", "blue"] },
      { name: "price", role: "target", kind: "number" },
    ]);
  });
  it("is scaled by its training rows alone", async () => {
    const parameters = { ...inOrder, ignored: "colour", scaling: "standard", heldOutThousandths: 500 };
    const { train, heldOut, description } = await read(colours, parameters);
    assert.deepEqual([...train.inputs, ...heldOut.inputs], [-1, 1, 3, 5]);
    const [size] = description["columns"] as object[];
    assert.deepEqual(size, { name: "size", role: "input", kind: "number", centre: 1.5, scale: 0.5 });
  });
  it("gives classes, labels, or the input itself as targets", async () => {
    const flags = "a,b,c\n1,0,1\n2,1,1\n3,0,0\n4,1,0\n";
    const classes = await read(colours, { ...inOrder, task: "classification", targets: "colour" });
    assert.deepEqual([...classes.train.targets, classes.classes], [1, 0, 1, 2]);
    const named = { task: "classification", targets: "colour", classNames: "green,red,blue" };
    assert.deepEqual([...(await read(colours, { ...inOrder, ...named })).train.targets], [1, 2, 1]);
    const labels = await read(flags, { ...inOrder, task: "multi-label", targets: "b,c" });
    assert.deepEqual(labels.outputs, [{ name: "labels", kind: "labels", shape: [2], classes: 0 }]);
    assert.deepEqual([...labels.train.targets], [0, 1, 1, 1, 0, 0]);
    const itself = await read(flags, { ...inOrder, task: "anomaly" });
    assert.deepEqual(itself.train.targets, itself.train.inputs);
  });
  it("is split by ratio and seed: the same seed the same rows, and no row twice", async () => {
    const rows = Array.from({ length: 40 }, (_, index) => `${index},${index}`).join("\n");
    const split = async (splitSeed: number): Promise<number[]> => {
      const { train, validation, heldOut } = await read(rows, { header: "none", splitSeed });
      assert.deepEqual([train.count, validation.count, heldOut.count], [24, 6, 10]);
      return [...train.targets, ...validation.targets, ...heldOut.targets];
    };
    const first = await split(1);
    assert.deepEqual(await split(1), first);
    assert.notDeepEqual(await split(2), first);
    assert.deepEqual(
      first.toSorted((a, b) => a - b),
      Array.from({ length: 40 }, (_, index) => index),
    );
  });
  it("is refused where names, numbers or words are wrong", async () => {
    const wrong: DatasetReference["parameters"][] = [
      { ignored: "weight" },
      { ignored: "size,colour" },
      { ignored: "price" },
      { task: "clustering" },
      { scales: "size=1:0" },
      { scales: "price=1:1" },
      { categories: "colour=red" },
      { classNames: "red,blue" },
      { task: "anomaly", targets: "price" },
      { heldOutThousandths: 900, validationThousandths: 900 },
      { task: "classification", targets: "colour,price" },
    ];
    for (const parameters of wrong)
      await assert.rejects(
        read(colours, parameters),
        refusal("RECIPE_PARAMETERS_INVALID"),
        JSON.stringify(parameters),
      );
    for (const parameters of [{}, { categories: "colour=red|green" }])
      await assert.rejects(read(colours, { ...inOrder, ...parameters }), /line [23].*"colour"/s);
    await assert.rejects(read("", {}), refusal("DATASET_EMPTY"));
  });
  it("is refused with line and remedy where a row cannot be what was meant", async () => {
    const times = Array.from({ length: 8 }, (_, index) => `${1.7e12 + index * 1000},${index}`).join("\n");
    const classes = { task: "classification" };
    const cases: readonly (readonly [string, DatasetReference["parameters"], RegExp])[] = [
      ["a,a\n1,2\n", {}, /line 1: two columns have the names "a" and "a"/],
      ["a ,a,y\n1,2,3\n", {}, /line 1: two columns have the names "a " and "a"/],
      [",a,y\n0,1,2\n", {}, /line 1: column 1 has no name.*ignored=/],
      ["a;y\n1;2\n", {}, /line 1.*delimiter=semicolon/],
      ["5.1,3.5,0\n4.9,3,1\n", {}, /line 1.*header=none/],
      ['a,y\n1,2\n"2,5",3\n', {}, /line 3: "2,5" in the column "a" has a decimal comma\. Set decimal=comma/],
      ["a;y\n1.5;2\n", { delimiter: "semicolon", decimal: "comma" }, /line 2: "1\.5".*decimal point/],
      ["a;y\n1.234,5;2\n", { delimiter: "semicolon", decimal: "comma" }, /line 2: "1\.234,5".*not a number/],
      ["a,y\n1,2\n-1e39,2\n", {}, /line 3: "-1e39" in the column "a" is beyond/],
      ["a,y\n1,2\n1e999,2\n", {}, /line 3: "1e999" in the column "a" is beyond/],
      ["a,y\n1,2\n1e-40,2\n", {}, /line 3: "1e-40" in the column "a" is nearer to 0/],
      ["a,y\n1,2\n1,4e38\n", {}, /line 3: "4e38" in the column "y" is beyond/],
      [
        "a,y\n1,2\n9,2\n",
        { scales: "a=0:1e-39" },
        /line 2: "1" in the column "a" becomes 1\.00e\+39 by its scale/,
      ],
      [
        `t,y\n${times}\n`,
        {},
        /the column "t" has 8 large numbers that differ, and 1 as float32.*scaling=standard/,
      ],
      [
        "a,y\n1,ok\n2,ok \n",
        classes,
        /line 3: "ok " in the column "y" differs from "ok" only in white space/,
      ],
      ["a,y\n1,OK\n2,ok\n", classes, /line 3.*classNames/],
      ["a,y\n1,caf\u00e9\n2,cafe\u0301\n", classes, /line 3.*classNames/],
      ["a,y\n1,ok\n2,\n", classes, /line 3: "" in the column "y" names no class/],
      ['a,y\n1,ok\n2,"bad\n3,ok"\n', classes, /line 3: .*has a line break/],
    ];
    for (const [text, parameters, message] of cases)
      await assert.rejects(
        read(text, { ...inOrder, heldOutThousandths: 0, ...parameters }),
        (error: Error) => {
          refusal("DATASET_MALFORMED")(error);
          assert.match(error.message, message);
          return true;
        },
        text,
      );
  });
  it("is read where parameters say that this is meant", async () => {
    const all = { ...inOrder, heldOutThousandths: 0 };
    const inputs = async (text: string, parameters: DatasetReference["parameters"]): Promise<number[]> => [
      ...(await read(text, { ...all, ...parameters })).train.inputs,
    ];
    const comma = { delimiter: "semicolon", decimal: "comma" };
    assert.deepEqual(await inputs("a;y\n0,5;1\n-2;2\n1e-1;2\n", comma), [0.5, -2, Math.fround(0.1)]);
    assert.deepEqual(await inputs(",a,y\n0,7,1\n", { ignored: "" }), [7]);
    assert.deepEqual(await inputs("1,2\n7,8\n", { header: "first-line" }), [7]);
    assert.deepEqual(await inputs("t,T\n7,8\n", {}), [7]);
    assert.deepEqual(
      await inputs("t,y\n1700000000000,1\n1700000001000,2\n", { scaling: "standard" }),
      [-1, 1],
    );
    const named = await read("a,y\n1,ok\n2,OK\n", { ...all, task: "classification", classNames: "OK,ok" });
    assert.deepEqual([...named.train.targets], [1, 0]);
  });
  it(
    "iris is MERIT's file, and 105 of its rows are trained on (ME15)",
    { skip: skipWithout("iris") },
    async () => {
      const location = join(dataFolder, "iris", "bezdekIris.data");
      const bytes = await nodeFiles().read(location);
      assert.equal(
        createHash("sha256")
          .update(bytes.subarray(bytes.indexOf(10) + 1))
          .digest("hex"),
        "0fed2a99db77ec533a62dc66894d3ec6df3b58b6a8f3cf4a6b47e4086b7f97dc",
      );
      const parameters = { task: "classification", heldOutThousandths: 300, validationThousandths: 0 };
      const { set } = await loadDataset({ reader: "csv", location, parameters }, nodeFiles());
      assert.deepEqual([set.train.count, set.heldOut.count, set.inputShape, set.classes], [105, 45, [4], 3]);
    },
  );
});

describe("a table with weights and metadata", () => {
  const cells = 'id,size,trust,price\na 1,1,0.5,10\n"b,2",2,0,20\nc,3,2,30\nd,4,1,40\n';
  const roles = { ...inOrder, weight: "trust", metadata: "id" };
  it("keeps both with each sample, and neither is an input", async () => {
    const set = await read(cells, roles);
    assert.deepEqual([...set.train.inputs, ...set.heldOut.inputs], [1, 2, 3, 4]);
    assert.deepEqual(
      [set.train.weights, set.heldOut.weights].flatMap((each) => [...(each ?? [])]),
      [0.5, 0, 2, 1],
    );
    assert.deepEqual(set.metadata, ["id"]);
    assert.deepEqual([set.train.metadata, set.heldOut.metadata].flat(2), ["a 1", "b,2", "c", "d"]);
    assert.deepEqual(
      (set.description["columns"] as { role: string }[]).map(({ role }) => role),
      ["metadata", "input", "weight", "target"],
    );
  });
  it("is the same when it is read from its canonical bytes, and another with another weight or text", async () => {
    const set = await read(cells, roles);
    const bytes = Buffer.concat([...canonicalSamples(set)]);
    const { description: _, ...again } = sampleSetOfBytes(bytes, "t.samples");
    const { description: __, outputs: ___, ...expected } = set;
    assert.deepEqual(again, { ...expected, withoutParts: ["validation"] });
    const others = [cells.replace("0.5", "0.25"), cells.replace("a 1", "a 2"), cells.replace("id,", "no,")];
    const hashes = others.map(async (text, at) =>
      sampleSetHash(await read(text, at === 2 ? { ...roles, metadata: "no" } : roles)),
    );
    assert.equal(new Set([sampleSetHash(set), ...(await Promise.all(hashes))]).size, 4);
    const plain = await read(cells, { ...inOrder, ignored: "id,trust" });
    assert.match(Buffer.concat([...canonicalSamples(plain)]).toString("latin1"), /^stemma-dataset-1\0/);
  });
  it("is refused with canonical bytes that are damaged anywhere in what describes it", async () => {
    const bytes = Buffer.concat([...canonicalSamples(await read(cells, roles))]);
    for (let at = 0; at < bytes.length; at++)
      assert.throws(
        () => sampleSetOfBytes(bytes.subarray(0, at), "t"),
        refusal("DATASET_MALFORMED"),
        `${at}`,
      );
    const negative = Buffer.from(bytes);
    negative.writeFloatLE(-1, bytes.indexOf(Buffer.from(Float32Array.of(0.5, 0, 2).buffer)));
    assert.throws(() => sampleSetOfBytes(negative, "t"), refusal("DATASET_MALFORMED"));
    const untitled = Buffer.from(bytes.toString("latin1").replace('["a 1"]', '{"a":1}'), "latin1");
    assert.throws(() => sampleSetOfBytes(untitled, "t"), refusal("DATASET_MALFORMED"));
  });
  it("is refused with a weight that is none, with no weight at all, or with a column of two roles", async () => {
    for (const wrong of ["-0.5", "many", "1e39", "1e7", ""])
      await assert.rejects(read(cells.replace("0.5", wrong), roles), refusal("DATASET_MALFORMED"), wrong);
    const zeros = "size,trust,price\n1,0,10\n2,0,20\n3,0,30\n4,1,40\n";
    await assert.rejects(read(zeros, { ...inOrder, weight: "trust" }), refusal("DATASET_MALFORMED"));
    const long = cells.replace("a 1", "a".repeat(5000));
    await assert.rejects(read(long, roles), refusal("DATASET_MALFORMED"));
    const wrongRoles = [
      { weight: "price" },
      { metadata: "price" },
      { weight: "trust", ignored: "trust" },
      { weight: "trust", metadata: "trust" },
      { weight: "truth" },
      { weight: "trust", scales: "trust=0:2" },
      { weight: "size,trust" },
    ];
    for (const each of wrongRoles)
      await assert.rejects(
        read(cells, { ...inOrder, categories: "id=a 1|b,2|c|d", ...each }),
        refusal("RECIPE_PARAMETERS_INVALID"),
        JSON.stringify(each),
      );
  });
});
