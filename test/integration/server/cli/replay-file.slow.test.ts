/** A model's file is replayed in a home that is not there, with its data where the command names them. */
import assert from "node:assert/strict";
import { access, copyFile, mkdir, mkdtemp, readdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { openNodeHome } from "../../../../server/storage/repository/node-home.js";
import { runStemmaWith, type ProgramResult } from "../../../helpers/run-stemma-here.js";
import { tableText } from "../../../helpers/table-text.js";

let folder: string;
const at = (name: string): string => join(folder, name);
const run = (home: string, ...words: readonly string[]): Promise<ProgramResult> =>
  runStemmaWith([...words, "--home", at(home)], { STEMMA_FLEET: "local", TMPDIR: at("temporary") });
const isThere = (path: string): Promise<boolean> =>
  access(path).then(
    () => true,
    () => false,
  );

async function replayed(home: string, ...words: readonly string[]): Promise<Record<string, unknown>> {
  const { stdout } = await run(home, "replay", "run", ...words, "-o", "json");
  return (JSON.parse(stdout) as [Record<string, unknown>])[0];
}

describe("a replay of a file", () => {
  before(async () => {
    folder = await mkdtemp(join(tmpdir(), "stemma-replay-file-"));
    await mkdir(at("temporary"));
    await writeFile(at("wear.csv"), tableText());
    await writeFile(at("half.csv"), tableText({ rows: 60 }));
    const set = ["--set", "scaling=standard", "--set", "splitSeed=5"];
    const steps = [
      ["data", "add", "wear", at("wear.csv"), "--kind", "csv", ...set],
      ["model", "train", "--recipe", "linear-regression", "--data", "wear", "--name", "wear", "--seed", "3"],
      ["model", "story", "wear", "--file", at("wear.story.json")],
      ["model", "recover", "wear", "--file", at("wear.safetensors")],
      ["data", "push", "wear"],
      ["data", "fetch", "wear", "--file", at("wear.samples")],
    ];
    for (const words of steps) {
      const { status, stderr } = await run("trained", ...words);
      assert.equal(status, 0, stderr);
    }
    // The ends of their names say nothing.
    await copyFile(at("wear.story.json"), at("story"));
    await copyFile(at("wear.safetensors"), at("wear.json"));
  });
  after(() => rm(folder, { recursive: true, force: true }));

  for (const file of ["wear.story.json", "wear.safetensors", "story", "wear.json"])
    it(`proves ${file} in an empty home, twice, and leaves nothing`, async () => {
      for (let time = 0; time < 2; time++) {
        const { verdict, dataFrom } = await replayed("none", at(file), "--data", at("wear.csv"));
        assert.deepEqual([verdict, dataFrom], ["proved", "named"]);
      }
      assert.equal(await isThere(at("none")), false);
      assert.deepEqual(await readdir(at("temporary")), []);
    });

  it("takes stored samples, whose names and words it cannot prove", async () => {
    const { verdict, proof } = await replayed("none", at("story"), "--data", at("wear.samples"));
    assert.equal(verdict, "proved");
    assert.ok((proof as { notRebuildable: string[] }).notRebuildable.length > 0);
  });

  it("says what is missing, and in what other data differ", async () => {
    const without = await replayed("none", at("story"));
    assert.deepEqual([without["verdict"], without["reason"]], ["unreplayable", "data-missing"]);
    assert.match(without["text"] as string, /--data LOCATION/);
    const other = await replayed("none", at("story"), "--data", at("half.csv"));
    assert.equal(other["reason"], "data-missing");
    assert.match(other["text"] as string, /samples\.train 36 \(recorded: 120\)/);
  });

  it("works in a home without fleets, and refuses a fleet that a home with others does not have", async () => {
    await (await openNodeHome(at("begun"))).close();
    assert.equal((await replayed("begun", at("story"), "--data", at("wear.csv")))["verdict"], "proved");
    assert.equal(await isThere(join(at("begun"), "fleets")), false);
    const { status, stderr } = await run("trained", "replay", "run", at("story"), "--fleet", "misspelt");
    assert.equal(status, 3, stderr);
    assert.match(stderr, /NOT_FOUND/);
  });

  it("takes --set, which makes a new version with the parameters of the file else", async () => {
    const changed = ["--data", at("wear.csv"), "--set", "epochs=2", "--name", "short"];
    const { status, stdout, stderr } = await run("new", "replay", "run", at("story"), ...changed);
    assert.equal(status, 0, stderr);
    assert.match(stdout, /saved as short:1 .*but with epochs: 5 → 2\./);
    const { stdout: shown } = await run("new", "model", "show", "short", "-o", "json");
    assert.match(shown, /"replay\.changed": "epochs: 5 → 2"/);
    assert.equal((await replayed("new", "short", "--max-minutes", "5"))["reason"], "data-missing");
    const none = await run("never", "replay", "run", at("story"), "--set", "epochz=2", "--name", "short");
    assert.match(none.stderr, /RECIPE_PARAMETERS_INVALID/);
  });

  it("refuses what is not such a file, and data of a model that is known", async () => {
    for (const [words, code] of [
      [[at("wear.csv")], "SAFETENSORS_MALFORMED"],
      [["./nothing.json"], "FILE_MISSING"],
      [[at("story"), "--detach"], "USAGE"],
      [["wear", "--data", at("wear.csv")], "USAGE"],
      [[at("story"), "--data", at("nothing.csv")], "FILE_MISSING"],
    ] as const) {
      const { status, stderr } = await run("none", "replay", "run", ...words);
      assert.notEqual(status, 0);
      assert.match(stderr, new RegExp(`\\[${code}\\]\n$`));
    }
  });
});
