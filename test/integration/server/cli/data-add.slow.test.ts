/** `stemma data add` without a reader's name: seen by looking, or as the record of a model says. */
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { mkdir, mkdtemp, rm, utimes, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { gzipSync } from "node:zlib";
import { isStemmaError } from "../../../../shared/errors.js";
import { kindOfData } from "../../../../server/services/data/look-at-data.js";
import { fileChange } from "../../../../server/services/data/raw-files.js";
import { learnedParameters } from "../../../../server/services/data/like-data.js";
import { runStemmaHere, type ProgramResult } from "../../../helpers/run-stemma-here.js";
import { tableText } from "../../../helpers/table-text.js";
import { pngOf } from "../../../helpers/pictures.js";

let folder: string;
const at = (...names: readonly string[]): string => join(folder, ...names);
const run = (home: string, ...words: readonly string[]): Promise<ProgramResult> =>
  runStemmaHere(words, { home: at(home) });

interface Added {
  readonly kind: string;
  readonly parameters: Record<string, unknown>;
  readonly like: {
    readonly isSame: boolean;
    readonly differences: readonly { readonly setting: string; readonly found: string }[];
  };
}

async function added(home: string, ...words: readonly string[]): Promise<Added> {
  const { stdout, stderr } = await run(home, "data", "add", ...words, "-o", "json");
  assert.equal(stderr, "");
  return JSON.parse(stdout) as Added;
}

before(async () => {
  folder = await mkdtemp(join(tmpdir(), "stemma-data-add-"));
});
after(() => rm(folder, { recursive: true, force: true }));

describe("how data are read", () => {
  const png = Buffer.from("\x89PNG\r\n\x1a\n", "latin1");
  const idxBytes = Buffer.from([0, 0, 8, 1, 0, 0, 0, 1, 7]);
  const cases: readonly (readonly [
    name: string,
    files: Record<string, string | Buffer>,
    expected: string,
  ])[] = [
    ["table.data", { "": tableText() }, "csv"],
    ["rows", { "": "1 1:2 3:4\n-1 2:5 # one\n" }, "libsvm"],
    ["lines.txt", { "": '{"values":[1],"label":1}\n' }, "samples"],
    ["stored", { "": "stemma-dataset-1\0rest" }, "canonical"],
    ["digits", { images: gzipSync(idxBytes), labels: idxBytes }, "idx"],
    ["signs", { "a/1": png, "b/1": png }, "image-folder"],
    ["reports", { "a/1": "words", "b/1": "words" }, "text-folder"],
    ["sent", { "1.jsonl": "{}" }, "samples"],
    ["cells", { "B0005.csv": tableText() }, "nasa-battery"],
    [
      "semicolon",
      { "": tableText({ separator: ";" }).replaceAll(".", ",") },
      "delimiter=semicolon --set decimal=comma",
    ],
    ["tab", { "": tableText({ separator: "\t" }) }, "--kind csv --set delimiter=tab."],
    ["mixed", { "a/1": png, "b/1": "words" }, "image-folder or text-folder"],
    ["text", { "": "hello\n" }, "csv or libsvm or samples"],
    ["binary", { "": Buffer.from([1, 0, 2, 0]) }, "no reader"],
    ["not-text", { "": Buffer.from([0xff, 0xfe, 0x41]) }, "no reader"],
    ["sqlite", { "": "SQLite format 3\0" }, "--kind sql --query"],
    ["one-picture", { "": png }, "image-folder"],
    ["empty", { "": "" }, "csv or libsvm or samples"],
    ["tables", { "a.csv": tableText() }, "Name one file, such as"],
  ];
  for (const [name, files, expected] of cases)
    it(`is seen of ${name}, or said to be unclear: ${expected}`, async () => {
      for (const [file, content] of Object.entries(files)) {
        await mkdir(join(at(name, file), ".."), { recursive: true });
        await writeFile(file === "" ? at(name) : at(name, file), content);
      }
      const seen = await kindOfData(at(name)).catch((error: unknown) => {
        if (isStemmaError(error, "DATASET_KIND_UNCLEAR")) return error.message;
        throw error;
      });
      if (/^[a-z-]+$/.test(expected)) {
        if (expected === "image-folder" && name === "one-picture") assert.match(seen, /Name a folder/);
        else assert.equal(seen, expected);
      } else assert.ok(seen.includes(expected), seen);
    });
});

describe("data like those of a model", () => {
  before(async () => {
    await writeFile(at("wear.csv"), tableText());
    await writeFile(at("half.csv"), tableText({ rows: 60 }));
    const words = ["--set", "scaling=standard", "--set", "splitSeed=5", "--set", "targets=wear"];
    const training = ["--recipe", "linear-regression", "--data", "wear", "--name", "wear", "--seed", "3"];
    for (const step of [
      ["data", "add", "wear", at("wear.csv"), ...words],
      ["model", "train", ...training, "--set", "epochs=1"],
      ["model", "story", "wear", "--file", at("story")],
    ])
      assert.equal((await run("home", ...step)).status, 0);
  });

  it("are read as its record says, here and from a file elsewhere", async () => {
    for (const [home, like] of [
      ["home", "wear"],
      ["elsewhere", at("story")],
    ] as const) {
      const { kind, parameters, like: found } = await added(home, "copy", at("wear.csv"), "--like", like);
      assert.deepEqual([kind, found.isSame, found.differences], ["csv", true, []]);
      assert.deepEqual(parameters, { scaling: "standard", splitSeed: 5, targets: "wear" });
    }
  });

  it("keep what the model learned where they are others, and what differs is named", async () => {
    const other = await added("home", "half", at("half.csv"), "--like", "wear", "--set", "splitSeed=7");
    assert.equal(other.like.isSame, false);
    const settings = other.like.differences.map(({ setting }) => setting);
    assert.ok(
      settings.includes("parameters.splitSeed") && settings.includes("samples.train"),
      settings.join(),
    );
    assert.ok(!settings.some((setting) => setting.startsWith("columns")), settings.join());
    assert.equal((other.parameters["scales"] as string[]).length, 2);
    const trained = ["model", "train", "--recipe", "linear-regression", "--base", "wear", "--data", "half"];
    assert.equal((await run("home", ...trained, "--name", "tuned", "--set", "epochs=1")).status, 0);
  });

  it("are only looked at by a dry run, and refused where the record says nothing or another reader", async () => {
    const dry = await run("home", "data", "add", "dry", at("half.csv"), "--like", "wear", "--dry-run");
    assert.match(dry.stdout, /^would register dry: csv/);
    assert.match((await run("home", "data", "show", "dry")).stderr, /DATASET_UNKNOWN/);
    for (const [words, code] of [
      [["--like", "nothing"], "MODEL_NOT_FOUND"],
      [["--like", "wear", "--kind", "libsvm"], "USAGE"],
      [["--like", at("wear.csv")], "SAFETENSORS_MALFORMED"],
    ] as const)
      assert.match(
        (await run("home", "data", "add", "x", at("wear.csv"), ...words)).stderr,
        new RegExp(`\\[${code}\\]\n$`),
      );
  });

  it("keep words, labels and vocabulary, but not where samples were found", () => {
    const target = { name: "class", role: "target", words: ["a", "b"] };
    const inputs = [{ name: "cold", role: "input" }];
    const columns = [...inputs, target];
    for (const [reader, parameters, expected] of [
      ["text-folder", {}, { vocabulary: ["cold"], classNames: ["a", "b"] }],
      ["libsvm", { task: "multi-label" }, { labels: ["a", "b"], task: "multi-label" }],
      ["image-folder", { height: 8 }, { classNames: ["a", "b"], height: 8 }],
      ["samples", { segments: "s:1", task: "regression" }, { task: "regression" }],
    ] as const)
      assert.deepEqual(learnedParameters({ reader, columns }, parameters), expected);
  });
});

describe("the files of registered data", () => {
  it("are said not to be read to their end where a picture has more behind it", async () => {
    for (let i = 0; i < 20; i++) {
      const name = `${i % 2 === 0 ? "a" : "b"}/${i}.png`;
      await mkdir(join(at("pictures", name), ".."), { recursive: true });
      await writeFile(
        at("pictures", name),
        Buffer.concat([
          pngOf({ width: 1, height: 1, rows: [[0, i, i, i]] }),
          Buffer.from(i === 2 ? "film" : ""),
        ]),
      );
    }
    for (const more of [[], ["--dry-run"]]) {
      const { stdout, stderr } = await run("signs-home", "data", "add", "pictures", at("pictures"), ...more);
      assert.match(stdout, /\n {2}bytes behind the end of 1 pictures are not read\n$/, stderr);
    }
  });

  it("are recorded, and what changed of them is said by check, show, and by what is refused", async () => {
    const path = at("kept.csv");
    await writeFile(path, tableText());
    await utimes(path, 1_700_000_000, 1_700_000_000);
    await added("files", "kept", path);
    const show = async (): Promise<Record<string, { count: number; bytes: number; sha256: string }>> => {
      const { stdout } = await run("files", "data", "show", "kept", "-o", "json");
      return JSON.parse(stdout) as never;
    };
    const sha256 = createHash("sha256").update(tableText()).digest("hex");
    const files = { count: 1, bytes: tableText().length, sha256, modifiedAtMs: 1_700_000_000_000 };
    assert.deepEqual((await show())["files"], files);
    const check = (): Promise<ProgramResult> => run("files", "data", "check", "kept");
    const training = ["model", "train", "--recipe", "linear-regression", "--data", "kept", "--name", "m"];
    assert.equal((await run("files", ...training)).status, 0);
    assert.match((await check()).stdout, /^unchanged: 200 samples of kept, hash [0-9a-f]{16}\.\n$/);

    await utimes(path, 1_700_000_001, 1_700_000_001);
    assert.match((await check()).stdout, /^unchanged: .* another time of change, and the same bytes\.\n$/);
    await writeFile(path, tableText().replaceAll("\n", "\r\n"));
    assert.match((await check()).stdout, /^unchanged: .* other bytes, which give the same samples: /);
    await writeFile(path, tableText().replace("37,", "36,"));
    const changed = await check();
    assert.deepEqual([changed.status, changed.stdout.startsWith("CHANGED: ")], [4, true]);
    const why = new RegExp(`The files have other bytes: .* registered were .*${sha256.slice(0, 16)}`);
    assert.match(changed.stdout, why);
    for (const words of [training, ["data", "push", "kept"], ["model", "eval", "m", "--data", "kept"]]) {
      const refused = await run("files", ...words);
      assert.match(refused.stderr, /\[DATASET_MALFORMED\]\n$/);
      assert.match(refused.stderr, why);
    }
  });

  it("are those of a folder together, and none where a reader makes the samples", async () => {
    await mkdir(at("lines"));
    for (const [value, part] of ["train", "validation", "held-out"].entries())
      await writeFile(
        at("lines", `${part}.jsonl`),
        `{"values":[1,${value}],"label":[1],"split":"${part}"}\n`,
      );
    const { files } = (await added("files", "lines", at("lines"))) as unknown as {
      files: { count: number; sha256: string };
    };
    assert.equal(files.count, 3);
    const made = await added("files", "made", "-", "--kind", "battery-simulated");
    assert.ok(!("files" in made));
  });

  it("differ by this build's engine alone where bytes and settings are as registered", () => {
    const files = { count: 1, bytes: 3, sha256: "a".repeat(64) };
    assert.match(fileChange(files, files, false), /engine reads them otherwise/);
    assert.equal(fileChange(files, files, true), "");
    assert.equal(fileChange(undefined, files, false), "");
  });
});
