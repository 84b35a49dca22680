/** A study on programs of a shell: what each setup fixes, one that was killed and goes on, one that shows nothing. */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdtemp, readdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import type { StudyPair, StudySummary } from "../../../../../shared/determinism/reproduce/study.js";
import { runStemmaHere, type ProgramResult } from "../../../../helpers/run-stemma-here.js";

const hasCompiler = ["cc", "gcc", "clang"].some((name) => spawnSync(name, ["--version"]).status === 0);
const withoutCompiler =
  hasCompiler && process.platform === "linux"
    ? false
    : "no C compiler for Linux here, so nothing is recorded";
/** Its loss is its seed, where it has one; else it is drawn. With PATCHED, it is 1. */
const program =
  'echo run >> "$RUNS"; loss=${STEMMA_SEED:-$(od -An -N4 -tu4 /dev/urandom | tr -d " ")}; ' +
  `printf '{"epoch":1,"loss":%s}\\n' "\${PATCHED:-$loss}" > "$STEMMA_RUN/log.jsonl"`;
type Report = StudySummary & { readonly pairs: readonly StudyPair[] };

describe("stemma reproduce study", () => {
  let folder: string;
  const variables = ["XDG_CACHE_HOME", "TMPDIR", "RUNS"] as const;
  const before_ = Object.fromEntries(variables.map((name) => [name, process.env[name]]));
  const at = (...names: readonly string[]): string => join(folder, ...names);
  const stemma = (name: string, ...words: readonly string[]): Promise<ProgramResult> =>
    runStemmaHere(["reproduce", "study", "--study", at(name), ...words], { home: at("home") });
  const reportOf = ({ stdout }: ProgramResult): Report => JSON.parse(stdout) as Report;
  const runs = async (): Promise<number> => (await readFile(at("runs"), "utf8")).split("\n").length - 1;
  const equalOf = ({ setups }: Report): readonly unknown[] =>
    setups.map(({ setup, equal, pairs }) => [setup, equal, pairs]);
  const shell = ["--", "sh", "-c", program] as const;

  before(async () => {
    folder = await mkdtemp(join(tmpdir(), "stemma-study-test-"));
    Object.assign(process.env, { XDG_CACHE_HOME: at("cache"), TMPDIR: folder, RUNS: at("runs") });
  });
  after(async () => {
    for (const name of variables)
      if (before_[name] === undefined) Reflect.deleteProperty(process.env, name);
      else process.env[name] = before_[name];
    await rm(folder, { recursive: true, force: true });
  });

  it("measures every setup, each pair with a seed of its own", { skip: withoutCompiler }, async () => {
    const words = ["--pairs", "2", "--seeds", "5,9", "--patch", "PATCHED=1", "-o", "json"];
    const done = await stemma("all", ...words, ...shell);
    assert.equal(done.status, 0, done.stderr);
    const report = reportOf(done);
    assert.deepEqual(equalOf(report), [
      ["free", 0, 2],
      ["seed", 2, 2],
      ["record", 2, 2],
      ["patch", 2, 2],
      ["seed-patch", 2, 2],
      ["record-patch", 2, 2],
    ]);
    assert.deepEqual(
      report.pairs.filter(({ setup }) => setup === "seed").map(({ seed }) => seed),
      [5, 9],
    );
    assert.ok((report.profile?.bytes ?? 0) > 0);
    const { mode } = await stat(at("all"));
    assert.equal(mode & 0o077, 0);
    assert.ok(
      !(await readdir(at("all"))).some((name) => !name.endsWith(".json")),
      "no run and no profile stays",
    );
  });

  it("goes on after a failed run with the pairs that lack, and with more pairs", async () => {
    const setup = ["--setup", "seed,free", "-o", "json"];
    await rm(at("runs"), { force: true });
    await writeFile(at("fails"), "");
    const fails = `${program}; [ "$(wc -l < "$RUNS")" != 7 ] || [ ! -e ${at("fails")} ]`;
    const sh = ["--", "sh", "-c", fails];
    const failed = await stemma("again", "--pairs", "2", ...setup, ...sh);
    assert.match(failed.stderr, /TRAINER_FAILED/);
    assert.deepEqual((await readdir(at("again"))).sort(), [
      "free-1.json",
      "free-2.json",
      "seed-1.json",
      "study.json",
    ]);
    await rm(at("fails"));
    const done = await stemma("again", "--pairs", "2", ...setup, ...sh);
    assert.deepEqual(equalOf(reportOf(done)), [
      ["free", 0, 2],
      ["seed", 2, 2],
    ]);
    assert.equal(await runs(), 9, "only the pair that failed was run again");
    assert.equal(reportOf(await stemma("again", "--pairs", "3", ...setup, ...sh)).pairs.length, 6);
    assert.equal(await runs(), 13);
  });

  it("refuses to go on with another program, and a pair that is damaged", async () => {
    assert.match((await stemma("again", "--", "sh", "-c", "true")).stderr, /command.*differ.*USAGE/s);
    await stemma("damaged", "--pairs", "1", "--setup", "free", ...shell);
    const path = at("damaged", "free-1.json");
    await writeFile(path, (await readFile(path, "utf8")).replace('"different"', '"equally"'));
    assert.match((await stemma("damaged", "--setup", "free", ...shell)).stderr, /free-1\.json.*USAGE/s);
  });

  it("says that equal pairs show nothing where bare pairs were equal, too", async () => {
    const same = program.replace("${STEMMA_SEED:-$(od", "3; : $(true $(od").replace('" ")}', '" "))');
    const done = await stemma("same", "--pairs", "2", "--setup", "free,seed", "--", "sh", "-c", same);
    assert.equal(done.status, 5, done.stderr);
    assert.match(done.stdout, /control FAILED: none of \d+ bare pairs differed/);
  });

  it("refuses a setup with a patch where none is given, and unknown setups", async () => {
    assert.match((await stemma("none", "--setup", "patch", ...shell)).stderr, /--patch NAME=VALUE.*USAGE/s);
    assert.match((await stemma("none", "--setup", "seeds", ...shell)).stderr, /Setups: free, seed/);
    assert.match((await stemma("none", "--seeds", "1,x", ...shell)).stderr, /whole\s+numbers/);
  });
});
