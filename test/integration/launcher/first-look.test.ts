/** A bare clone says what the programs say, without an installation. */
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { cp, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { repositoryRoot } from "../../helpers/markdown.js";

interface Answer {
  readonly status: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** What ./stemma of a checkout answers. Color and width follow no terminal. */
function answerOf(root: string, args: readonly string[]): Promise<Answer> {
  return new Promise((resolve) => {
    execFile(
      process.execPath,
      [join(root, "stemma"), ...args],
      { env: { PATH: process.env["PATH"] } },
      (error, stdout, stderr) => {
        resolve({ status: typeof error?.code === "number" ? error.code : 0, stdout, stderr });
      },
    );
  });
}

test("help, version and no argument are answered at once, and as the built programs do", async (t) => {
  const bare = await mkdtemp(join(tmpdir(), "stemma-bare-"));
  t.after(() => rm(bare, { recursive: true, force: true }));
  for (const name of ["stemma", "package.json", "launcher"])
    await cp(join(repositoryRoot, name), join(bare, name), { recursive: true });
  for (const program of [[], ["agent"]])
    for (const args of [[], ["--help"], ["-h"], ["help"], ["--version"], ["-V"]]) {
      const words = [...program, ...args];
      const [expected, actual] = await Promise.all(
        [repositoryRoot, bare].map((root) => answerOf(root, words)),
      );
      assert.deepEqual(
        actual,
        expected,
        `./stemma ${words.join(" ")}: write its help again, npm run build && node launcher/first-look.mjs`,
      );
    }
});
