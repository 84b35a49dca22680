/** The loop on programs of a shell: equal already, remedied by a flag, by a recording, and not at all. */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdtemp, readdir, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import type { LoopReport } from "../../../../../server/cli/reproduce/run-loop.js";
import { runStemmaHere, type ProgramResult } from "../../../../helpers/run-stemma-here.js";

const hasCompiler = ["cc", "gcc", "clang"].some((name) => spawnSync(name, ["--version"]).status === 0);
const skip = hasCompiler && process.platform === "linux" ? false : "no C compiler for Linux here";
/** Leaves a log whose loss is this. */
const trains = (loss: string): string =>
  `printf '{"epoch":1,"loss":%s}\\n' "${loss}" > "$STEMMA_RUN/log.jsonl"`;
const drawn = "$(od -An -N4 -tu4 /dev/urandom | tr -d ' ')";

describe("stemma reproduce run", () => {
  let folder: string;
  const { XDG_CACHE_HOME: cache, PYTHONHASHSEED: seed, CC: compiler, TMPDIR: temporary } = process.env;
  const at = (name: string): string => join(folder, name);
  const stemma = (...words: readonly string[]): Promise<ProgramResult> =>
    runStemmaHere(["reproduce", "run", ...words], { home: at("home") });
  const reported = async (program: string, ...words: readonly string[]): Promise<LoopReport> => {
    await rm(at("report.json"), { force: true });
    await stemma("--file", at("report.json"), "--", ...words, "-c", program);
    return JSON.parse(await readFile(at("report.json"), "utf8")) as LoopReport;
  };

  before(async () => {
    folder = await mkdtemp(join(tmpdir(), "stemma-loop-test-"));
    Object.assign(process.env, { XDG_CACHE_HOME: at("cache"), TMPDIR: folder });
    Reflect.deleteProperty(process.env, "PYTHONHASHSEED");
  });
  after(async () => {
    const before = { XDG_CACHE_HOME: cache, PYTHONHASHSEED: seed, CC: compiler, TMPDIR: temporary };
    for (const [name, value] of Object.entries(before))
      if (value === undefined) Reflect.deleteProperty(process.env, name);
      else process.env[name] = value;
    await rm(folder, { recursive: true, force: true });
  });

  it("says that a pair was equal already, and tries no remedy", async () => {
    const { status, stdout } = await stemma("--", "sh", "-c", trains("0.5"));
    assert.equal(status, 0);
    assert.match(stdout, /^equal already: two bare runs/);
    assert.match(stdout, /2 runs; no asset was named/);
    assert.match(stdout, /losses +equal: 1/);
  });

  it("refuses runs that leave nothing, fail, or change an asset", async () => {
    assert.match((await stemma("--", "sh", "-c", "true")).stderr, /left nothing in \$STEMMA_RUN.*NOT_FOUND/s);
    const failed = await stemma("--", "sh", "-c", `${trains("1")}; echo why >&2; exit 3`);
    assert.match(failed.stderr, /status 3; a run that fails counts as equal to none.*why/s);
    assert.match((await stemma("--timeout", "1", "--", "sh", "-c", "sleep 60")).stderr, /TRAINER_TIMED_OUT/);
    await writeFile(at("data"), "1");
    const changed = await stemma(
      "--asset",
      at("data"),
      "--",
      "sh",
      "-c",
      `${trains("1")}; echo 2 > ${at("data")}`,
    );
    assert.match(changed.stderr, /FILE_CHANGED/);
    assert.match((await stemma("--asset", at("none"), "--", "true")).stderr, /FILE_MISSING/);
    assert.deepEqual(
      (await readdir(folder)).filter((name) => name.startsWith("stemma-reproduce-")),
      [],
    );
  });

  it("makes a pair equal by a recording, and keeps it", { skip }, async () => {
    const { status, stdout } = await stemma("--keep", at("kept"), "--", "sh", "-c", trains(drawn));
    assert.equal(status, 0, stdout);
    assert.match(stdout, /^reproducible: two bare runs differed, and a pair was equal recorded and replayed/);
    assert.match(stdout, /1\. bare: different: the first criterion that fails is losses/);
    assert.match(stdout, /\/dev\/urandom, 4 times, 4 bytes, asked for by od/);
    const [one, other] = await Promise.all(
      ["first", "second"].map((name) => readFile(join(at("kept"), name, "log.jsonl"), "utf8")),
    );
    assert.equal(one, other);
    assert.ok((await readdir(at("kept"))).includes("randomness.profile"));
  });

  it("sets a flag that a loaded library reads, records which, and stops there", { skip }, async () => {
    await symlink("/bin/sh", at("python-of-the-test"));
    const program = `[ -n "$PYTHONHASHSEED" ] && L=1 || L=${drawn}; ${trains("$L")}`;
    const report = await reported(program, at("python-of-the-test"));
    assert.equal(report.equalBy, "with PYTHONHASHSEED=0");
    assert.deepEqual(report.flags, { PYTHONHASHSEED: "0" });
    assert.deepEqual([report.runs, report.steps.length], [5, 2]);
  });

  it("says what may be left where nothing helps", { skip }, async () => {
    const { status, stdout } = await stemma("--", "sh", "-c", trains("1$(date +%N)"));
    assert.equal(status, 4);
    assert.match(stdout, /^NOT reproducible by the remedies that are known here/);
    assert.match(stdout, /not supported, and possibly the cause/);
    assert.match(stdout, /2\. recorded and replayed: different/);
    // A run more draws a byte more: the replay cannot give it, and the pair is not equal although its files are.
    const counts = `n=$(cat ${at("n")} || echo 0); echo $((n + 1)) > ${at("n")}; head -c $((n + 1)) /dev/urandom`;
    const loss = `[ $n -lt 3 ] && L=$n || L=9; ${trains("$L")}`;
    const report = await reported(`{ ${counts}; } > /dev/null 2>&1; ${loss}`, "sh");
    assert.match(report.steps.at(-1)?.diverged ?? "", /head.*recorded \/dev\/urandom of 3 bytes/);
    assert.equal(report.equalBy, null);
  });

  it("goes on without a recorder, and says why nothing was recorded", async () => {
    process.env["CC"] = "no-such-compiler";
    const { status, stdout } = await stemma("--", "sh", "-c", trains(drawn));
    Reflect.deleteProperty(process.env, "CC");
    assert.equal(status, 4);
    assert.match(stdout, /not recorded: Randomness cannot be recorded here.*no C\s+compiler/s);
  });
});
