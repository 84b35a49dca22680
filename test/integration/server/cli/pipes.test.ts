/** Pipes where a command takes a file: a command that opened one would wait for ever. */
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdir, mkdtemp, readdir, rename, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { runStemmaHere } from "../../../helpers/run-stemma-here.js";

describe("a pipe where a command takes a file", () => {
  let folder: string;
  const at = (...names: readonly string[]): string => join(folder, ...names);
  const run = async (words: readonly string[], home = at("home")): Promise<string> => {
    const { status, stderr } = await runStemmaHere([...words], { home });
    return `${status} ${stderr}`;
  };
  const refused = (path: string): RegExp => new RegExp(`^2 [^\n]*${path} is a pipe[^\n]*FILE_NOT_REGULAR`);
  before(async () => {
    folder = await mkdtemp(join(tmpdir(), "stemma-pipes-"));
    execFileSync("mkfifo", [at("pipe")]);
    await writeFile(at("phrase"), "a passphrase of some length\n");
    assert.match(await run(["device", "enroll", "v1", "--line", "l", "--file", at("v1.json")]), /^0/);
    const made = await run(["storage", "backup", at("backup"), "--passphrase-file", at("phrase")]);
    assert.match(made, /^0/);
  });
  after(() => rm(folder, { recursive: true, force: true }));

  it("is refused in a backup, whichever of its files it stands for", async () => {
    const files = (await readdir(at("backup"), { recursive: true, withFileTypes: true }))
      .filter((entry) => entry.isFile())
      .map(({ parentPath, name }) => join(parentPath, name));
    assert.ok(files.length >= 3);
    for (const path of files) {
      await rename(path, at("aside"));
      execFileSync("mkfifo", [path]);
      const ended = await run(
        ["storage", "restore", at("backup"), "--passphrase-file", at("phrase")],
        at("restored"),
      );
      assert.doesNotMatch(ended, /^0/, path);
      await rm(path);
      await rename(at("aside"), path);
      await rm(at("restored"), { recursive: true, force: true });
    }
  });

  const commands: readonly (readonly string[])[] = [
    ["storage", "restore", "backup", "--passphrase-file", "PIPE"],
    ["journal", "cosign", "PIPE"],
    ["journal", "head", "--witness", "PIPE"],
    ["journal", "head", "--enrolment", "PIPE"],
    ["journal", "verify", "--proof", "PIPE", "--key", "0".repeat(64)],
    ["journal", "verify", "--log", "PIPE", "--key", "0".repeat(64)],
    ["release", "sign", "PIPE", "--key", "PIPE"],
    ["release", "publish", "PIPE"],
    ["storage", "apply", "--plan", "PIPE"],
    ["authority", "add", "PIPE", "--name", "own"],
    ["recipe", "check", "PIPE"],
    ["data", "add", "x", "PIPE"],
    ["data", "add", "x", "PIPE", "--kind", "csv"],
    ["replay", "run", "PIPE"],
    ["trace", "0123456789abcdef", "--log", "PIPE"],
    ["context", "add", "x", "--at", "https://stemma.example", "--token-file", "PIPE"],
    ["context", "add", "x", "--at", "https://stemma.example", "--ca", "PIPE"],
  ];
  for (const words of commands)
    it(`is refused by ${words.slice(0, 3).join(" ")}`, async () => {
      await mkdir(at("empty"), { recursive: true });
      const given = words.map((word) =>
        word === "PIPE" ? at("pipe") : word === "backup" ? at("backup") : word,
      );
      assert.match(await run(given, words[1] === "restore" ? at("empty") : at("home")), refused(at("pipe")));
    });
});
