/** The verbs of a model repository together; repository.slow.test.ts has what a crash or a stranger does to one. */
import assert from "node:assert/strict";
import { mkdtemp, readFile, realpath, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { it } from "node:test";
import { tinyImport } from "../../../helpers/agent-fixtures.js";
import { runStemmaWith } from "../../../helpers/run-stemma-here.js";

const stemma = async (...args: readonly string[]): Promise<string> => {
  const { status, stdout, stderr } = await runStemmaWith(args, {
    STEMMA_HOME: undefined,
    STEMMA_FLEET: undefined,
  });
  assert.equal(status, 0, `${args.join(" ")}\n${stdout}${stderr}`);
  return stdout;
};

it("a model is committed with its log, copied, changed and committed again, and comes back byte for byte", async (t) => {
  const cwd = process.cwd();
  const root = await realpath(await mkdtemp(join(tmpdir(), "stemma-repository-")));
  t.after(async () => {
    process.chdir(cwd);
    await rm(root, { recursive: true, force: true });
  });
  process.chdir(root);
  const { bytes, architecture } = await tinyImport("1");
  await writeFile("model.safetensors", bytes);
  await writeFile("model.json", architecture);
  await writeFile("log.csv", "epoch,loss\n0,2\n1,1\n");
  await stemma("init");
  await stemma("add", "model.safetensors", "model.json", "log.csv");
  await stemma("commit", "-m", "first", "--name", "tiny");
  await stemma("copy", "tiny", "wide");
  assert.deepEqual(await readFile("wide.safetensors"), Buffer.from(bytes));
  await writeFile("wide.safetensors", (await tinyImport("2")).bytes);
  await stemma("commit", "-a", "-m", "second");
  assert.equal(await stemma("list", "-o", "name"), "tiny:1\nwide:1\n");
  assert.match(await stemma("desc", "tiny"), /CLASS[^]*Dense[^]*loss +1 at 1 \(least 1 at 1, most 2 at 0\)/);
  const absent = await runStemmaWith(["desc", "absent"], { STEMMA_HOME: undefined, STEMMA_FLEET: undefined });
  assert.match(absent.stderr, /no model "absent"\. `stemma list` lists.*\[MODEL_NOT_FOUND\]/);
  const query = 'select old, new where old parent of new and old["*"] has DENSE() and old["loss"] = 1';
  assert.equal(await stemma("query", query, "-o", "name"), "tiny:1\twide:1\n");
  await writeFile("query.dql", query);
  assert.match(
    await stemma("query", "--file", "query.dql", "--explain"),
    /^old +2 +- +1 +1 +old\["loss"\] = 1$[^]*looked up by old parent of new$/m,
  );
  for (const args of [["select m", "--file", "query.dql"], [], ["select"]])
    assert.equal((await runStemmaWith(["query", ...args], {})).status, 2);
  const pages = [["list"], ["desc", "tiny"], ["diff"], ["model", "log", "wide", "--home", ".stemma"]];
  for (const [at, args] of pages.entries()) {
    const page = [...args, "--html", `${at}.html`];
    assert.match(await stemma(...page), /^wrote .*\.html \(/);
    const text = await readFile(`${at}.html`, "utf8");
    for (const part of at === 1 ? ["tiny:1", "first", "Dense"] : ["tiny:1", "wide:1", "second"])
      assert.ok(text.includes(part), `${args.join(" ")}: ${part}`);
    assert.match((await runStemmaWith(page, {})).stderr, /FILE_EXISTS/);
    await stemma(...page, "--force");
  }
  for (const args of [
    ["--show", "log.csv"],
    ["--html", "page.txt"],
  ])
    assert.equal((await runStemmaWith(["desc", "tiny", "--html", "new.html", ...args], {})).status, 2);
  assert.match(await stemma("diff"), /wide:1 against tiny:1: \d tensors differ, same network/);
});
