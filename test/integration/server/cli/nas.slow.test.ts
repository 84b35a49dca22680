/** `stemma nas run`: a refused one leaves nothing, and a killed one goes on to the number that it was asked for. */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { runStemmaHere } from "../../../helpers/run-stemma-here.js";

const program = fileURLToPath(new URL("../../../helpers/bundled-program.mjs", import.meta.url));

describe("stemma nas run", () => {
  let folder: string;
  let home: string;
  const run = (...words: readonly string[]): ReturnType<typeof runStemmaHere> =>
    runStemmaHere(["nas", "run", ...words, "-o", "json"], { home });
  const facts = async (): Promise<number> => {
    const { stdout } = await runStemmaHere(["journal", "list", "-o", "json"], { home });
    return (JSON.parse(stdout) as { readonly length: number }).length;
  };
  const candidatesOf = (text: string): unknown =>
    (JSON.parse(text) as { readonly candidates: unknown }).candidates;
  before(async () => {
    folder = await mkdtemp(join(tmpdir(), "stemma-nas-cli-"));
    home = join(folder, "home");
    await writeFile(join(folder, "table.csv"), "a,b\n1,2\n2,3\n3,4\n4,5\n5,6\n6,7\n7,8\n8,9\n9,1\n1,3\n");
    for (const words of [
      ["digits", "-", "--kind", "images-generated", "--set", "count=60"],
      ["table", join(folder, "table.csv"), "--kind", "csv", "--set", "targets=b"],
    ]) {
      const { status, stderr } = await runStemmaHere(["data", "add", ...words], { home });
      assert.equal(status, 0, stderr);
    }
  });
  after(() => rm(folder, { recursive: true, force: true }));

  const refused: readonly (readonly [code: string, ...words: readonly string[]])[] = [
    ["DATASET_UNKNOWN", "--data", "none"],
    ["USAGE", "--data", "digits", "--judge-share", "0.5"],
    ["USAGE", "--data", "digits", "--judge-after", "5", "--on", "label.x=1"],
    ["USAGE", "--data", "digits", "--workers", "0"],
    ["SEARCH_WORKER_LOST", "--data", "digits", "--on", "label.x=1"],
    ["RECIPE_PARAMETERS_INVALID", "--data", "digits", "--seed", "hello"],
    ["RECIPE_PARAMETERS_INVALID", "--data", "digits", "--learning-rate", "-1"],
    ["RECIPE_PARAMETERS_INVALID", "--data", "table"],
  ];
  for (const [code, ...words] of refused)
    it(`leaves nothing when it is refused: ${words.join(" ")}`, async () => {
      const length = await facts();
      const kept = join(folder, "kept");
      await mkdir(kept, { recursive: true });
      await writeFile(join(kept, "notes.txt"), "of somebody");
      for (const search of [join(folder, "new", "search"), kept]) {
        const { status, stderr } = await run(search, ...words, "--candidates", "1");
        assert.notEqual(status, 0);
        assert.match(stderr, new RegExp(code));
      }
      assert.equal(existsSync(join(folder, "new")), false);
      assert.deepEqual(await readdir(kept), ["notes.txt"]);
      assert.equal(await facts(), length);
    });

  it("shows candidates that were ended with their losses, and no models of them", async () => {
    const search = join(folder, "judged");
    const judging = ["--judge-after", "1", "--judge-share", "0.01", "--population", "1", "--seed", "4"];
    const { stdout, stderr } = await run(search, "--data", "digits", "--candidates", "4", ...judging);
    const { candidates, ended } = JSON.parse(stdout) as {
      readonly candidates: readonly { readonly candidate: number }[];
      readonly ended: readonly { readonly candidate: number; readonly loss: number }[];
    };
    assert.equal(candidates.length + ended.length, 4);
    assert.ok(ended.length > 0 && ended.every(({ loss }) => loss > 0), stderr);
    const shown = await runStemmaHere(["nas", "show", search, "-o", "json"], { home });
    assert.deepEqual((JSON.parse(shown.stdout) as readonly object[]).slice(candidates.length), ended);
    const names = await runStemmaHere(["nas", "show", search, "-o", "name"], { home });
    assert.equal(names.stdout.trim().split("\n").length, candidates.length);
  });

  it("goes on to the number that it was asked for, after a kill", async () => {
    const search = join(folder, "killed");
    const child = spawn(
      process.execPath,
      [program, "stemma", "nas", "run", search, "--data", "digits", "--candidates", "3", "--home", home],
      { env: { ...process.env, STEMMA_FLEET: "local" }, stdio: ["ignore", "ignore", "pipe"] },
    );
    let text = "";
    let beside: Awaited<ReturnType<typeof run>> | undefined;
    for await (const chunk of child.stderr) {
      text += String(chunk);
      if (beside !== undefined || !text.includes("candidate 1 of 3")) continue;
      beside = await run(search);
      child.kill("SIGKILL");
    }
    assert.match(beside?.stderr ?? "", /SEARCH_RUNS/);
    if (child.exitCode === null && child.signalCode === null) await once(child, "exit");
    assert.equal(child.signalCode, "SIGKILL", text);
    // The worker of an earlier run with more of them, which ended without a word.
    await mkdir(join(search, "worker-7"));
    const again = await run(search);
    assert.equal(again.status, 0, again.stderr);
    assert.deepEqual((await readdir(search)).sort(), ["log.jsonl", "search.json"]);
    assert.match(again.stderr, /; [12] of 3 candidates made already/);
    assert.equal((candidatesOf(again.stdout) as readonly unknown[]).length, 3);

    // A finished one is made longer, and remembers that.
    const longer = await run(search, "--candidates", "4");
    assert.equal((candidatesOf(longer.stdout) as readonly unknown[]).length, 4);
    assert.match((await run(search, "--candidates", "9", "--epochs", "2")).stderr, /SEARCH_OTHER/);
    assert.equal(candidatesOf(await readFile(join(search, "search.json"), "utf8")), 4);
  });
});
