/**
 * Kills a worker process with SIGKILL in the middle of its work. The worker prints what it has acknowledged,
 * one line of JSON each; the test then opens the files that it left.
 */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

/**
 * Runs the worker until it has printed `acknowledgements` lines, waits `delayMs` more and kills it. Returns all
 * lines that it printed.
 */
export async function workUntilKilled<Acknowledged>(
  worker: URL,
  args: readonly string[],
  acknowledgements: number,
  delayMs: number,
): Promise<readonly Acknowledged[]> {
  const child = spawn(process.execPath, [fileURLToPath(worker), ...args], {
    stdio: ["ignore", "pipe", "pipe"],
  });
  const lines: Acknowledged[] = [];
  let stderrText = "";
  child.stderr.on("data", (chunk: Buffer) => {
    stderrText += chunk.toString();
  });
  const ended = new Promise<string | null>((resolve) => {
    child.on("exit", (_code, signal) => {
      resolve(signal);
    });
  });
  for await (const line of createInterface({ input: child.stdout })) {
    lines.push(JSON.parse(line) as Acknowledged);
    if (lines.length === acknowledgements) setTimeout(() => child.kill("SIGKILL"), delayMs);
  }
  assert.equal(await ended, "SIGKILL", `the worker ended by itself: ${stderrText}`);
  return lines;
}
