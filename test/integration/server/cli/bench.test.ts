// Ctrl-C of a benchmark: one error with its code and exit status, no stack, nothing left behind.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { it } from "node:test";
import { fileURLToPath } from "node:url";
import { pollUntil } from "../../../helpers/poll-until.js";

const program = fileURLToPath(new URL("../../../../server/cli/main.js", import.meta.url));

it("ends a benchmark on SIGINT with INTERRUPTED and status 130", async () => {
  const temporary = await mkdtemp(join(tmpdir(), "stemma-bench-test-"));
  try {
    const child = spawn(process.execPath, [program, "bench", "save-recover", "--quick"], {
      stdio: ["ignore", "ignore", "pipe"],
      env: { ...process.env, TMPDIR: temporary },
    });
    let errors = "";
    child.stderr.setEncoding("utf8").on("data", (text: string) => {
      errors += text;
    });
    const ended = new Promise<number | null>((resolve) => {
      child.on("close", resolve);
    });
    await pollUntil("the benchmark's folder", async () => (await readdir(temporary)).length > 0);
    // Twice within moments, as npm and a terminal send it.
    child.kill("SIGINT");
    child.kill("SIGINT");
    assert.equal(await ended, 130);
    assert.match(errors, /\[INTERRUPTED\]\n$/);
    assert.equal(errors.trim().split("\n").length, 1, errors);
    assert.deepEqual(await readdir(temporary), []);
  } finally {
    await rm(temporary, { recursive: true, force: true });
  }
});
