/** A server whose log cannot be written goes on serving, counts the lost lines, and stops when it is asked to. */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { closeSync, existsSync, openSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { it } from "node:test";
import { fileURLToPath } from "node:url";
import { connectOperations } from "../../../server/interface/http/client.js";
import { readHttpToken } from "../../../server/interface/http/token.js";
import type { ReadyServer } from "../../../server/run-server.js";
import { drawn } from "../../helpers/test-depth.js";

const program = fileURLToPath(new URL("../../../server/cli/main.js", import.meta.url));

for (const form of drawn(["plain", "json"], 1))
  it(`a ${form} log on a full device does not stop the server`, async (context) => {
    if (!existsSync("/dev/full")) {
      context.skip("this system has no /dev/full");
      return;
    }
    const folder = await mkdtemp(join(tmpdir(), "stemma-log-"));
    const full = openSync("/dev/full", "w");
    const home = join(folder, "home");
    const child = spawn(
      process.execPath,
      [
        program,
        ...["server", "--home", home, "--mqtt-port", "0", "--http-port", "0", "--tls", "none"],
        "--log",
        form,
        "-o",
        "json",
      ],
      {
        stdio: ["pipe", "pipe", full],
        env: { ...process.env, STEMMA_EXIT_WITH_STDIN: "1" },
      },
    );
    const ended = new Promise<unknown>((resolve) => {
      child.once("exit", (code, signal) => {
        resolve(signal ?? code);
      });
    });
    // Also where an assertion fails before the server was asked to stop.
    context.after(async () => {
      child.kill("SIGKILL");
      await ended;
      closeSync(full);
      await rm(folder, { recursive: true, force: true });
    });
    assert.ok(child.stdout);
    const { httpUrl, socketPath } = await readyServer(child.stdout);
    const operations = connectOperations({ socketPath });
    assert.equal((await operations.health()).pid, child.pid);
    await operations.close();
    const token = await readHttpToken(home);
    const metrics = await fetch(`${httpUrl}/metrics`, { headers: { authorization: `Bearer ${token}` } });
    assert.match(await metrics.text(), /^stemma_log_lines_dropped [1-9]/m);
    child.kill("SIGTERM");
    assert.equal(await ended, 0);
  });

/** Reads what the server prints when it is ready. Rejects when it ends before. */
async function readyServer(stdout: NodeJS.ReadableStream): Promise<ReadyServer> {
  let text = "";
  for await (const piece of stdout) {
    text += String(piece);
    if (text.endsWith("}\n")) return JSON.parse(text) as ReadyServer;
  }
  throw new Error(`the server ended before it was ready: ${text}`);
}
