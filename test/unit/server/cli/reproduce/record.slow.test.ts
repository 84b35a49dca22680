/** Randomness recorded and replayed with the compiler of this machine; without one, only the refusal is tested. */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdtemp, readdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { repositoryRoot } from "../../../../helpers/markdown.js";
import { runStemmaHere, type ProgramResult } from "../../../../helpers/run-stemma-here.js";

const hasCompiler = ["cc", "gcc", "clang"].some((name) => spawnSync(name, ["--version"]).status === 0);
const skip = hasCompiler && process.platform === "linux" ? false : "no C compiler for Linux here";
const example = join(repositoryRoot, "examples/unseeded-training.mjs");

describe("stemma reproduce record and replay", () => {
  let folder: string;
  const { XDG_CACHE_HOME: cache, CC: compiler, TMPDIR: temporary } = process.env;
  const at = (...names: readonly string[]): string => join(folder, ...names);
  const stemma = (...words: readonly string[]): Promise<ProgramResult> =>
    runStemmaHere(["reproduce", ...words], { home: at("home") });
  const good = async (...words: readonly string[]): Promise<string> => {
    const { status, stdout, stderr } = await stemma(...words);
    assert.equal(status, 0, stdout + stderr);
    return stdout + stderr;
  };
  const draw = (bytes: number): readonly string[] => [
    "sh",
    "-c",
    `head -c ${bytes} /dev/urandom | od -An -tx1`,
  ];

  before(async () => {
    folder = await mkdtemp(join(tmpdir(), "stemma-record-test-"));
    process.env["XDG_CACHE_HOME"] = at("cache");
    process.env["TMPDIR"] = folder;
  });
  after(async () => {
    for (const [name, value] of Object.entries({ XDG_CACHE_HOME: cache, CC: compiler, TMPDIR: temporary }))
      if (value === undefined) Reflect.deleteProperty(process.env, name);
      else process.env[name] = value;
    await rm(folder, { recursive: true, force: true });
  });

  it("is refused without a compiler, with what to do", async () => {
    process.env["CC"] = "no-such-compiler";
    const { status, stderr } = await stemma("record", "--profile", at("x"), "--", "node", "-e", "0");
    Reflect.deleteProperty(process.env, "CC");
    assert.equal(status, 1);
    assert.match(stderr, /no C compiler here \(no-such-compiler\).*RECORDER_UNAVAILABLE/s);
  });

  it("gives a program the bytes of its recording", { skip }, async () => {
    const profile = at("draws.profile");
    const recorded = await good("record", "--profile", profile, "--", ...draw(5));
    const bytes = /^ ?([0-9a-f]{2} ){4}[0-9a-f]{2}$/m.exec(recorded)?.[0];
    assert.match(recorded, /1 draw, 5 bytes, by 3 processes/);
    assert.equal((await stat(profile)).mode & 0o777, 0o600);
    assert.ok((await good("replay", profile, "--", ...draw(5))).includes(bytes ?? "no bytes"));
    // Descriptors that a program is given, and copies of them.
    const copied = ["sh", "-c", "dd of=/dev/null count=1 < /dev/urandom"];
    await good("record", "--force", "--profile", profile, "--", ...copied);
    assert.match(await good("replay", profile, "-o", "json", "--", ...copied), /"draws": 1/);
  });

  it("fails and names the place where a replay draws otherwise", { skip }, async () => {
    const profile = at("five.profile");
    await good("record", "--profile", profile, "--", ...draw(5));
    for (const [command, place] of [
      [draw(6), /draw 1 of stream \d \(head\).*5 bytes.*6 bytes/s],
      [["true"], /recorded process.*replayed nothing/s],
    ] as const) {
      const { status, stderr } = await stemma("replay", profile, "--run", at("never"), "--", ...command);
      assert.equal(status, 4);
      assert.match(stderr, place);
    }
    assert.equal(await stat(at("never")).catch(() => undefined), undefined);
    const damaged = await readFile(profile);
    await writeFile(profile, damaged.subarray(0, damaged.length - 1));
    assert.match((await stemma("replay", profile, "--", "true")).stderr, /RANDOM_PROFILE_INVALID/);
  });

  it("leaves nothing of a run that fails, takes too long, or draws without end", { skip }, async () => {
    const failures = [
      [["sh", "-c", "head -c 9 /dev/urandom; exit 3"], 1, /status 3.*TRAINER_FAILED/s],
      [["sh", "-c", "sleep 60"], 124, /TRAINER_TIMED_OUT/],
      [["sh", "-c", "cp /dev/zero /dev/full"], 1, /TRAINER_FAILED/],
      [["sh", "-c", "exec dd if=/dev/urandom of=/dev/null bs=1M"], 1, /TRAINER_OUTPUT_TOO_LARGE/],
    ] as const;
    for (const [command, wanted, text] of failures) {
      const seconds = wanted === 124 ? "1" : "60";
      const { status, stderr } = await stemma(
        "record",
        "--timeout",
        seconds,
        "--profile",
        at("none"),
        "--",
        ...command,
      );
      assert.equal(status, wanted, stderr);
      assert.match(stderr, text);
    }
    assert.deepEqual(
      (await readdir(folder)).filter((name) => /none|stemma-reproduce/.test(name)),
      [],
    );
  });

  it("makes two runs of the example equal, which differ without it", { skip }, async (t) => {
    const profile = at("example.profile");
    const text = await good(
      "record",
      "--profile",
      profile,
      "--run",
      at("a"),
      "--",
      process.execPath,
      example,
    );
    if (text.includes("NOT fixed")) {
      t.skip("this system does not let a program fix its addresses, which Node needs");
      return;
    }
    await good("replay", profile, "--run", at("b"), "--", process.execPath, example);
    assert.match(await good("compare", at("a"), at("b")), /equal by 6 of 7 criteria/);
    await good("record", "--force", "--profile", profile, "--run", at("c"), "--", process.execPath, example);
    assert.equal((await stemma("compare", at("a"), at("c"))).status, 4);
  });
});
